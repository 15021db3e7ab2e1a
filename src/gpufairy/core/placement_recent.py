"""Which past requests the mix is learnt from, and when to learn anew: often at first, then only when the mix has changed.

A change is one that chance does not explain: the last requests differ from what was learnt by more than two
samples of one mix would. What came before a change is forgotten.
"""
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from math import pi, sqrt
from typing import Any

from gpufairy.core.placement_mix import Pod

FIRST_LEARNT = 100  # pods: fewer say little
TIMES_MORE = 4  # learn again when so many times as many have come
WELL_KNOWN = 1600  # pods: what more of them would teach is lost in the noise of the futures drawn
MOST_KEPT = 6400  # pods; learnt from when the mix has changed slowly
WINDOW = 400  # pods between two looks at whether the mix has changed at once
BEYOND_CHANCE = 4  # standard deviations: a false alarm costs a lesson


class RecentPods:
    def __init__(self, hint: Iterable[Pod]) -> None:
        known = tuple(hint)
        self._kept: deque[Pod] = deque(known, maxlen=max(MOST_KEPT, len(known)))
        self._learnt: Counter[Hashable] = Counter()
        self._came = 0  # since the last lesson
        self._learn_at = FIRST_LEARNT

    def learnt(self) -> Iterable[Pod]:
        """What to learn from now."""
        known, self._came = len(self._kept), 0
        if known < FIRST_LEARNT:
            return ()
        self._learnt = _counted(self._kept)
        self._learn_at = known * (TIMES_MORE - 1) if known < WELL_KNOWN else MOST_KEPT
        return tuple(self._kept)

    def retell(self, told: Callable[[Any], Pod]) -> None:
        """What was asked for is the same, but is another pod on other nodes."""
        self._kept = deque(map(told, self._kept), maxlen=self._kept.maxlen)

    def note(self, pod: Pod) -> bool:
        """Whether it is time to learn."""
        self._kept.append(pod)
        self._came += 1
        if self._came >= self._learn_at:
            return self._learnt.total() < WELL_KNOWN or self._have_changed(self._came)
        return self._came % WINDOW == 0 and self._have_changed(WINDOW)

    def _have_changed(self, count: int) -> bool:
        """The last so many; then all that came before them is forgotten."""
        last = [self._kept[-place] for place in range(min(count, len(self._kept)), 0, -1)]
        if differ(self._learnt, _counted(last)):
            self._kept = deque(last, maxlen=MOST_KEPT)
            return True
        if count >= self._learn_at:
            self._learn_at += MOST_KEPT
        return False


def differ(one: Counter[Hashable], other: Counter[Hashable]) -> bool:
    """Whether two samples are of different mixes, by the sum of the distances between their parts."""
    many, few = one.total(), other.total()
    if not many or not few:
        return False
    distance = by_chance = variance = 0.0
    for shape in one.keys() | other.keys():
        part = (one[shape] + other[shape]) / (many + few)
        distance += abs(one[shape] / many - other[shape] / few)
        spread = part * (1 - part) * (1 / many + 1 / few)
        by_chance += sqrt(spread * 2 / pi)  # the mean of the absolute value of a normal variable; below its variance
        variance += spread * (1 - 2 / pi)
    return distance > by_chance + BEYOND_CHANCE * sqrt(variance)


def _counted(pods: Iterable[Pod]) -> Counter[Hashable]:
    return Counter((pod.cpu, pod.num_gpu, pod.gpu_milli, pod.models) for pod in pods)
