"""Removes what is old, a little at a time: each call is one short transaction. What is old is decided elsewhere.

What was held is never removed: the accounts are made of it. Of a session that goes, its image is written to its holds first.
"""
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, CursorResult, Table, bindparam, delete, select, update

from gpufairy.core.lifecycle import Phase
from gpufairy.store.alert_tables import silences
from gpufairy.store.class_tables import class_links
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, request_from_text, to_micros
from gpufairy.store.tables import bookings, events, holds, image_uses, sessions, tokens
from gpufairy.store.writer import Writer

LOOKED_AT = 1000  # rows of one read
AT_ONCE = 100  # rows of one transaction: a few milliseconds on any disk, and one flush


@dataclass(frozen=True, slots=True)
class Looked:
    """One stretch of a table, from its oldest row on."""

    due: tuple[Any, ...]  # keys of rows that may go
    after: int  # where to go on
    more: bool


class UpkeepRows:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def ended_sessions(self, after: int, before: datetime) -> Looked:
        """Ids of those that ended before. Sessions are numbered as they came: the first that came later ends the search."""
        return await self._reader.read(lambda connection: _ended_sessions(connection, after, to_micros(before)))

    async def remove_sessions(self, ids: Sequence[str]) -> int:
        return await self._writer.write(lambda connection: _remove_sessions(connection, ids))

    async def old_events(self, after: int, until: datetime, goes: Callable[[datetime, bool], bool]) -> Looked:
        """`goes`: whether an event of that time may go, and whether a person did it. None younger than `until` is looked at."""
        return await self._reader.read(lambda connection: _old_events(connection, after, to_micros(until), goes))

    async def remove_events(self, numbers: Sequence[int]) -> int:
        gone = delete(events).where(events.c.number.in_(list(numbers)))
        return await self._writer.write(lambda connection: counted(connection.execute(gone)))

    async def remove_tokens(self, before: datetime) -> int:
        """That ran out or were revoked before."""
        limit = to_micros(before)
        return await self._remove(tokens, tokens.c.id, (tokens.c.revoked_at < limit) | (tokens.c.expires_at < limit))

    async def remove_links(self, before: datetime) -> int:
        return await self._remove(class_links, class_links.c.hash, class_links.c.until < to_micros(before))

    async def remove_bookings(self, before: datetime) -> int:
        return await self._remove(bookings, bookings.c.id, bookings.c.end < to_micros(before))

    async def remove_silences(self, before: datetime) -> int:
        return await self._remove(silences, silences.c.id, silences.c.end < to_micros(before))

    async def remove_image_uses(self, before: datetime) -> int:
        return await self._remove(image_uses, image_uses.c.name, image_uses.c.used_at < to_micros(before))

    async def images_of(self, session_ids: Sequence[str]) -> dict[str, str]:
        """Of sessions that are gone, as far as their holds tell."""
        return await self._reader.read(lambda connection: _images_of(connection, session_ids))

    async def _remove(self, table: Table, key: ColumnElement[Any], old: ColumnElement[bool]) -> int:
        some = select(key).where(old).limit(AT_ONCE).scalar_subquery()
        gone = delete(table).where(key.in_(some))
        return await self._writer.write(lambda connection: counted(connection.execute(gone)))


def _ended_sessions(connection: Connection, after: int, before: int) -> Looked:
    rows = connection.execute(SESSIONS_AFTER, {"after": after}).all()
    due = tuple(row.id for row in rows if row.phase == Phase.ENDED.value and row.ended_at is not None and row.ended_at < before)
    reached = not rows or rows[-1].submitted_at >= before
    return Looked(due, rows[-1].number if rows else after, not reached and len(rows) == LOOKED_AT)


def _remove_sessions(connection: Connection, ids: Sequence[str]) -> int:
    ended = sessions.c.id.in_(list(ids)) & (sessions.c.phase == Phase.ENDED.value)
    found = connection.execute(select(sessions.c.id, sessions.c.request).where(ended)).all()
    images = [{"of_session": row.id, "its_image": image} for row in found if (image := request_from_text(row.request).image) is not None]
    if images:
        connection.execute(NOTE_IMAGE, images)
    return counted(connection.execute(delete(sessions).where(ended)))


def _old_events(connection: Connection, after: int, until: int, goes: Callable[[datetime, bool], bool]) -> Looked:
    rows = connection.execute(EVENTS_AFTER, {"after": after}).all()
    due = tuple(row.number for row in rows if row.at < until and goes(from_micros(row.at), row.actor != ""))
    reached = not rows or rows[-1].at >= until
    return Looked(due, rows[-1].number if rows else after, not reached and len(rows) == LOOKED_AT)


def _images_of(connection: Connection, session_ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(session_ids), LOOKED_AT):
        some = list(session_ids[start : start + LOOKED_AT])
        found |= {row.session_id: row.image for row in connection.execute(IMAGES, {"wanted_ids": some})}
    return found


def counted(result: CursorResult[Any]) -> int:
    return result.rowcount


SESSIONS_AFTER = (
    select(sessions.c.number, sessions.c.id, sessions.c.phase, sessions.c.submitted_at, sessions.c.ended_at)
    .where(sessions.c.number > bindparam("after"))
    .order_by(sessions.c.number)
    .limit(LOOKED_AT)
)
EVENTS_AFTER = (
    select(events.c.number, events.c.at, events.c.actor)
    .where(events.c.number > bindparam("after"))
    .order_by(events.c.number)
    .limit(LOOKED_AT)
)
NOTE_IMAGE = update(holds).where(holds.c.session_id == bindparam("of_session")).values(image=bindparam("its_image"))
IMAGES = (
    select(holds.c.session_id, holds.c.image)
    .where(holds.c.session_id.in_(bindparam("wanted_ids", expanding=True)), holds.c.image.is_not(None))
    .distinct()
)
