"""Events: the history of sessions and GPUs, read in order. Those of sessions are written by sessions.py, with the change they tell of."""
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy import func as sql

from gpufairy.core.steps import Event
from gpufairy.store.reader import Reader
from gpufairy.store.rows import event_from_row, to_micros
from gpufairy.store.session_writes import write_events
from gpufairy.store.tables import events
from gpufairy.store.writer import Writer


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What of all that happened is asked for. What is not said does not matter."""

    user: str = ""  # whose session it was, or who did it
    about: str = ""  # a session by its name or id, a GPU by its UUID, or `user:NAME` and its like
    what: str = ""
    since: datetime | None = None
    until: datetime | None = None
    by_people: bool = False  # only what a person did


def conditions(wanted: EventQuery) -> list[ColumnElement[bool]]:
    row, found = events.c, []
    if wanted.user:
        found.append(or_(row.owner == wanted.user, row.actor == wanted.user, row.session_id == f"user:{wanted.user}"))
    if wanted.about:
        found.append(or_(row.session_id == wanted.about, row.name == wanted.about))
    if wanted.what:
        found.append(row.what == wanted.what)
    if wanted.since is not None:
        found.append(row.at >= to_micros(wanted.since))
    if wanted.until is not None:
        found.append(row.at < to_micros(wanted.until))
    if wanted.by_people:
        found.append(row.actor != "")
    return found


class Events:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def add(self, event: Event) -> None:
        await self._writer.write(lambda connection: write_events(connection, [event]))

    async def page(
        self, *, after: int = 0, limit: int, session_id: str | None = None, owner: str | None = None, newest: bool = False
    ) -> list[Event]:
        """The first `limit` events after number `after`, or with `newest` the last ones; oldest first either way."""
        query = select(events).where(events.c.number > after)
        if session_id is not None:
            query = query.where(events.c.session_id == session_id)
        if owner is not None:
            query = query.where(events.c.owner == owner)
        query = query.order_by(events.c.number.desc() if newest else events.c.number).limit(limit)
        rows = await self._reader.read(lambda connection: connection.execute(query).mappings().all())
        found = [event_from_row(dict(row)) for row in rows]
        return found[::-1] if newest else found

    async def search(self, wanted: EventQuery, *, before: int | None, limit: int) -> list[Event]:
        """The newest first; `before`: only those older than the event of that number."""
        query = select(events).where(*conditions(wanted))
        if before is not None:
            query = query.where(events.c.number < before)
        query = query.order_by(events.c.number.desc()).limit(limit)
        rows = await self._reader.read(lambda connection: connection.execute(query).mappings().all())
        return [event_from_row(dict(row)) for row in rows]

    async def last_number(self) -> int:
        last = await self._reader.read(lambda connection: connection.execute(select(sql.max(events.c.number))).scalar())
        return last or 0
