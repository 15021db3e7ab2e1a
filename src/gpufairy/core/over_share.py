"""Over its share: what the readings say a session takes of a GPU beyond what it was given. Told at once, stopped by policy.

For what nothing enforces: time-sliced GPUs, sessions that are plain processes, programs that go round the share library.
An unknown reading is never taken for too much.
"""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpufairy.core.amounts import show_size
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.session import GpuSeat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SM, is_fraction

Key = tuple[str, str, str]  # session, GPU, MEMORY or SM

# Of each process, for what the driver counts and nobody asked for: its context, its programs' code, their local memory, allocations
# rounded up to 2 MiB. A PyTorch process by MPS at 50 % was measured to have 0.27 GiB beside what it allocated, a context without MPS 0.5.
SLACK_BYTES = 512 * 2**20
# Where the self-test found memory to be held, the share library has let all of it pass by its own count, in which contexts are estimates
# and code and local memory are missing. What is seen beyond is rather a gap in that count than a theft, and a wrong stop costs work.
HELD_SLACK_BYTES = 2**30
SLACK_BUSY = 0.15  # of the GPU's time: the driver's own figure is a mean over a sixth of a second
LOOKS = 3  # in a row, before anybody is told: what a process frees is seen a second later
TELL_AGAIN = timedelta(minutes=10)  # who is over for a few seconds in each round of its work would fill its own history


@dataclass(frozen=True, slots=True)
class Excess:
    """One session on one GPU, above what it was given."""

    session_id: str
    gpu: str
    what: str  # MEMORY or SM
    used: float  # bytes, or part of the GPU's time
    given: float
    neighbours: tuple[str, ...] = ()  # ids of the others on the same GPU

    @property
    def key(self) -> Key:
        return self.session_id, self.gpu, self.what

    @property
    def words(self) -> str:
        if self.what == MEMORY:
            return f"it holds {show_size(int(self.used))} of GPU memory, its share is {show_size(int(self.given))}"
        return f"it takes {self.used:.0%} of the GPU, its share is {self.given:.0%}"


def excesses(sample: NodeSample, sessions: Iterable[Session]) -> list[Excess]:
    """Of the sessions with a part of a GPU of this host."""
    on = {session.id: [process for process in sample.processes if process.owner.session_id == session.id] for session in sessions}
    seats = [(session, seat) for session in sessions if session.seat is not None for seat in session.seat.gpus]
    found: list[Excess] = []
    for session, seat in seats:
        if seat.simulated or not is_fraction(seat):
            continue
        neighbours = tuple(other.id for other, its in seats if its.uuid == seat.uuid and other.id != session.id)
        here = [process for process in on[session.id] if process.on.uuid == seat.uuid]
        found += [one for one in (_memory(session, seat, here, neighbours), _busy(session, seat, here, neighbours)) if one is not None]
    return found


def _memory(session: Session, seat: GpuSeat, here: Sequence[ProcessReading], neighbours: tuple[str, ...]) -> Excess | None:
    used = sum(process.on.memory_bytes or 0 for process in here)  # what is not known is not counted against anybody
    slack_bytes = HELD_SLACK_BYTES if MEMORY in seat.enforced else SLACK_BYTES
    if used <= seat.memory_bytes + slack_bytes * len(here):
        return None
    return Excess(session.id, seat.uuid, MEMORY, used, seat.memory_bytes, neighbours)


def _busy(session: Session, seat: GpuSeat, here: Sequence[ProcessReading], neighbours: tuple[str, ...]) -> Excess | None:
    """Only where it takes something from somebody, and in turns: by MPS a part of the multiprocessors may be busy all the time."""
    if not neighbours or seat.sharing is not Sharing.TIME:
        return None
    used, given = sum(process.on.utilisation or 0.0 for process in here), seat.parts / PARTS
    return Excess(session.id, seat.uuid, SM, used, given, neighbours) if used > given + SLACK_BUSY else None


@dataclass(frozen=True, slots=True)
class Over:
    """How long one has been over its share."""

    since: datetime  # of the excess, and from the last of LOOKS on of the grace
    looks: int
    in_grace: bool = False
    told_at: datetime | None = None  # of this excess, or of one not long before


@dataclass(frozen=True, slots=True)
class Judged:
    told: tuple[Excess, ...]
    stopped: tuple[Excess, ...]
    over: Mapping[Key, Over] = field(default_factory=dict)  # to be handed in with the next look


def judge(found: Iterable[Excess], before: Mapping[Key, Over], now: datetime, grace: timedelta | None) -> Judged:
    """`grace`: between being told and being stopped; None: nobody is stopped. Only memory is worth a stop: time comes back."""
    told, stopped = [], []
    # Who is no longer over begins anew, but is not told the same again at once.
    over = {key: Over(now, 0, told_at=last.told_at) for key, last in before.items() if _lately(last.told_at, now)}
    for one in found:
        last = before.get(one.key, Over(now, 0))
        is_over = not last.in_grace and last.looks + 1 >= LOOKS
        tell = is_over and not _lately(last.told_at, now)
        told_at = now if tell else last.told_at
        over[one.key] = Over(now if is_over else last.since, last.looks + 1, last.in_grace or is_over, told_at)
        if tell:
            told.append(one)
        elif last.in_grace and one.what == MEMORY and grace is not None and now - last.since >= grace:
            stopped.append(one)
    return Judged(tuple(told), tuple(stopped), over)


def _lately(told_at: datetime | None, now: datetime) -> bool:
    return told_at is not None and now - told_at < TELL_AGAIN
