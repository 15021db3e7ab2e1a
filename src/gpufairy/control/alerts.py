"""AlertWatch: looks at all hosts and the house itself every few seconds, and writes down what fires together with who is to be told.

Whether something is bad is decided in core; sending is the outbox's work.
"""
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.alert import Alert, Judged, Key, Rule, acknowledged, judge
from gpufairy.core.alert_gpus import EccCounts
from gpufairy.core.alert_hosts import HostTrends
from gpufairy.core.alert_house import judgements
from gpufairy.core.alert_look import AlertLimits, AlertLook, Certificate, HostLook, Leak, QueueLook, SeenXid
from gpufairy.core.alert_rules import RULES
from gpufairy.core.alert_tell import Channel, tell
from gpufairy.core.doctor_night import Trouble
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.names import nearest
from gpufairy.core.reading import Xid
from gpufairy.core.silence import Silence
from gpufairy.core.uptime import Back, Downtime, UptimeRecord, downtimes_of, record_of, why_away

EVERY = timedelta(seconds=5)
CERTIFICATES_EVERY = timedelta(hours=1)
KEPT = timedelta(days=400)  # what is resolved: a year, to be looked back at
FORGET_EVERY = timedelta(hours=1)
XIDS_KNOWN = 10_000  # that were told: a report may come twice
UPTIME_OVER = timedelta(days=30)
MOST_DOWNTIMES = 1000
LOOPS_OF_QUEUE = ("admit", "place", "converge")


async def no_certificates() -> Sequence[Certificate]:
    return ()


@dataclass(slots=True)
class AlertSources:
    """What others know. Each may be put in place later; until then nothing is said of it."""

    failing: Callable[[], Sequence[tuple[str, str]]] = tuple  # loops, with what went wrong
    certificates: Callable[[], Awaitable[Sequence[Certificate]]] = no_certificates
    last_backup: Callable[[], datetime | None] = lambda: None
    leaks: Callable[[], Sequence[Leak]] = tuple
    doctor: Callable[[], Sequence[Trouble] | None] = lambda: None


@dataclass(frozen=True, slots=True)
class AlertSettings:
    rules: Mapping[str, Rule] = field(default_factory=lambda: RULES)
    limits: AlertLimits = field(default_factory=AlertLimits)
    channels: tuple[Channel, ...] = ()
    repeat: timedelta | None = timedelta(hours=12)
    version: str = ""


