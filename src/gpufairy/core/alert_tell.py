"""Who is told of an alert, and when: at once, again after a while, others when nobody has taken note of it, and when it is over."""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from gpufairy.core.alert import Alert, AlertState, Severity
from gpufairy.core.letter import Item
from gpufairy.core.silence import Silence, silenced_by

MOST_NEW = 200  # to one channel from one look: of a storm the rest is told as a number


@dataclass(frozen=True, slots=True)
class Channel:
    """Where alerts are told. `escalate_after`: only those that nobody has taken note of for so long."""

    name: str
    kind: str
    severity: Severity = Severity.WARNING  # and worse
    rules: tuple[str, ...] = ("*",)
    nodes: tuple[str, ...] = ("*",)
    escalate_after: timedelta | None = None

    def wants(self, alert: Alert) -> bool:
        if alert.severity.rank < self.severity.rank or not any(fnmatchcase(alert.rule, rule) for rule in self.rules):
            return False
        return any(fnmatchcase(alert.node, node) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Post:
    """One item for one channel. The same key is told once."""

    channel: str
    key: str
    item: Item


@dataclass(frozen=True, slots=True)
class Told:
    alerts: tuple[Alert, ...]  # whose telling changed
    posts: tuple[Post, ...]


def tell(
    alerts: Iterable[Alert], resolved: Iterable[Alert], channels: Sequence[Channel], silences: Sequence[Silence], now: datetime, *,
    repeat: timedelta | None,
) -> Told:  # fmt: skip
    """`repeat`: how often those that still fire, and that nobody has taken note of, are told again; None: never."""
    changed, posts = list[Alert](), list[Post]()
    for alert in alerts:
        if alert.state is not AlertState.FIRING or silenced_by(alert, silences, now) is not None:
            continue
        after, new = _told_of(alert, channels, now, repeat)
        if after is not alert:
            changed.append(after)
        posts += new
    for alert in resolved:
        posts += [Post(channel.name, f"{alert.id}:over", item_for(alert)) for channel in channels if _was_told(alert, channel)]
    return Told(tuple(changed), tuple(_bounded(posts, now)))


def _told_of(alert: Alert, channels: Sequence[Channel], now: datetime, repeat: timedelta | None) -> tuple[Alert, list[Post]]:
    posts, after = list[Post](), alert
    again = repeat is not None and alert.told_at is not None and alert.acked_at is None and now - alert.told_at >= repeat
    if alert.told_at is None or again:
        key = f"{alert.id}:{now.isoformat()}" if again else alert.id
        posts += [Post(one.name, key, item_for(alert)) for one in channels if one.escalate_after is None and one.wants(alert)]
        after = replace(after, told_at=now)
    due = [one for one in channels if _escalates(alert, one, now)]
    if due and alert.acked_at is None:
        posts += [Post(one.name, alert.id, item_for(alert)) for one in due]
        after = replace(after, escalated_at=now)
    return after, posts


def _escalates(alert: Alert, channel: Channel, now: datetime) -> bool:
    if channel.escalate_after is None or alert.fired_at is None or not channel.wants(alert):
        return False
    due_at = alert.fired_at + channel.escalate_after
    return due_at <= now and (alert.escalated_at is None or alert.escalated_at < due_at)


def _was_told(alert: Alert, channel: Channel) -> bool:
    if not channel.wants(alert):
        return False
    if channel.escalate_after is None:
        return alert.told_at is not None
    return alert.fired_at is not None and alert.escalated_at is not None and alert.fired_at + channel.escalate_after <= alert.escalated_at


def _bounded(posts: Sequence[Post], now: datetime) -> Iterable[Post]:
    by_channel: dict[str, list[Post]] = {}
    for post in posts:
        by_channel.setdefault(post.channel, []).append(post)
    for channel, own in by_channel.items():
        own.sort(key=lambda post: (post.item.state == "resolved", -Severity(post.item.severity).rank))
        yield from own[:MOST_NEW]
        left = own[MOST_NEW:]
        if left:
            worst = max((Severity(post.item.severity) for post in left), key=lambda one: one.rank)
            sentence = f"{len(left)} more alerts changed at the same time; see `fairy alerts`"
            yield Post(channel, f"storm:{now.isoformat()}", Item("storm", "firing", worst, sentence, since=stamp(now)))


def item_for(alert: Alert) -> Item:
    sentence = alert.sentence if alert.resolved_at is None else f"{alert.sentence}: {alert.ended_why}"
    return Item(
        alert.rule, alert.state, alert.severity, sentence, alert.todo, alert.node, alert.thing, alert.id,
        stamp(alert.fired_at or alert.since), "" if alert.resolved_at is None else stamp(alert.resolved_at),
    )  # fmt: skip


def stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
