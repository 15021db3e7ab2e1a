"""The MIG profiles that were asked for lately, as parts of all: the mix by which a GPU is cut (mig_worth.py)."""
from collections import Counter, deque
from collections.abc import Mapping

FIRST_LEARNT = 8  # requests: fewer say little, and all profiles count alike
TIMES_MORE = 4
KEPT = 512  # requests: the last of them are the mix
SETTLED = 128  # requests between two lessons, in the long run: each makes all cuts be weighed anew


class RecentProfiles:
    def __init__(self) -> None:
        self._kept: deque[str] = deque(maxlen=KEPT)
        self._learn_in = FIRST_LEARNT
        self.mix: Mapping[str, float] = {}

    def note(self, profile: str) -> bool:
        """Whether the mix is another now."""
        self._kept.append(profile)
        self._learn_in -= 1
        if self._learn_in:
            return False
        self._learn_in = min(SETTLED, len(self._kept) * (TIMES_MORE - 1))
        before, counted = self.mix, Counter(self._kept)
        self.mix = {name: count / counted.total() for name, count in sorted(counted.items())}
        return self.mix != before
