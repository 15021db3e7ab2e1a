"""Whose turn it is, drawn: teams, and the users in them, with what they have had of late beside what their share is of it."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.cluster import Cluster
from gpufairy.core.ledger import TEAM
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS
from gpufairy.core.turn import standings
from gpufairy.web.speech import _
from gpufairy.web.times import column_figure, counted_gpus, figure_of
from gpufairy.web.words import hue_of

LEAST_GPUS = 0.005  # less is nothing: it is shown with two places
MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class Standing:
    """A user or a team. Bars are hundredths of the longest."""

    name: str
    is_team: bool
    within: bool  # a user under their team
    hue: str
    share: str
    had: str
    entitled: str
    holds: str
    waiting: int
    balance: str  # `0.4 GPU behind`
    behind: bool
    had_bar: float
    entitled_bar: float
    mine: bool


@dataclass(frozen=True, slots=True)
class Account:
    """As it is reckoned, in GPUs."""

    name: str
    team: str | None  # of a user, theirs; of a team, None
    weight: float
    had: float
    entitled: float
    holds: float
    waiting: int

    @property
    def standing(self) -> float:
        """What decides whose turn is next: the least first."""
        return self.had / self.weight if self.weight > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Figures:
    """By owner, and what was had by `team:NAME` too."""

    had: Mapping[str, float]
    holds: Mapping[str, float]
    waits: Mapping[str, int]


def fair_tree(cluster: Cluster, teams: Mapping[str, str | None], user: str, now: datetime) -> tuple[Standing, ...]:
    """`teams`: of every user. Those first whose turn is next; each team before its users."""
    found = accounts(cluster, teams, now)
    longest = max((max(one.had, one.entitled) for one in found), default=0.0)
    return tuple(standing(one, longest, user, teams.get(user)) for one in found[:MOST_ROWS])


def accounts(cluster: Cluster, teams: Mapping[str, str | None], now: datetime) -> list[Account]:
    waits = {owner: len(line) for owner, line in cluster.waiting.items()}
    seen = Figures(standings(cluster, now), held_gpus(cluster.holding), waits)
    had = {name for name, gpus in seen.had.items() if gpus >= LEAST_GPUS and not name.startswith(TEAM)}
    groups: dict[str, list[str]] = {}
    for owner in sorted({*had, *waits}):
        team = teams.get(owner)
        groups.setdefault(owner if team is None else TEAM + team, []).append(owner)
    weight = {group: weight_of(cluster, group) for group in groups}
    all_had, all_weight = sum(seen.had.get(group, 0.0) for group in groups), sum(weight.values())
    found = []
    for group, members in groups.items():
        entitled = all_had * weight[group] / all_weight if all_weight else 0.0
        waiting, held = sum(waits.get(owner, 0) for owner in members), sum(seen.holds.get(owner, 0.0) for owner in members)
        found.append((Account(group, None, weight[group], seen.had.get(group, 0.0), entitled, held, waiting), members))
    found.sort(key=lambda pair: (pair[0].standing, pair[0].name))
    return [one for top, members in found for one in (top, *within(cluster, top, members, seen))]


def within(cluster: Cluster, top: Account, members: Iterable[str], seen: Figures) -> list[Account]:
    """A team's users share out what the team had."""
    if not top.name.startswith(TEAM):
        return []
    weights = {owner: weight_of(cluster, owner) for owner in members}
    total = sum(weights.values())
    users = [
        Account(
            owner, top.name.removeprefix(TEAM), weight, seen.had.get(owner, 0.0), top.had * weight / total if total else 0.0,
            seen.holds.get(owner, 0.0), seen.waits.get(owner, 0),
        )
        for owner, weight in weights.items()
    ]  # fmt: skip
    return sorted(users, key=lambda one: (one.standing, one.name))


def weight_of(cluster: Cluster, name: str) -> float:
    if name.startswith(TEAM):
        return cluster.weights.teams.get(name.removeprefix(TEAM), 1.0)
    return cluster.weights.users.get(name, 1.0)


def held_gpus(holding: Iterable[Session]) -> dict[str, float]:
    held: dict[str, float] = {}
    for session in holding:
        if session.seat is not None:
            held[session.owner] = held.get(session.owner, 0.0) + session.seat.gpu_parts / PARTS
    return held


def standing(one: Account, longest: float, user: str, team: str | None) -> Standing:
    is_team, ahead = one.name.startswith(TEAM), one.had - one.entitled
    name = one.name.removeprefix(TEAM)
    return Standing(
        name, is_team, one.team is not None, hue_of(name), figure_of(one.weight), column_figure(one.had, 2), column_figure(one.entitled, 2),
        column_figure(one.holds, 2), one.waiting, balance_words(ahead), ahead < -LEAST_GPUS, bar_of(one.had, longest),
        bar_of(one.entitled, longest), name == (team if is_team else user),
    )  # fmt: skip


def balance_words(ahead: float) -> str:
    if abs(ahead) < LEAST_GPUS:
        return _("even")
    return (_("{gpus} ahead") if ahead > 0 else _("{gpus} behind")).format(gpus=counted_gpus(abs(ahead)))


def bar_of(gpus: float, longest: float) -> float:
    return 0.0 if longest <= 0 else round(100 * gpus / longest, 1)  # finer nobody sees, and a row that is the same is drawn once
