"""Alerts, silences, channels and messages as the API tells them."""
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gpufairy.api.shapes import moment
from gpufairy.control.outbox import ChannelStatus
from gpufairy.core.alert import Alert, Rule
from gpufairy.core.alert_tell import Channel
from gpufairy.core.silence import Silence, silenced_by
from gpufairy.core.uptime import UptimeRecord
from gpufairy.core.user_channel import UserChannel


def alert_shape(alert: Alert, silences: Sequence[Silence] = (), now: datetime | None = None) -> dict[str, Any]:
    silence = None if now is None else silenced_by(alert, silences, now)
    return {
        "id": alert.id, "rule": alert.rule, "state": alert.state, "severity": alert.severity, "node": alert.node or None,
        "thing": alert.thing, "sentence": alert.sentence, "todo": alert.todo, "since": moment(alert.since),
        "fired_at": moment(alert.fired_at), "resolved_at": moment(alert.resolved_at), "ended_why": alert.ended_why or None,
        "acknowledged_by": alert.acked_by or None, "acknowledged_at": moment(alert.acked_at),
        "silenced_by": None if silence is None else silence.id,
    }  # fmt: skip


def silence_shape(silence: Silence) -> dict[str, Any]:
    return {
        "id": silence.id, "rule": silence.rule, "node": silence.node, "thing": silence.thing, "start": moment(silence.start),
        "end": moment(silence.end), "made_by": silence.made_by, "why": silence.why,
    }  # fmt: skip


def rule_shape(rule: Rule, on: bool) -> dict[str, Any]:
    return {
        "id": rule.id, "severity": rule.severity, "title": rule.title, "what": rule.what, "todo": rule.todo,
        "after_s": rule.after.total_seconds(), "hold_s": rule.hold.total_seconds(), "on": on,
    }  # fmt: skip


def channel_shape(channel: Channel, status: ChannelStatus) -> dict[str, Any]:
    after = channel.escalate_after
    return {
        "name": channel.name, "kind": channel.kind, "to": status.place, "severity": channel.severity, "rules": list(channel.rules),
        "nodes": list(channel.nodes), "escalate_after_s": None if after is None else after.total_seconds(), "waiting": status.waiting,
        "sent_at": moment(status.sent_at), "trouble": status.trouble or None, "next_try": moment(status.next_try),
    }  # fmt: skip


def uptime_shape(record: UptimeRecord) -> dict[str, Any]:
    downtimes = [
        {"since": moment(one.since), "until": moment(one.until), "why": one.why, "planned": one.planned} for one in record.downtimes
    ]
    return {
        "node": record.node, "since": moment(record.since), "part": round(record.part, 6), "downtimes": downtimes,
        "planned_s": record.planned.total_seconds(), "unwatched_s": record.unwatched.total_seconds(),
    }  # fmt: skip


def user_channel_shape(channel: UserChannel) -> dict[str, Any]:
    return {"kind": channel.kind, "address": channel.shown, "about": list(channel.about), "changed_at": moment(channel.changed_at)}
