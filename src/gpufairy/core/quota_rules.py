"""Quota rules: what a user or team may hold at most, which quotas are about whom, and in words what one says that leaves no room.

A session counts for its owner's quotas and its team's, for those of any kind of GPU and those of its kind.
"""
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpufairy.core.fit import is_kind
from gpufairy.core.week_use import accounts

ANY_KIND = "*"
EACH_USER, EACH_TEAM = "user:*", "team:*"  # for everybody who has no quota of their own for that kind


@dataclass(frozen=True, slots=True)
class Quota:
    of: str  # user:NAME, team:NAME; user:* and team:* are for each who has none of their own
    gpu_kind: str = ANY_KIND
    gpu_parts: int | None = None  # held at once; None: no bound
    gpu_hours_week: float | None = None  # held in the last seven days
    sessions: int | None = None  # with a seat at once
    disk_bytes: int | None = None  # of a user's home; not of teams, nor of a kind of GPU


@dataclass(frozen=True, slots=True)
class Rule:
    """A quota as it holds for one: that for each is counted for each on their own."""

    who: str  # user:NAME or team:NAME
    quota: Quota


@dataclass(slots=True)
class Used:
    """What of a rule is used."""

    gpu_parts: int = 0
    gpu_seconds: float = 0.0  # of the last seven days
    sessions: int = 0


class Bound(StrEnum):
    GPUS = "gpus"
    HOURS = "gpu_hours"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True)
class Over:
    """One bound that leaves no room for what is asked. In GPUs, GPU-hours or sessions."""

    rule: Rule
    bound: Bound
    limit: float
    used: float
    asked: float

    @property
    def why(self) -> str:
        """`team nlp holds 4 of its 4 GPUs; 2 asked. It starts when ...`"""
        team = self.rule.who.startswith("team:")
        who, its, theirs = subject(self.rule.who), "its" if team else "their", "the team's" if team else "theirs"
        kind = "" if self.rule.quota.gpu_kind == ANY_KIND else f"{self.rule.quota.gpu_kind} "
        if self.bound is Bound.SESSIONS:
            on = f" with {kind}GPUs" if kind else ""
            return f"{who} has {self.used:g} of {its} {self.limit:g} sessions{on} at once. It starts when one of {theirs} ends."
        if self.bound is Bound.HOURS:
            found = f"{who} held {self.used:.1f} {kind}GPU-hours in the last 7 days, {its} quota is {self.limit:g}"
            return f"{found}. It starts when enough of them lie more than a week back; with --preemptible it may borrow."
        found = f"{who} holds {self.used:g} of {its} {self.limit:g} {kind}GPUs; {self.asked:g} asked"
        return f"{found}. It starts when one of {theirs} ends; with --preemptible it may borrow."


def subject(who: str) -> str:
    """`team nlp` of team:nlp, `ann` of user:ann."""
    return who.removeprefix("user:") if who.startswith("user:") else who.replace(":", " ", 1)


def is_about(quota: Quota, kind: str) -> bool:
    """`A100` is about any A100, as in a request."""
    return quota.gpu_kind == ANY_KIND or is_kind(kind, quota.gpu_kind)


def rules_for(quotas: Iterable[Quota], owner: str, team: str | None) -> tuple[Rule, ...]:
    """Their own quota of a kind; where they have none, the one for each."""
    by_name: dict[str, dict[str, Quota]] = defaultdict(dict)
    for quota in quotas:
        by_name[quota.of][quota.gpu_kind] = quota
    found = []
    for who in accounts(owner, team):
        default = EACH_TEAM if who.startswith("team:") else EACH_USER
        found += [Rule(who, quota) for quota in {**by_name[default], **by_name[who]}.values()]
    return tuple(found)
