"""Alerts that fire or did, silences, and where users want to be told. What is to be told is in outbox.py, written with what it tells of."""
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gpufairy.core.alert import Alert, Severity
from gpufairy.core.alert_tell import Post
from gpufairy.core.silence import Silence
from gpufairy.core.user_channel import UserChannel
from gpufairy.store.alert_tables import alerts, silences, user_channels
from gpufairy.store.outbox import write_posts
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, from_micros_or_none, to_micros
from gpufairy.store.writer import Writer

NOT_KEPT = ("fine_since",)  # after a restart a thing must be fine for as long again


class Alerts:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def save(self, changed: Sequence[Alert], posts: Sequence[Post], now: datetime) -> None:
        """All or nothing: whoever fires and was written down is told of, even if the server dies in between."""
        await self._writer.write(lambda connection: _save(connection, changed, posts, now))

    async def live(self) -> list[Alert]:
        return await self._alerts(select(alerts).where(alerts.c.resolved_at.is_(None)))

    async def past(self, *, limit: int, before: datetime | None = None, node: str = "", rule: str = "") -> list[Alert]:
        """Resolved ones, the newest first."""
        query = select(alerts).where(alerts.c.resolved_at.is_not(None)).order_by(alerts.c.fired_at.desc(), alerts.c.id).limit(limit)
        if before is not None:
            query = query.where(alerts.c.fired_at < to_micros(before))
        if node:
            query = query.where(alerts.c.node == node)
        if rule:
            query = query.where(alerts.c.rule == rule)
        return await self._alerts(query)

    async def forget(self, before: datetime) -> None:
        gone = delete(alerts).where(alerts.c.resolved_at < to_micros(before)), delete(silences).where(silences.c.end < to_micros(before))
        await self._writer.write(lambda connection: [connection.execute(one) for one in gone])

    async def silences(self, now: datetime) -> list[Silence]:
        """Those that are not over."""
        query = select(silences).where(silences.c.end > to_micros(now)).order_by(silences.c.start, silences.c.id)
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [Silence(**{**row, "start": from_micros(row["start"]), "end": from_micros(row["end"])}) for row in rows]

    async def put_silence(self, silence: Silence) -> None:
        row = {**asdict(silence), "start": to_micros(silence.start), "end": to_micros(silence.end)}
        await self._writer.write(lambda connection: connection.execute(insert(silences), [row]))

    async def remove_silence(self, silence_id: str) -> None:
        await self._writer.write(lambda connection: connection.execute(delete(silences).where(silences.c.id == silence_id)))

    async def user_channels(self) -> list[UserChannel]:
        query = select(user_channels).order_by(user_channels.c.user, user_channels.c.kind)
        rows = await self._reader.read(lambda connection: connection.execute(query).all())
        return [UserChannel(row.user, row.kind, row.address, tuple(json.loads(row.about)), from_micros(row.changed_at)) for row in rows]

    async def put_user_channel(self, channel: UserChannel) -> None:
        await self._writer.write(lambda connection: _put_user_channel(connection, channel))

    async def remove_user_channel(self, user: str, kind: str) -> None:
        gone = delete(user_channels).where((user_channels.c.user == user) & (user_channels.c.kind == kind))
        await self._writer.write(lambda connection: connection.execute(gone))

    async def _alerts(self, query: Any) -> list[Alert]:
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [_alert(row) for row in rows]


TIMES = ("since", "fired_at", "seen_at", "told_at", "escalated_at", "resolved_at", "acked_at")


def _save(connection: Connection, changed: Sequence[Alert], posts: Sequence[Post], now: datetime) -> None:
    there = {row.id for row in connection.execute(select(alerts.c.id).where(alerts.c.resolved_at.is_(None)))} if changed else set()
    new = [_row(alert) for alert in changed if alert.id not in there]
    if new:
        connection.execute(insert(alerts), new)
    for alert in changed:
        if alert.id in there:
            connection.execute(update(alerts).where(alerts.c.id == alert.id).values(_row(alert)))
    write_posts(connection, posts, now)


def _row(alert: Alert) -> dict[str, Any]:
    row = {name: value for name, value in asdict(alert).items() if name not in NOT_KEPT}
    return {**row, **{name: None if row[name] is None else to_micros(row[name]) for name in TIMES}}


def _alert(row: dict[str, Any]) -> Alert:
    times = {name: from_micros_or_none(row[name]) for name in TIMES}
    return replace(Alert(**{**row, **times}), severity=Severity(row["severity"]))


def _put_user_channel(connection: Connection, channel: UserChannel) -> None:
    connection.execute(delete(user_channels).where((user_channels.c.user == channel.user) & (user_channels.c.kind == channel.kind)))
    row = {"user": channel.user, "kind": channel.kind, "address": channel.address, "about": json.dumps(channel.about)}
    connection.execute(insert(user_channels), [{**row, "changed_at": to_micros(channel.changed_at)}])
