"""Usage: GPU-time held and GPU-time used, kept apart; and of what was held, for how much nobody knows the use."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gpufairy.core.series import Kind, Subject, Total
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS

INSTANCE = "MIG-"  # how the UUID of an instance begins; its use is in that of its GPU

Totals = Mapping[Subject, Mapping[str, Total]]


class By(StrEnum):
    USER = "user"
    SESSION = "session"
    GPU = "gpu"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class HeldSeat:
    """A seat that a session held, or holds until now."""

    session_id: str
    owner: str
    seat: Seat
    since: datetime
    until: datetime
    team: str | None = None  # that it was held for

    @property
    def seconds(self) -> float:
        return max(0.0, (self.until - self.since).total_seconds())


@dataclass(frozen=True, slots=True)
class UsageRow:
    """In seconds of a whole GPU."""

    name: str  # of the user, node; id of the session; UUID of the GPU
    held_s: float = 0.0  # by the ledger, exact
    used_s: float | None = None  # by the readings; None: it was never known
    unknown_s: float = 0.0  # held while the use was not known
    outside_s: float | None = None  # used without holding; of users alone
    node: str | None = None  # of a GPU
    owner: str | None = None  # of a session


def within(seats: Iterable[HeldSeat], since: datetime, until: datetime) -> list[HeldSeat]:
    """Each cut to what of it lies in between; those with nothing there are left out."""
    cut = (replace(held, since=max(held.since, since), until=min(held.until, until)) for held in seats)
    return [held for held in cut if held.until > held.since]


def source_of(by: By) -> Kind:
    """Whose readings tell it: a node's is that of its GPUs."""
    return {By.USER: Kind.USER, By.SESSION: Kind.SESSION, By.GPU: Kind.GPU, By.NODE: Kind.GPU}[by]


def usage_of(by: By, seats: Iterable[HeldSeat], totals: Totals) -> list[UsageRow]:
    """Most held first."""
    held: dict[str, float] = {}
    told: dict[str, _Told] = {}
    beside: dict[str, tuple[str | None, str | None]] = {}  # node, owner
    for seat in seats:
        for name, node, share in _places(by, seat):
            held[name] = held.get(name, 0.0) + share * seat.seconds
            beside[name] = (node, seat.owner if by is By.SESSION else None)
    for subject, columns in totals.items():
        if subject.kind is Kind.GPU and subject.name.startswith(INSTANCE):
            continue
        name = subject.node if by is By.NODE else subject.name
        told[name] = told.get(name, _Told()) + _told(subject.kind, columns)
        beside.setdefault(name, (subject.node if by is By.GPU else None, None))
    rows = [_row(name, held.get(name, 0.0), told.get(name, _Told()), *beside[name]) for name in beside]
    return sorted(rows, key=lambda row: (-row.held_s, row.name))


@dataclass(frozen=True, slots=True)
class _Told:
    """What the readings say. `known_held_s`: of the time that was held, for how much the use is known."""

    used_s: float | None = None
    known_held_s: float = 0.0
    outside_s: float | None = None

    def __add__(self, other: "_Told") -> "_Told":
        used, outside = _sum(self.used_s, other.used_s), _sum(self.outside_s, other.outside_s)
        return _Told(used, self.known_held_s + other.known_held_s, outside)


def _told(kind: Kind, columns: Mapping[str, Total]) -> _Told:
    if kind is Kind.GPU:
        known_held_s = columns["held"].value_s - columns["held_unknown"].value_s
        return _Told(_known(columns["utilisation"]), known_held_s)
    known_held_s = columns["gpus_held"].value_s - columns["gpus_unknown"].value_s
    outside_s = _known(columns["gpus_outside"]) if kind is Kind.USER else None
    return _Told(_known(columns["gpus_used"]), known_held_s, outside_s)


def _known(total: Total) -> float | None:
    return total.value_s if total.known_s else None


def _row(name: str, held_s: float, told: _Told, node: str | None, owner: str | None) -> UsageRow:
    return UsageRow(name, held_s, told.used_s, max(0.0, held_s - told.known_held_s), told.outside_s, node, owner)


def _places(by: By, held: HeldSeat) -> Iterable[tuple[str, str | None, float]]:
    """The names that it counts for, each with the share of a GPU."""
    gpus = held.seat.gpus
    match by:
        case By.USER:
            yield held.owner, None, held.seat.gpu_parts / PARTS
        case By.SESSION:
            yield held.session_id, None, held.seat.gpu_parts / PARTS
        case By.NODE:
            yield held.seat.node, None, held.seat.gpu_parts / PARTS
        case By.GPU:
            yield from ((gpu.uuid, held.seat.node, gpu.parts / PARTS) for gpu in gpus)


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other
