"""Admin: alerts. What fires and what to do, what may come, what was; silences, channels with a test button, and hosts' uptime."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.outbox import ChannelStatus
from gpufairy.core.alert import Alert, AlertState, Severity
from gpufairy.core.alert_rules import RULES
from gpufairy.core.alert_tell import Channel
from gpufairy.core.errors import Conflict
from gpufairy.core.silence import Silence, silenced_by
from gpufairy.web.admin import Fields, add_page, said, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.host_care_view import host_care_view
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, length
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark
from gpufairy.wire.alerts import SilenceBody
from gpufairy.wire.read import read

PAST_SHOWN = 50
FIRING_SHOWN = 200


@dataclass(frozen=True, slots=True)
class AlertRow:
    id: str
    mark: Mark
    title: str
    sentence: str
    todo: str
    when: str
    noted: str  # by whom; empty: by nobody
    silenced: str  # why; empty: it is told
    can_note: bool


@dataclass(frozen=True, slots=True)
class PastRow:
    mark: Mark
    sentence: str
    when: str
    lasted: str
    why: str


@dataclass(frozen=True, slots=True)
class SilenceRow:
    id: str
    what: str
    since: str
    until: str
    by: str
    why: str
    later: bool  # it has not begun


@dataclass(frozen=True, slots=True)
class ChannelRow:
    name: str
    kind: str
    to: str
    wants: str
    mark: Mark
    last: str
    trouble: str


@dataclass(frozen=True, slots=True)
class AlertsPage:
    answer: str
    next_step: str
    firing: tuple[AlertRow, ...]
    more: int  # that fire and are not shown
    pending: tuple[AlertRow, ...]
    past: tuple[PastRow, ...]
    silences: tuple[SilenceRow, ...]
    channels: tuple[ChannelRow, ...]
    rules: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]


def add_alerts(router: APIRouter, context: PageContext) -> None:
    async def page(request: Request, trouble: Trouble | None = None) -> Response:
        desk = desk_of(context)
        sent = request.query_params.get("sent", "")[:60] if trouble is None else ""
        seen, care = await alerts_page(desk), await host_care_view(desk.house, desk, None)
        return show_admin(request, "alerts", trouble, refresh_s=LOOK_AGAIN_S, seen=seen, care=care, sent=sent)

    async def deeds(admin: str, deed: str, fields: Fields) -> str:
        return await change_alerts(desk_of(context), admin, deed, fields)

    add_page(router, context, "/admin/alerts", page, deeds)


def desk_of(context: PageContext) -> AlertDesk:
    if context.desk is None:
        raise Conflict("this server watches for nothing", "Start it with `fairy up`.")
    return context.desk


async def change_alerts(desk: AlertDesk, admin: str, deed: str, fields: Fields) -> str:
    """To which page afterwards."""
    match deed:
        case "ack":
            await desk.acknowledge(admin, fields.get("alert", ""))
        case "silence":
            told = {name: text for name in ("rule", "node", "thing", "time") if (text := said(fields, name)) is not None}
            await desk.silence(admin, read(SilenceBody, {**told, "why": fields.get("why", "")}, "silence"))
        case "unsilence":
            await desk.unsilence(admin, fields.get("silence", ""))
        case "test":
            channel = fields.get("channel", "")
            await desk.test(admin, channel)
            return f"/admin/alerts?sent={quote(channel)}"
        case _:
            raise no_such_deed(deed)
    return "/admin/alerts"


async def alerts_page(desk: AlertDesk) -> AlertsPage:
    now, alerts, silences, quiet = desk.house.clock(), desk.watch.alerts(), desk.watch.silences(), desk.watch.quiet()
    firing = [one for one in alerts if one.state is AlertState.FIRING]
    pending = [one for one in alerts if one.state is AlertState.PENDING]
    status = {one.name: one for one in await desk.outbox.status()}
    channels = tuple(channel_row(one, status[one.name], now) for one in desk.watch.settings.channels if one.name in status)
    past = tuple(past_row(one, now) for one in await desk.house.store.alerts.past(limit=PAST_SHOWN))
    return AlertsPage(
        answer(firing), next_step(firing, channels), tuple(alert_row(one, quiet, now) for one in firing[:FIRING_SHOWN]),
        max(0, len(firing) - FIRING_SHOWN), tuple(alert_row(one, quiet, now) for one in pending[:FIRING_SHOWN]),
        past, tuple(silence_row(one, now) for one in silences), channels,
        tuple((rule.id, title_of(rule.id)) for rule in RULES.values()), tuple(host.node for host in desk.house.watch.hosts()),
    )  # fmt: skip


def answer(firing: Sequence[Alert]) -> str:
    if not firing:
        return _("Nothing is wrong.")
    worst = sum(one.severity is Severity.CRITICAL for one in firing)
    words = ngettext("{count} thing is wrong", "{count} things are wrong", len(firing)).format(count=len(firing))
    if not worst:
        return f"{words}."
    return _("{words}, {worst} of them critical.").format(words=words, worst=worst)


def next_step(firing: Sequence[Alert], channels: Sequence[ChannelRow]) -> str:
    if not channels:
        return _("Nobody is told but on this page: set [[channels]] in fairy.toml, for e-mail, Slack, ntfy, a webhook or Alertmanager.")
    if any(one.trouble for one in channels):
        return _("A channel does not get its messages: see below.")
    if firing:
        return _("Each says what to do. Who takes note of one keeps others from being told.")
    return _("You are told by the channels below. Try one with its test button.")


def alert_row(alert: Alert, silences: Sequence[Silence], now: datetime) -> AlertRow:
    silence = silenced_by(alert, silences, now)
    fired = alert.fired_at or alert.since
    return AlertRow(
        alert.id, severity_mark(alert.severity), title_of(alert.rule), alert.sentence, alert.todo,
        _("since {time}, for {length}").format(time=clock(fired, now), length=length(now - fired)), alert.acked_by,
        "" if silence is None else silence.why, alert.state is AlertState.FIRING and alert.acked_at is None,
    )  # fmt: skip


def past_row(alert: Alert, now: datetime) -> PastRow:
    fired, over = alert.fired_at or alert.since, alert.resolved_at or now
    return PastRow(severity_mark(alert.severity), alert.sentence, clock(fired, now), length(over - fired), alert.ended_why)


def severity_mark(severity: Severity) -> Mark:
    return {
        Severity.CRITICAL: Mark(_("Critical"), "bad"), Severity.WARNING: Mark(_("Warning"), "wait"), Severity.NOTE: Mark(_("Note"), "end"),
    }[severity]  # fmt: skip


def silence_row(silence: Silence, now: datetime) -> SilenceRow:
    return SilenceRow(
        silence.id, silence.words, clock(silence.start, now), clock(silence.end, now), silence.made_by, silence.why, silence.start > now
    )


def channel_row(channel: Channel, status: ChannelStatus, now: datetime) -> ChannelRow:
    wants = severity_mark(channel.severity).word if channel.severity is Severity.CRITICAL else _("{severity} and worse").format(
        severity=severity_mark(channel.severity).word
    )  # fmt: skip
    if channel.escalate_after is not None:
        wants = _("{wants}, when nobody took note for {length}").format(wants=wants, length=length(channel.escalate_after))
    mark = Mark(_("Trouble"), "bad") if status.trouble else Mark(_("Waiting"), "wait") if status.waiting else Mark(_("Works"), "run")
    if status.sent_at is None and not status.trouble and not status.waiting:
        mark = Mark(_("Not used yet"), "end")
    last = _("never") if status.sent_at is None else clock(status.sent_at, now)
    return ChannelRow(channel.name, channel.kind, status.place, wants, mark, last, status.trouble)


def title_of(rule: str) -> str:
    """As RULES has it, in the reader's tongue."""
    titles = {
        "memory_low": _("Host memory about to run out"), "disk_filling": _("Disk filling"), "inodes_low": _("Inodes running out"),
        "host_hot": _("Host overheating"), "gpu_hot": _("GPU overheating"),
        "gpu_throttled": _("GPU slowed down"), "gpu_power": _("GPU power"),
        "gpu_fan": _("GPU fan"), "gpu_xid": _("GPU error (XID)"), "gpu_ecc": _("GPU memory failing (ECC)"),
        "gpu_remap": _("GPU memory to be repaired"), "gpu_lost": _("GPU lost"), "driver_hung": _("GPU driver does not answer"),
        "node_silent": _("Host silent"), "agent_old": _("Agent of another version"), "certificate_ending": _("Certificate ends"),
        "backup_old": _("Backup old"), "queue_stuck": _("Queue stuck"), "outsider": _("Outsider on a GPU"),
        "leak": _("Something is held by nobody"), "doctor": _("The doctor found something"),
        "disk_over": _("User over the disk limit"),
    }  # fmt: skip
    return titles.get(rule, rule)
