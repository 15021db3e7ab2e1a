"""Floor: where a request sits down best. It keeps every node's room between planning passes, and learns from those who come.

A pass costs what has changed since the last. What is tried first is a guess by arrays (scenario_fit.py, mig_worth.py; while nothing is
learnt, fractions fill what is open already); the answer is always that of the exact room.
"""
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

import numpy as np

from gpufairy.core.booking import OPEN, Calendar
from gpufairy.core.fit import NO_PREFERENCE, Preference, Refusal, is_kind
from gpufairy.core.floor_leavers import NEVER_US, NOWHERE, micros, moment
from gpufairy.core.floor_rooms import FloorRooms
from gpufairy.core.floor_wish import Costs, FloorPod, Key, Nodes, Usual, Wish, key_of, pod_of
from gpufairy.core.floor_words import NAMED, TOO_FEW_GPUS, others, promising
from gpufairy.core.hope import Hope
from gpufairy.core.mig_recent import RecentProfiles
from gpufairy.core.mig_seat import CutChoice, best_cut
from gpufairy.core.node import Node, NodeState
from gpufairy.core.room import Room
from gpufairy.core.run_time import RunTimes
from gpufairy.core.scenario_fit import ScenarioFit
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import ShareKind
from gpufairy.core.timeline import NEVER, end_of

SEED = 42  # of the futures that are drawn; others place alike (docs/placement.md), and the same makes the same plan twice
MOST_COUNTED = 200_000  # sessions remembered as counted in the mix; one that is tried again after so many counts twice
LOG_KEPT = 4  # times as many changes as there are nodes; whoever is further behind looks at all of them anew
MOST_WISHES = 2000  # shapes whose costs are kept
MOST_CELLS = 8_000_000  # of all of them, over the nodes: 32 to 64 MB
FEW = 16  # nodes: to ask each of them is sooner done than to look at arrays

# The cost where it does not fit.
MOST = {np.dtype(kind): np.iinfo(kind).max for kind in (np.int32, np.int64)}

Fitted = Callable[[Room, Preference], Seat | Refusal]


