"""The fairness ledger: of all that was held, how much each had, how much was theirs by right, and who is ahead or behind.

Time is counted in parts of a GPU times microseconds, whole numbers both: sums are exact, and all that is ahead is behind elsewhere.
"""
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple, TypeVar

from gpufairy.core.cluster import Weights
from gpufairy.core.share import PARTS
from gpufairy.core.usage import HeldSeat, within

MICROSECOND = timedelta(microseconds=1)
PART_MICROS_OF_A_GPU_SECOND = PARTS * 1_000_000
LEAST_WEIGHT = Fraction(1, 10**9)  # of one whose share is nothing: what nobody else wants is theirs still

K = TypeVar("K")


class LedgerBy(StrEnum):
    USER = "user"
    TEAM = "team"


class Member(NamedTuple):
    """Somebody on behalf of a team. Without one they are a team of their own."""

    user: str
    team: str | None


# What befell sessions, in the words of their events, that a ledger counts.
COUNTED = ("lent", "shrunk", "reclaimed", "preempted")
Counts = tuple[tuple[str, int], ...]
NO_COUNTS: Counts = tuple((what, 0) for what in COUNTED)


@dataclass(frozen=True, slots=True)
class Use:
    """By the readings, in seconds of a whole GPU."""

    used_s: float | None = None  # None: it was never known
    unknown_s: float = 0.0  # held while the use was not known

    def __add__(self, other: "Use") -> "Use":
        used = [use for use in (self.used_s, other.used_s) if use is not None]
        return Use(sum(used) if used else None, self.unknown_s + other.unknown_s)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Of one user or team. Held, charged and entitled in parts times microseconds."""

    name: str
    team: str | None  # of a user, the one they held for, if it is one; of a team, itself; None: a user without one
    held: int = 0
    charged: int = 0  # the same by the scarcest thing of each seat: what fair share counts
    entitled: int = 0
    use: Use = Use()
    counts: Counts = NO_COUNTS

    @property
    def ahead(self) -> int:
        """Below 0: behind."""
        return self.held - self.entitled


@dataclass(frozen=True, slots=True)
class Ledger:
    since: datetime
    until: datetime
    by: LedgerBy
    rows: tuple[LedgerRow, ...]  # those furthest behind first

    @property
    def held(self) -> int:
        return sum(row.held for row in self.rows)


@dataclass(frozen=True, slots=True)
class Past:
    """What was written down of one stretch of time."""

    seats: Sequence[HeldSeat]
    askers: frozenset[Member]  # whoever had a session then that wants GPUs, waiting or not: one who got nothing is behind
    uses: Mapping[str, Use]  # by user
    counts: Mapping[tuple[Member, str], int]


def fair_ledger(past: Past, weights: Weights, by: LedgerBy, since: datetime, until: datetime) -> Ledger:
    held, charged = added_up(within(past.seats, since, until))
    members = sorted({*held, *past.askers}, key=lambda member: (member.user, member.team or ""))
    entitled = entitlements([member for member in members if held.get(member) or member in past.askers], sum(held.values()), weights)
    rows: dict[str, LedgerRow] = {}
    for member in members:
        name = row_name(member, by)
        row = rows.get(name, LedgerRow(name, member.team))
        rows[name] = replace(
            row, held=row.held + held.get(member, 0), charged=row.charged + charged.get(member, 0),
            entitled=row.entitled + entitled.get(member, 0), team=member.team if row.team == member.team else None,
        )  # fmt: skip
    counts, uses = counts_of(past, by), past.uses if by is LedgerBy.USER else uses_of_teams(past.uses, members, held)
    told = [replace(row, use=uses.get(row.name, Use()), counts=counts.get(row.name, NO_COUNTS)) for row in rows.values()]
    return Ledger(since, until, by, tuple(sorted(told, key=lambda row: (row.ahead, row.name))))


def added_up(seats: Iterable[HeldSeat]) -> tuple[dict[Member, int], dict[Member, int]]:
    held: dict[Member, int] = {}
    charged: dict[Member, int] = {}
    for seat in seats:
        member, micros = Member(seat.owner, seat.team), (seat.until - seat.since) // MICROSECOND
        held[member] = held.get(member, 0) + seat.seat.gpu_parts * micros
        charged[member] = charged.get(member, 0) + seat.seat.charge_parts * micros
    return held, charged


def entitlements(members: Sequence[Member], total: int, weights: Weights) -> dict[Member, int]:
    """Teams first, then users within each. To the last part: they add up to the total."""
    teams: dict[str, list[Member]] = {}
    for member in members:
        teams.setdefault(row_name(member, LedgerBy.TEAM), []).append(member)
    of_teams = apportion(total, {name: team_weight(them[0], weights) for name, them in teams.items()})
    entitled: dict[Member, int] = {}
    for name, them in teams.items():
        entitled |= apportion(of_teams[name], {member: weight_of(weights.users.get(member.user, 1.0)) for member in them})
    return entitled


def team_weight(member: Member, weights: Weights) -> Fraction:
    """Whoever has no team counts as one, by their own weight."""
    return weight_of(weights.users.get(member.user, 1.0) if member.team is None else weights.teams.get(member.team, 1.0))


def weight_of(weight: float) -> Fraction:
    return max(Fraction(weight), LEAST_WEIGHT)


def apportion(total: int, weights: Mapping[K, Fraction]) -> dict[K, int]:
    """The total in whole numbers by weight; what rounding leaves goes, one each, to those whom it cut most."""
    whole = sum(weights.values(), Fraction())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    given = {name: int(share) for name, share in exact.items()}
    cut_most = sorted(exact, key=lambda name: given[name] - exact[name])
    for name in cut_most[: total - sum(given.values())]:
        given[name] += 1
    return given


def row_name(member: Member, by: LedgerBy) -> str:
    """A user without a team is listed among the teams by their own name, so marked that no team can have it."""
    if by is LedgerBy.USER:
        return member.user
    return member.team if member.team is not None else f"user:{member.user}"


def counts_of(past: Past, by: LedgerBy) -> dict[str, Counts]:
    found: dict[str, dict[str, int]] = {}
    for (member, what), count in past.counts.items():
        of = found.setdefault(row_name(member, by), dict(NO_COUNTS))
        of[what] = of.get(what, 0) + count
    return {name: tuple(of.items()) for name, of in found.items()}


def uses_of_teams(uses: Mapping[str, Use], members: Sequence[Member], held: Mapping[Member, int]) -> dict[str, Use]:
    """Readings know users, not teams: of one who held for several teams nobody can tell for which the GPUs worked."""
    memberships, found = Counter(member.user for member in members), dict[str, Use]()
    for member in members:
        known = uses.get(member.user, Use()) if memberships[member.user] == 1 else Use(None, gpu_seconds(held.get(member, 0)))
        name = row_name(member, LedgerBy.TEAM)
        found[name] = found.get(name, Use()) + known
    return found


def gpu_seconds(part_micros: int) -> float:
    return part_micros / PART_MICROS_OF_A_GPU_SECOND