class AlertWatch:
    def __init__(self, house: House, settings: AlertSettings, sources: AlertSources) -> None:
        self._house, self.settings, self.sources = house, settings, sources
        self._alerts: Mapping[Key, Alert] = {}
        self._silences: list[Silence] = []
        self._trends, self._ecc = HostTrends(), EccCounts()
        self._certificates: Sequence[Certificate] = ()
        self._looked_at = self._certificates_at = self._forgot_at = datetime.min.replace(tzinfo=house.clock().tzinfo)
        self._silent: frozenset[str] = frozenset()
        self._boots: dict[str, str] = {}  # by host: the boot id while it was last heard
        self._known_xids: dict[tuple[str, int, datetime], None] = {}  # in the order in which they came
        self.on_news: Callable[[], None] = lambda: None  # something is to be sent

    async def load(self) -> None:
        stored = self._house.store.alerts
        self._alerts = {alert.key: alert for alert in await stored.live()}
        self._silences = await stored.silences(self._house.clock())

    def alerts(self) -> list[Alert]:
        """Those that fire or are pending, the worst first."""
        return sorted(self._alerts.values(), key=rank_of)

    def silences(self) -> list[Silence]:
        now = self._house.clock()
        return [one for one in self._silences if one.end > now]

    def quiet(self) -> list[Silence]:
        """Of what nobody is told: windows of maintenance, and what was silenced."""
        return [*self._house.maintenance.silences(), *self.silences()]

    async def look(self) -> None:
        """A loop's turn, each second: a host that falls silent is told of at once, the rest every few seconds."""
        self._house.watch.beat()
        now = self._house.clock()
        silent = frozenset(host.node for host in self._house.watch.hosts() if host.silent)
        if silent == self._silent and now - self._looked_at < EVERY:
            return
        if now - self._certificates_at >= CERTIFICATES_EVERY:
            self._certificates_at, self._certificates = now, await self.sources.certificates()
        await self._judge(self._picture(now))
        self._silent, self._looked_at = silent, now
        if now - self._forgot_at >= FORGET_EVERY:
            self._forgot_at = now
            await self._house.store.alerts.forget(now - KEPT)
            await self._house.store.outbox.forget(now - UPTIME_OVER)

    async def acknowledge(self, alert_id: str, by: str) -> Alert:
        alert = self._alert(alert_id)
        if alert.fired_at is None:
            raise Conflict(f"{alert.sentence} is only pending", "There is nothing to take note of yet.")
        after = acknowledged(alert, by, self._house.clock())
        await self._house.store.alerts.save([after], [], self._house.clock())
        self._alerts = {**self._alerts, after.key: replace(self._alerts.get(after.key, after), acked_at=after.acked_at, acked_by=by)}
        return after

    async def silence(self, silence: Silence) -> None:
        await self._house.store.alerts.put_silence(silence)
        self._silences = [*self.silences(), silence]

    async def unsilence(self, silence_id: str) -> Silence:
        found = next((one for one in self.silences() if one.id == silence_id), None)
        if found is None:
            raise NoSuchThing(f"no silence {silence_id[:40]!r}", "See `fairy alerts silences`.")
        await self._house.store.alerts.remove_silence(silence_id)
        self._silences = [one for one in self.silences() if one.id != silence_id]
        return found

    async def uptime(self) -> list[UptimeRecord]:
        """Of each host, over the last month or since it is watched."""
        now = self._house.clock()
        past = await self._house.store.alerts.past(limit=MOST_DOWNTIMES, rule="node_silent")
        away = downtimes_of([*past, *(one for one in self._alerts.values() if one.rule == "node_silent" and one.fired_at is not None)])
        since = {agent.name: max(agent.accepted_at, now - UPTIME_OVER) for agent in self._house.agents.accepted()}
        unwatched = await self._house.store.maintenance.unwatched(now - UPTIME_OVER)
        windows = await self._house.maintenance.past(now - UPTIME_OVER)
        by_node: dict[str, list[Downtime]] = {}
        for one in away:
            by_node.setdefault(one.node, []).append(one)
        return [
            record_of(node, by_node.get(node, ()), start, now, unwatched=unwatched, windows=windows)
            for node, start in sorted(since.items())
        ]

    def _alert(self, alert_id: str) -> Alert:
        found = next((one for one in self._alerts.values() if one.id == alert_id), None)
        if found is None:
            near = nearest(alert_id, [one.id for one in self._alerts.values()])
            raise NoSuchThing(f"no alert {alert_id[:40]!r} fires{near}", "See `fairy alerts`.")
        return found

    async def _judge(self, look: AlertLook) -> None:
        rules, now = self.settings.rules, look.now
        found = [one for one in judgements(look, self._trends, self._ecc) if one.rule in rules]
        judged = judge(self._alerts, found, rules, now, {host.node for host in look.hosts})
        judged = replace(judged, resolved=tuple(self._explained(one, look) for one in judged.resolved))
        self._remember_boots(look, judged)
        told = tell(judged.alerts.values(), judged.resolved, self.settings.channels, self.quiet(), now, repeat=self.settings.repeat)
        after = {**judged.alerts, **{alert.key: alert for alert in told.alerts}}
        changed = self._changed(judged, after)
        if changed or told.posts:
            await self._house.store.alerts.save(changed, told.posts, now)
        # What was acknowledged while this was written stays so.
        acked = {key: one for key, one in self._alerts.items() if one.acked_at is not None}
        self._alerts = {
            key: one
            if (noted := acked.get(key)) is None or noted.id != one.id
            else acknowledged(one, noted.acked_by, noted.acked_at or now)
            for key, one in after.items()
        }
        if told.posts:
            self.on_news()
        if changed:
            self._house.bells.sessions_changed([])

    def _changed(self, judged: Judged, after: Mapping[Key, Alert]) -> list[Alert]:
        """What of it is on the disk otherwise. Words that change from look to look are not worth a write."""
        firing = [one for key, one in after.items() if one.fired_at is not None and times_of(one) != times_of(self._alerts.get(key))]
        return [*firing, *judged.resolved]

    def _explained(self, alert: Alert, look: AlertLook) -> Alert:
        if alert.rule != "node_silent" or alert.ended_why != "it is over":
            return alert
        sample = next((host.sample for host in look.hosts if host.node == alert.node), None)
        back = Back() if sample is None or sample.host is None else Back(
            sample.host.up_s, sample.host.boot_id, self._boots.get(alert.node, ""), sample.agent_up_s
        )  # fmt: skip
        return replace(alert, ended_why=why_away(alert, back, self.quiet(), look.now))

    def _remember_boots(self, look: AlertLook, judged: Judged) -> None:
        """Of hosts that are heard; of one that was away until now only when it is told that it is back."""
        away = {alert.node for alert in judged.alerts.values() if alert.rule == "node_silent"}
        for host in look.hosts:
            if host.sample is not None and host.sample.host is not None and not host.silent and host.node not in away:
                self._boots[host.node] = host.sample.host.boot_id

    def _picture(self, now: datetime) -> AlertLook:
        house, runs = self._house, {node.name for node in self._house.nodes}
        hosts = tuple(
            HostLook(one.node, None if one.silent else one.sample, one.silent, one.heard_at, one.agent_version, one.node in runs)
            for one in house.watch.hosts()
        )
        failing = self.sources.doctor()
        return AlertLook(
            now, hosts, self._new_xids(house.watch.take_xids()), self._queue(), tuple(self._certificates), self.sources.last_backup(),
            tuple(self.sources.leaks()), self.settings.version, self.settings.limits, None if failing is None else tuple(failing),
            tuple(house.disk.over_limits()),
        )  # fmt: skip

    def _queue(self) -> QueueLook:
        book = self._house.book
        starting = [one for one in book.holding() if one.phase is Phase.STARTING]
        failing = tuple((name, why) for name, why in self.sources.failing() if name in LOOPS_OF_QUEUE)
        hanging = tuple((one.name, one.seat.node if one.seat else "", one.since) for one in starting)
        waiting = sum(one.phase is Phase.QUEUED for one in book) if failing or self._house.silent_since else 0
        return QueueLook(waiting, failing, self._house.silent_since, hanging)

    def _new_xids(self, told: Sequence[tuple[str, Xid]]) -> tuple[SeenXid, ...]:
        seen: dict[tuple[str, int], SeenXid] = {}
        for node, xid in told:
            if (mark := (xid.uuid, xid.code, xid.at)) in self._known_xids:
                continue
            self._known_xids[mark] = None
            before = seen.get((xid.uuid, xid.code))
            seen[xid.uuid, xid.code] = SeenXid(node, xid, 1 if before is None else before.times + 1)
        while len(self._known_xids) > XIDS_KNOWN:
            del self._known_xids[next(iter(self._known_xids))]
        return tuple(seen.values())


def rank_of(alert: Alert) -> tuple[bool, int, datetime, str]:
    return alert.fired_at is None, -alert.severity.rank, alert.fired_at or alert.since, alert.thing


def times_of(alert: Alert | None) -> tuple[datetime | None, ...]:
    return () if alert is None else (alert.fired_at, alert.told_at, alert.escalated_at)


def new_id() -> str:
    return secrets.token_hex(4)
