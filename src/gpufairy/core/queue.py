"""Queue: one owner's waiting sessions, in order, and by what they ask for. Kept as they come and go, never built anew.

A pass that learns that a shape does not fit leaves its whole group out, however many are in it.
"""
import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator
from datetime import datetime, timedelta
from operator import itemgetter
from typing import NamedTuple

from gpufairy.core.session import Request, Session
from gpufairy.core.share import Share

LONGEST_WAIT_S = 300  # between two tries of a session that an engine refused or that failed and may try again
LONGEST_REST = timedelta(seconds=LONGEST_WAIT_S)
# Of one that had to make room: for whom it left sits by then, and it cannot slip back into its own place before them.
AFTER_PREEMPTION = timedelta(seconds=5)

AFTER_ALL_OTHERS = 10_000_000  # more than any two priorities differ

Key = tuple[int, int, str]
_when = itemgetter(0, 1)  # of those who rest: until when, and their place


class Shape(NamedTuple):
    """What of a request decides whether it fits: in one pass room only shrinks, so one answer serves all of a shape."""

    share: Share
    cpus_milli: int | None
    memory_bytes: int | None
    gpu_kind: str | None
    pool: str | None
    gpu_memory_bytes: int | None
    on_gpu: str | None
    time_limit: timedelta | None
    image: str | None  # of those without a limit: by it their time is estimated
    preemptible: bool
    gang: str | None


def shape(request: Request) -> Shape:
    return Shape(
        request.share, request.cpus_milli, request.memory_bytes, request.gpu_kind, request.pool, request.gpu_memory_bytes, request.on_gpu,
        request.time_limit, request.image if request.time_limit is None else None, request.preemptible, request.gang,
    )  # fmt: skip


class Asked(NamedTuple):
    """What decides whether one of an owner's sessions may sit: its shape, and the team whose quotas and bookings are its own."""

    shape: Shape
    team: str | None


def asked_of(session: Session) -> Asked:
    return Asked(shape(session.request), session.team)


def rank(session: Session) -> int:
    """What counts before all else, the least first: priority. Those who may be sent away come after all for whom they would be: who
    has made room must not be given the same place again before the other has it."""
    return (AFTER_ALL_OTHERS if session.request.preemptible else 0) - session.priority


def queue_key(session: Session) -> Key:
    return rank(session), session.number, session.id


def ready_at(session: Session) -> datetime:
    """A session that was refused or failed before waits a little longer each time."""
    if not has_been_tried(session):
        return session.submitted_at
    failed = timedelta(seconds=min(2.0 ** (tries(session) - 1), LONGEST_WAIT_S)) if tries(session) else timedelta(0)
    return session.since + max(failed, AFTER_PREEMPTION if session.preempted else timedelta(0))


def rest_left(session: Session, now: datetime) -> timedelta:
    """None is longer than the longest: one that seems to be was written before the machine's clock was put back."""
    left = ready_at(session) - now
    return left if timedelta() < left <= LONGEST_REST else timedelta()


def tries(session: Session) -> int:
    """That went wrong: to have made room for others is no fault of its own."""
    return session.refusals + session.attempt - 1 - session.preempted


def has_been_tried(session: Session) -> bool:
    return tries(session) > 0 or session.preempted > 0


def sitting(asked: Shape) -> Shape:
    """What of a shape says where it fits and what it takes there, whatever its time and whoever asks."""
    return asked._replace(time_limit=None, image=None, gang=None)


def _put_in(line: list[Session], session: Session) -> None:
    """Most come last: whoever submits now, and all of them when a server starts. They need no search."""
    if line and queue_key(session) < queue_key(line[-1]):
        insort(line, session, key=queue_key)
    else:
        line.append(session)


class Queue:
    """Sorted lists: to find a place takes log n looks, and what moves for it is one block of pointers (30 µs for 100,000)."""

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self._sessions: list[Session] = []  # all of them
        self._resting: list[tuple[datetime, Key, Session]] = []  # tried before, by when they may be tried again
        self._groups: dict[Asked, list[Session]] = {}  # the others
        self._heads: list[tuple[Key, Asked]] = []  # of every group, its first
        for session in sessions:
            self.add(session)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """All of them, in order."""
        return iter(self._sessions)

    def add(self, session: Session) -> None:
        _put_in(self._sessions, session)
        if has_been_tried(session):
            insort(self._resting, (ready_at(session), queue_key(session), session), key=_when)
        else:
            self._join(session)

    def remove(self, session: Session) -> None:
        """The session as it was added."""
        del self._sessions[bisect_left(self._sessions, queue_key(session), key=queue_key)]
        when = ready_at(session), queue_key(session)
        at = bisect_left(self._resting, when, key=_when)
        if at < len(self._resting) and _when(self._resting[at]) == when:
            del self._resting[at]
        else:
            self._leave(session)

    def in_turn(self, now: datetime, refused: Container[Asked] = ()) -> Iterator[tuple[Session, Asked]]:
        """Those that may be tried now, in order, less what is in `refused`, to which the caller adds while it looks."""
        self._wake(now)
        groups = iter(self._heads)
        upcoming = next(groups, None)
        begun: list[tuple[Key, Asked, int]] = []  # a heap: of the groups already met, who is next in each
        while begun or upcoming is not None:
            if upcoming is not None and (not begun or upcoming[0] < begun[0][0]):
                (_, met), at, upcoming = upcoming, 0, next(groups, None)
            else:
                _, met, at = heapq.heappop(begun)
            if met in refused:
                continue
            group = self._groups[met]
            yield group[at], met
            if at + 1 < len(group):
                heapq.heappush(begun, (queue_key(group[at + 1]), met, at + 1))

    def _wake(self, now: datetime) -> None:
        """Whoever has rested long enough goes to its group, once: a pass that met all who rest would be as long as the queue."""
        due = bisect_right(self._resting, now, key=itemgetter(0))
        too_far = bisect_right(self._resting, now + LONGEST_REST, key=itemgetter(0))  # see rest_left
        for _, _, session in (*self._resting[:due], *self._resting[too_far:]):
            self._join(session)
        del self._resting[too_far:]
        del self._resting[:due]

    def _join(self, session: Session) -> None:
        group = self._groups.setdefault(asked_of(session), [])
        if group and queue_key(session) < queue_key(group[0]):
            self._forget_head(group[0])
        _put_in(group, session)
        if group[0] is session:
            self._note_head(session)

    def _leave(self, session: Session) -> None:
        of = asked_of(session)
        group = self._groups[of]
        at = bisect_left(group, queue_key(session), key=queue_key)
        del group[at]
        if at > 0:
            return
        self._forget_head(session)
        if group:
            self._note_head(group[0])
        else:
            del self._groups[of]

    def _note_head(self, session: Session) -> None:
        insort(self._heads, (queue_key(session), asked_of(session)), key=itemgetter(0))

    def _forget_head(self, session: Session) -> None:
        del self._heads[bisect_left(self._heads, queue_key(session), key=itemgetter(0))]