class Floor:
    def __init__(self, past: Iterable[Request] = ()) -> None:
        """`past`: requests like those to come, oldest first: what was asked for before, say."""
        self._past = list(past)
        self._there = FloorRooms()
        self._usual = Usual.of(())
        self._counted: dict[str, None] = {}  # oldest first
        self._profiles = RecentProfiles()
        self._placer: ScenarioFit | None = None  # None: there has been no node yet
        self._wishes: dict[Key, Wish] = {}  # who was asked about last, last
        self.totals = self._there.totals

    @property
    def rooms(self) -> Mapping[str, Room]:
        return self._there.by_name

    def follow(self, nodes: Sequence[Node], holding: Sequence[Session]) -> None:
        """What was taken since the last time, and is not among those who hold seats, is given back by this."""
        if self._there.follow(nodes, holding):
            self._begin_anew([room.node for room in self._there.rows])
        if self._placer is not None and self._there.arrays.log.is_longer_than(LOG_KEPT * self._there.arrays.n):
            self._placer.follow(self._there.arrays)
            self._there.arrays.log.forget()

    def take(self, session: Session, seat: Seat) -> None:
        self._there.take(session, seat)

    def give_back(self, session: Session) -> None:
        self._there.leave(session.id)

    def hopes(self, request: Request, now: datetime, run_times: RunTimes, calendar: Calendar) -> Iterator[Hope]:
        """The nodes on which it might fit once others have left, the nearest in time first; on no other does it."""
        if self._placer is None or not self.rooms:
            return
        wish, rows = self._wish(request), self._there.rows
        nodes = np.flatnonzero(wish.could_fit())
        if not len(nodes):
            return
        self._refresh(wish, self._placer)
        self._there.leavers.write_down()
        missing, ends = wish.missing(wish.costs == MOST[wish.costs.dtype]), self._ends_of_endless(now, run_times)
        soon = self._there.leavers.soonest(missing, now, ends)
        when, gone = soon.when_us[nodes], soon.gone[nodes]
        booked = {self._there.row_of_gpu.get(gpu, NOWHERE) for booking in calendar.bookings for gpu in booking.gpus}
        may_leave = np.isin(nodes, list(booked))  # for a booking, whenever that is
        when[may_leave], gone[may_leave] = micros(now), 0
        for at in np.lexsort((gone, when)).tolist():
            room, when_us = rows[int(nodes[at])], int(when[at])
            sitting = self._there.sitting_on(room.node.name, now)
            yield Hope(NEVER if when_us == NEVER_US else moment(when_us), int(gone[at]), room, sitting)

    def _ends_of_endless(self, now: datetime, run_times: RunTimes) -> dict[int, int]:
        ends = {place: end_of(session, now, run_times) for place, session in self._there.leavers.endless().items()}
        return {place: micros(end) for place, end in ends.items() if end != NEVER}

    def seat(self, session: Session, fitted: Fitted, closed: Mapping[str, str] = OPEN) -> Seat | tuple[Refusal, ...]:
        """The best that `fitted` says yes to; else why not, of the most promising nodes in words and of the others in numbers.

        `closed`: GPUs to which `fitted` says no, so that they need not be tried one by one.
        """
        if self._placer is None or not self.rooms:
            return ()
        if session.id not in self._counted:
            self._count(session, self._placer)
        if len(self._there.rows) <= FEW and (refusals := self._refused_by_all(fitted)):
            return refusals
        wish = self._wish(session.request)
        self._refresh(wish, self._placer)
        of_gpus, most = session.request.share.kind is not ShareKind.NONE, MOST[wish.costs.dtype]
        costs = self._less_those_closed(wish.costs, closed) if closed and of_gpus else wish.costs
        refused: dict[int, Refusal] = {}
        later = None if self._there.arrays.coming is None else costs[self._there.arrays.coming]
        if later is not None:
            costs = costs.copy()
            costs[self._there.arrays.coming] = most
        while costs[node := int(costs.argmin())] < most or later is not None:
            if later is not None and costs[node] == most:  # none that is there will do
                costs[self._there.arrays.coming], later = later, None
                continue
            answer = fitted(self._there.rows[node], self._preference(wish, node, self._placer))
            if isinstance(answer, Seat):
                return answer
            if costs is wish.costs:
                costs = costs.copy()
            refused[node], costs[node] = answer, most
        if refused or closed:
            return self._refusals(wish, refused, fitted)
        if wish.words_seen != wish.seen:  # the same for all who ask alike, until something changes
            wish.words, wish.words_seen = self._refusals(wish, refused, fitted), wish.seen
        return wish.words

    def _begin_anew(self, nodes: Sequence[Node]) -> None:
        """Nodes came or went. What was learnt stays."""
        self._usual, self.totals = Usual.of(nodes), self._there.totals
        self._wishes.clear()
        if not nodes:
            return
        if self._placer is not None:
            self._placer.renew(self._there.arrays, lambda pod: self._pod(pod.request))
        else:
            self._placer = ScenarioFit()
            plain = [one for one in self._past if one.share.kind is not ShareKind.MIG]
            self._placer.prepare(self._there.arrays, [self._pod(one) for one in plain], SEED)
            for one in self._past:
                if one.share.kind is ShareKind.MIG:
                    self._profiles.note(one.share.profile)
            self._past = []

    def _wish(self, request: Request) -> Wish:
        key = key_of(request)
        wish = self._wishes.pop(key, None)
        if wish is None:
            on_node = None if request.on_gpu is None else self._there.row_of_gpu.get(request.on_gpu)
            wish = Wish(request, self._there.arrays, self._usual, on_node)
            most = min(MOST_WISHES, MOST_CELLS // self._there.arrays.n)
            while self._wishes and len(self._wishes) >= most:
                del self._wishes[next(iter(self._wishes))]
        self._wishes[key] = wish
        return wish

    def _refused_by_all(self, fitted: Fitted) -> tuple[Refusal, ...]:
        """By each node, the most promising first; none if one has a seat."""
        free = self._there.arrays.to_all.total
        refusals = []
        for row, room in enumerate(self._there.rows):
            answer = fitted(room, NO_PREFERENCE)
            if isinstance(answer, Seat):
                return ()
            refusals.append((room.node.state is not NodeState.READY, -free.item(row), row, answer))
        return tuple(answer for *_, answer in sorted(refusals, key=itemgetter(0, 1, 2)))

    def _refresh(self, wish: Wish, placer: ScenarioFit) -> None:
        """So that the costs are those of all nodes as they are now."""
        log = self._there.arrays.log
        changed, wish.seen = None if wish.seen < 0 else log.since(wish.seen), len(log)
        if changed is None or len(changed) > self._there.arrays.n:
            kind = np.dtype(np.int32 if placer.has_learnt and not wish.is_mig else np.int64)
            wish.costs = np.full(self._there.arrays.n, MOST[kind], dtype=kind)
            nodes = np.flatnonzero(wish.may_fit(None))
        elif len(changed):
            wish.costs[changed] = MOST[wish.costs.dtype]
            nodes = changed[wish.may_fit(changed)]
        else:
            return
        if len(nodes):
            wish.costs[nodes] = self._costs(wish, nodes, placer)

    def _count(self, session: Session, placer: ScenarioFit) -> None:
        """It comes for the first time: it counts in the mix of what is asked for, by which all is judged anew at times."""
        self._counted[session.id] = None
        if len(self._counted) > MOST_COUNTED:
            del self._counted[next(iter(self._counted))]
        is_mig, lessons = session.request.share.kind is ShareKind.MIG, placer.lessons
        if is_mig:
            learnt = self._profiles.note(session.request.share.profile)
        else:
            placer.note(self._pod(session.request), self._there.arrays)
            learnt = placer.lessons > lessons
        if learnt:
            self._wishes = {key: wish for key, wish in self._wishes.items() if wish.is_mig is not is_mig}

    def _pod(self, request: Request) -> FloorPod:
        known = self._wishes.get(key_of(request))
        return pod_of(request, self._usual, self._there.arrays.models) if known is None else known.pod

    def _costs(self, wish: Wish, nodes: Nodes, placer: ScenarioFit) -> Costs:
        if wish.is_mig:
            return np.array([self._cost_of_cut(wish, self._there.rows[node]) for node in nodes.tolist()], dtype=np.int64)
        host = wish.memory if placer.counts_memory else wish.cpus
        costs = placer.costs(wish.taking, self._there.arrays, nodes, host if isinstance(host, int) else host.take(nodes))
        return costs if placer.has_learnt else costs + wish.harm(nodes)

    def _cost_of_cut(self, wish: Wish, room: Room) -> int:
        request = wish.request
        gpus = [gpu for gpu in room.gpus if gpu.gpu.mig is not None and is_kind(gpu.gpu.kind, request.gpu_kind)]
        choice = best_cut(request.share.profile, gpus, self._profiles.mix)
        return MOST[np.dtype(np.int64)] if choice is None else as_one_number(choice)

    def _preference(self, wish: Wish, node: int, placer: ScenarioFit) -> Preference:
        if wish.is_mig:
            return Preference(profiles=self._profiles.mix)
        if not wish.is_fraction or len(self._there.arrays.plain[node]) == 1 or not placer.has_learnt:
            return NO_PREFERENCE
        host = wish.memory if placer.counts_memory else wish.cpus
        device = placer.device(wish.taking, self._there.arrays, node, host if isinstance(host, int) else host.item(node))
        return Preference(self._there.rows[node].gpus[self._there.arrays.plain[node][device]].gpu.uuid)

    def _less_those_closed(self, costs: Costs, closed: Mapping[str, str]) -> Costs:
        """Without the nodes all of whose GPUs are closed."""
        shut = Counter(self._there.row_of_gpu[uuid] for uuid in closed if uuid in self._there.row_of_gpu)
        left = costs.copy()
        left[[node for node, count in shut.items() if count == self._there.arrays.all_gpus[node]]] = MOST[costs.dtype]
        return left

    def _refusals(self, wish: Wish, refused: Mapping[int, Refusal], fitted: Fitted) -> tuple[Refusal, ...]:
        lacks = wish.first_lacks()
        open_to_none = wish.costs == MOST[wish.costs.dtype]
        np.copyto(lacks, np.int8(TOO_FEW_GPUS), where=(lacks == 0) & open_to_none)  # of MIG the arrays know little
        named = list(refused)[:NAMED]
        named += promising(lacks, self._there.arrays.to_all.total, leave_out=refused, most=NAMED - len(named))
        answers = [refused.get(node) or fitted(self._there.rows[node], NO_PREFERENCE) for node in named]
        said = [answer for answer in answers if isinstance(answer, Refusal)]
        return (*said, *others(lacks, named))


def as_one_number(choice: CutChoice) -> int:
    """In the same order; a GPU has at most some dozen slices."""
    unusable = round((choice.unusable_more + 64) * 1_000_000)
    return (choice.to_be_cut << 60) + (unusable << 24) + (choice.left << 16) + ((choice.region_less + 64) << 8) + choice.start_less + 64
