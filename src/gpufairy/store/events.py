"""Events: the history of sessions and GPUs, read in order. Those of sessions are written by sessions.py, with the change they tell of."""
from sqlalchemy import func as sql
from sqlalchemy import select

from gpufairy.core.steps import Event
from gpufairy.store.reader import Reader
from gpufairy.store.rows import event_from_row
from gpufairy.store.session_writes import write_events
from gpufairy.store.tables import events
from gpufairy.store.writer import Writer


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

    async def last_number(self) -> int:
        last = await self._reader.read(lambda connection: connection.execute(select(sql.max(events.c.number))).scalar())
        return last or 0
