"""Allowances: what is left of every quota while a plan is made. Who is over waits, and is told by which quota.

Preemptible sessions are under no quota of GPUs: what nobody entitled uses they may borrow, and they leave when it is wanted.
"""
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from gpufairy.core.fit import is_kind
from gpufairy.core.node import Gpu, Node
from gpufairy.core.quota_rules import ANY_KIND, EACH_TEAM, EACH_USER, Bound, Over, Quota, Rule, Used, is_about, rules_for
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.core.week_use import WEEK, WeekUse, accounts, taken_parts

__all__ = ["ANY_KIND", "Allowances", "Quota", "WeekUse"]


class Allowances:
    """What is left of every quota in one planning pass. Tell it who was placed."""

    def __init__(
        self, quotas: Sequence[Quota], holding: Iterable[Session], week: WeekUse, now: datetime, nodes: Sequence[Node] = ()
    ) -> None:
        self._quotas, self._week, self._now, self._nodes = quotas, week, now, nodes
        self._rules: dict[tuple[str, str | None], tuple[Rule, ...]] = {}
        self._used: dict[Rule, Used] = {}
        for session in holding if quotas else ():
            if session.seat is not None:
                self.placed(session, session.seat)
                self._count_time(session, session.seat)

    def refusal(self, session: Session, seat: Seat) -> str | None:
        """By which quota it may not have this seat, in words."""
        for rule in self._rules_of(session.owner, session.team):
            meant = [gpu for gpu in seat.gpus if is_about(rule.quota, gpu.kind)]
            if meant or rule.quota.gpu_kind == ANY_KIND:
                over = self._over(rule, sum(map(taken_parts, meant)), session.request.preemptible, 1)
                if over is not None:
                    return over.why
        return None

    def refusal_anywhere(self, session: Session) -> str | None:
        """By which quota it may have no seat now, wherever there is room: then no room is kept for it."""
        over = self.over_anywhere(session.owner, session.team, session.request)
        return None if over is None else over.why

    def over_anywhere(self, owner: str, team: str | None, request: Request, count: int = 1) -> Over | None:
        """`count`: of those who start together or not at all."""
        rules = self._rules_of(owner, team)
        if not rules:
            return None
        asked = {kind: parts * count for kind, parts in self._asked_of_kinds(request).items()}
        least = min(asked.values(), default=0)
        for rule in rules:
            over = self._over(rule, least, request.preemptible, count) if rule.quota.gpu_kind == ANY_KIND else None
            if over is not None:
                return over
        overs = [self._over_on(rules, kind, parts, request.preemptible, count) for kind, parts in asked.items()]
        return overs[0] if overs and None not in overs else None

    def closed(self, session: Session) -> Mapping[str, str]:
        """GPUs, by UUID, of kinds of which its owner or team may have no more, each with why. Other kinds are open to it."""
        rules = self._rules_of(session.owner, session.team)
        if all(rule.quota.gpu_kind == ANY_KIND for rule in rules):
            return {}
        shut: dict[str, str] = {}
        for kind, parts in self._asked_of_kinds(session.request).items():
            over = self._over_on(rules, kind, parts, session.request.preemptible, 1)
            if over is not None:
                shut.update(dict.fromkeys(self._uuids[kind], over.why))
        return shut

    def concerns(self, owner: str, team: str | None) -> bool:
        """Whether a quota closes a kind to them that is open to others: then others' answers say nothing of theirs.

        One who is over a quota of any kind is refused by name in any case.
        """
        names = {*accounts(owner, team), EACH_USER, EACH_TEAM}
        return any(quota.gpu_kind != ANY_KIND and quota.of in names for quota in self._quotas)

    def placed(self, session: Session, seat: Seat, sign: int = 1) -> None:
        """It has the seat; with -1: it has not after all."""
        for rule in self._rules_of(session.owner, session.team):
            meant = [gpu for gpu in seat.gpus if is_about(rule.quota, gpu.kind)]
            if meant or rule.quota.gpu_kind == ANY_KIND:
                used = self.used(rule)
                used.sessions += sign
                used.gpu_parts += 0 if session.request.preemptible else sign * sum(map(taken_parts, meant))

    def used(self, rule: Rule) -> Used:
        if rule not in self._used:
            held_s = self._week.gpu_seconds(rule.who, lambda kind: is_about(rule.quota, kind), self._now)
            self._used[rule] = Used(gpu_seconds=held_s)
        return self._used[rule]

    def _count_time(self, session: Session, seat: Seat) -> None:
        """A seat that is held counts up to now."""
        if session.request.preemptible:
            return
        since = max(session.placed_at or session.since, self._now - WEEK)
        held_s = max(0.0, (self._now - since).total_seconds())
        for rule in self._rules_of(session.owner, session.team):
            parts = sum(taken_parts(gpu) for gpu in seat.gpus if is_about(rule.quota, gpu.kind))
            self.used(rule).gpu_seconds += held_s * parts / PARTS

    def _over(self, rule: Rule, asked_parts: int, preemptible: bool, count: int) -> Over | None:
        quota, used = rule.quota, self.used(rule)
        if quota.sessions is not None and used.sessions + count > quota.sessions:
            return Over(rule, Bound.SESSIONS, quota.sessions, used.sessions, count)
        if preemptible or not asked_parts:
            return None
        if quota.gpu_parts is not None and used.gpu_parts + asked_parts > quota.gpu_parts:
            return Over(rule, Bound.GPUS, quota.gpu_parts / PARTS, used.gpu_parts / PARTS, asked_parts / PARTS)
        if quota.gpu_hours_week is not None and used.gpu_seconds >= quota.gpu_hours_week * 3600:
            return Over(rule, Bound.HOURS, quota.gpu_hours_week, used.gpu_seconds / 3600, asked_parts / PARTS)
        return None

    def _over_on(self, rules: Iterable[Rule], kind: str, parts: int, preemptible: bool, count: int) -> Over | None:
        meant = (rule for rule in rules if rule.quota.gpu_kind != ANY_KIND and is_about(rule.quota, kind))
        return next((over for rule in meant if (over := self._over(rule, parts, preemptible, count)) is not None), None)

    def _rules_of(self, owner: str, team: str | None) -> tuple[Rule, ...]:
        if (owner, team) not in self._rules:
            self._rules[owner, team] = rules_for(self._quotas, owner, team)
        return self._rules[owner, team]

    def _asked_of_kinds(self, request: Request) -> dict[str, int]:
        """Of every kind that it may have, the least that it would take."""
        asked: dict[str, int] = {}
        for gpu in self._sorts if request.share.kind is not ShareKind.NONE else ():
            parts = parts_of_kind(request.share, gpu) if is_kind(gpu.kind, request.gpu_kind) else 0
            if parts:
                asked[gpu.kind] = min(parts, asked.get(gpu.kind, parts))
        return asked

    @cached_property
    def _sorts(self) -> list[Gpu]:
        """One of each sort there is: nodes have many, and of few sorts."""
        return list({(gpu.kind, gpu.fgpu_parts, id(gpu.mig)): gpu for node in self._nodes for gpu in node.gpus}.values())

    @cached_property
    def _uuids(self) -> dict[str, list[str]]:
        by_kind: dict[str, list[str]] = defaultdict(list)
        for node in self._nodes:
            for gpu in node.gpus:
                by_kind[gpu.kind].append(gpu.uuid)
        return by_kind


def parts_of_kind(share: Share, gpu: Gpu) -> int:
    """What the share is of such a GPU, or of several; 0: it cannot have it."""
    if share.kind is ShareKind.MIG:
        profile = None if gpu.mig is None else gpu.mig.profile(share.profile)
        return 0 if profile is None or gpu.mig is None else profile.compute_slices * PARTS // gpu.mig.compute_slices
    return share.parts if share.kind is not ShareKind.FGPU else max(1, share.parts * PARTS // gpu.fgpu_parts)
