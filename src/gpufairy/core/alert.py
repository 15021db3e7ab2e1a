"""Alert: something that an admin should know of, with what to do. One for each rule and thing, from pending over firing to resolved.

What rules find is in alert_rules.py; who is told, and when again, in alert_tell.py. A thing that is not known changes nothing.
"""
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256

NOT_KNOWN_FOR = timedelta(minutes=30)  # a firing alert of which nothing was read for so long says nothing of now
PENDING_FOR = timedelta(minutes=2)  # the same of a pending one: it begins anew
Key = tuple[str, str]  # the rule and the thing


class Severity(StrEnum):
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class AlertState(StrEnum):
    PENDING = "pending"  # bad, but not for long enough
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Rule:
    """`after`: bad for so long before it fires. `hold`: fine for so long before it is resolved, so that nothing flaps faster."""

    id: str
    severity: Severity
    title: str
    what: str
    todo: str
    after: timedelta
    hold: timedelta


@dataclass(frozen=True, slots=True)
class Condition:
    """What is wrong with one thing now, in words."""

    thing: str
    node: str  # empty: of the server or the queue
    sentence: str
    todo: str = ""  # empty: as the rule says
    severity: Severity | None = None  # None: as the rule says


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says of all things that it can judge. A thing between bad and fine, or not known, is in neither."""

    rule: str
    bad: Mapping[str, Condition] = field(default_factory=dict)
    fine: Container[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Alert:
    id: str
    rule: str
    thing: str
    node: str
    severity: Severity
    sentence: str
    todo: str
    since: datetime  # when it was first seen to be bad
    seen_at: datetime  # when it was last seen to be bad
    fired_at: datetime | None = None
    fine_since: datetime | None = None
    resolved_at: datetime | None = None
    ended_why: str = ""
    told_at: datetime | None = None  # the usual channels, last
    escalated_at: datetime | None = None
    acked_at: datetime | None = None
    acked_by: str = ""

    @property
    def key(self) -> Key:
        return self.rule, self.thing

    @property
    def state(self) -> AlertState:
        if self.resolved_at is not None:
            return AlertState.RESOLVED
        return AlertState.PENDING if self.fired_at is None else AlertState.FIRING


@dataclass(frozen=True, slots=True)
class Judged:
    """`alerts`: those that are pending or fire now."""

    alerts: Mapping[Key, Alert]
    fired: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()


def judge(
    before: Mapping[Key, Alert], judgements: Iterable[Judgement], rules: Mapping[str, Rule], now: datetime, nodes: Collection[str]
) -> Judged:
    """`nodes`: those that there are; alerts of others are over."""
    alerts, fired, resolved = dict(before), list[Alert](), list[Alert]()
    by_rule = {one.rule: one for one in judgements}
    for judgement in by_rule.values():
        rule = rules[judgement.rule]
        for thing, condition in judgement.bad.items():
            old = alerts.get((rule.id, thing))
            new = seen_bad(old, rule, condition, now)
            alerts[new.key] = new
            if new.fired_at is not None and (old is None or old.fired_at is None):
                fired.append(new)
    for key, alert in before.items():
        judgement = by_rule.get(alert.rule, Judgement(alert.rule))
        if alert.thing in judgement.bad:
            continue
        after = not_bad(alert, rules.get(alert.rule), alert.thing in judgement.fine, now, not alert.node or alert.node in nodes)
        if after is None:
            del alerts[key]
        elif after.state is AlertState.RESOLVED:
            del alerts[key]
            resolved.append(after)
        else:
            alerts[key] = after
    return Judged(alerts, tuple(fired), tuple(resolved))


def seen_bad(old: Alert | None, rule: Rule, found: Condition, now: datetime) -> Alert:
    severity, todo = found.severity or rule.severity, found.todo or rule.todo
    if old is None:
        old = Alert(id_of(rule.id, found.thing, now), rule.id, found.thing, found.node, severity, found.sentence, todo, now, now)
    fired_at = old.fired_at
    if fired_at is None and now - old.since >= rule.after:
        fired_at = now
    return replace(
        old, severity=severity, sentence=found.sentence, todo=todo, node=found.node, seen_at=now, fired_at=fired_at, fine_since=None
    )


def not_bad(alert: Alert, rule: Rule | None, fine: bool, now: datetime, there: bool) -> Alert | None:
    """None: it was only pending, and is no more."""
    if alert.fired_at is None:
        return None if fine or not there or rule is None or now - alert.seen_at >= PENDING_FOR else alert
    if not there:
        return replace(alert, resolved_at=now, ended_why="it is not watched any more")
    if rule is None:
        return replace(alert, resolved_at=now, ended_why="there is no such rule any more")
    if not fine:
        unknown = now - (alert.fine_since or alert.seen_at) >= max(NOT_KNOWN_FOR, rule.hold)
        return replace(alert, resolved_at=now, ended_why="nothing is known of it any more") if unknown else alert
    since = alert.fine_since or now
    if now - since < rule.hold:
        return replace(alert, fine_since=since)
    return replace(alert, fine_since=since, resolved_at=now, ended_why="it is over")


def acknowledged(alert: Alert, by: str, now: datetime) -> Alert:
    return replace(alert, acked_at=now, acked_by=by)


def id_of(rule: str, thing: str, at: datetime) -> str:
    """Short enough to type; another one each time that it comes."""
    return sha256(f"{rule}\n{thing}\n{at.isoformat()}".encode()).hexdigest()[:10]
