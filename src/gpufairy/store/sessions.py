"""Sessions: added, changed under guard, read. Each write is one transaction with its events and what the ledger makes of it."""
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, case, select

from gpufairy.core.ledger import Fading, Usage, hold_ended
from gpufairy.core.lifecycle import HOLDS_GPUS, Phase
from gpufairy.core.past import Past
from gpufairy.core.session import Session
from gpufairy.core.steps import Change, Event
from gpufairy.store import tables
from gpufairy.store.past import read_pasts, unknown
from gpufairy.store.reader import Reader
from gpufairy.store.rows import chunks, from_micros, hold_to_row, session_from_row, session_to_row
from gpufairy.store.session_writes import (
    ADD_HOLDS,
    ADD_SESSIONS,
    GUARDED,
    IdempotencyKey,
    change_to_row,
    forget_keys,
    made_before,
    refuse_taken_names,
    remember_key,
    those_that_stand,
    write_events,
    write_usage,
)
from gpufairy.store.tables import HOLDING, LIVE
from gpufairy.store.writer import Writer

__all__ = ["IdempotencyKey", "Sessions"]

table = tables.sessions


class Sessions:
    def __init__(self, writer: Writer, reader: Reader, fading: Fading, last_number: int) -> None:
        self._writer = writer
        self._reader = reader
        self._fading = fading
        self._last_number = last_number  # touched in the writer's thread alone

    async def add(self, sessions: Sequence[Session], events: Sequence[Event], key: IdempotencyKey | None = None) -> list[Session]:
        """All or none, each with its number. A key seen before with the same body gives what was made then."""
        return await self._writer.write(lambda connection: self._add(connection, sessions, events, key))

    async def made_with(self, key: IdempotencyKey) -> list[Session] | None:
        """What was made with this key before; None: nothing yet, or it is forgotten."""
        return await self._reader.read(lambda connection: made_before(connection, key))

    async def save(self, changes: Sequence[Change]) -> list[Change]:
        """Those that took: for the others somebody was faster, or the session has ended; read again."""
        if not changes:
            return []
        return await self._writer.write(lambda connection: self._save(connection, changes))

    async def past(self, after: int, limit: int) -> list[Past]:
        """Of those that are over. `after`: the number of the last one before."""
        return await self._reader.read(lambda connection: read_pasts(connection, after, limit))

    async def add_past(self, pasts: Sequence[Past]) -> list[Past]:
        """From another server. Those that were not here yet, with all that belongs to them; what they held counts as if it were here."""
        return await self._writer.write(lambda connection: self._add_past(connection, pasts))

    async def forget_old_keys(self, before: datetime) -> None:
        await self._writer.write(lambda connection: forget_keys(connection, before))

    async def live(self) -> list[Session]:
        return await self._sessions(LIVE_ONES)

    async def get(self, session_id: str) -> Session | None:
        found = await self._sessions(BY_ID, {"wanted_id": session_id})
        return found[0] if found else None

    async def named(self, owner: str, name: str) -> Session | None:
        """The live one of that name, else the newest."""
        asked = {"wanted_owner": owner, "wanted_name": name}
        found = await self._sessions(OF_THAT_NAME, asked)
        return found[0] if found else None

    async def page(
        self,
        *,
        owner: str | None,
        states: Sequence[Phase] | None,
        name: str | None,
        limit: int,
        after: int | None,
    ) -> list[Session]:
        """Newest first. `after`: the number of the last session of the page before."""
        query = select(table)
        if owner is not None:
            query = query.where(table.c.owner == owner)
        if name is not None:
            query = query.where(table.c.name == name)
        if states is not None:
            query = in_states(query, states)
        if after is not None:
            query = query.where(table.c.number < after)
        return await self._sessions(query.order_by(table.c.number.desc()).limit(limit))

    async def ended(self, ids: Sequence[str]) -> dict[str, Session]:
        found = [await self._sessions(AMONG_ENDED, {"wanted_ids": some}) for some in chunks(ids)]
        return {session.id: session for some in found for session in some}

    async def usage(self) -> dict[str, Usage]:
        rows = await self._reader.read(lambda connection: connection.execute(select(tables.usage)).all())
        return {row.owner: Usage(row.gpu_seconds, from_micros(row.as_of)) for row in rows}

    async def _sessions(self, query: Select[Any], values: dict[str, Any] | None = None) -> list[Session]:
        return await self._reader.read(lambda connection: [session_from_row(row) for row in connection.execute(query, values or {})])

    def _add(
        self, connection: Connection, sessions: Sequence[Session], events: Sequence[Event], key: IdempotencyKey | None
    ) -> list[Session]:
        if key is not None and (made := made_before(connection, key)) is not None:
            return made
        refuse_taken_names(connection, sessions)
        numbered = [replace(session, number=self._last_number + place) for place, session in enumerate(sessions, 1)]
        self._last_number += len(numbered)
        if numbered:
            connection.execute(ADD_SESSIONS, [session_to_row(session) for session in numbered])
        write_events(connection, events)
        if key is not None:
            remember_key(connection, key, numbered)
        return numbered

    def _add_past(self, connection: Connection, pasts: Sequence[Past]) -> list[Past]:
        new = unknown(connection, pasts)
        if not new:
            return []
        numbered = [replace(past.session, number=self._last_number + place) for place, past in enumerate(new, 1)]
        self._last_number += len(numbered)
        connection.execute(ADD_SESSIONS, [session_to_row(session) for session in numbered])
        write_events(connection, [event for past in new for event in past.events])
        holds = [hold for past in new for hold in past.holds]
        if holds:
            connection.execute(ADD_HOLDS, [hold_to_row(hold) for hold in holds])
            write_usage(connection, holds, self._fading)
        return new

    def _save(self, connection: Connection, changes: Sequence[Change]) -> list[Change]:
        took = those_that_stand(connection, changes)
        if not took:
            return []
        connection.execute(GUARDED, [change_to_row(change) for change in took])
        write_events(connection, [event for change in took for event in change.events])
        holds = [hold for change in took if (hold := hold_ended(change)) is not None]
        if holds:
            connection.execute(ADD_HOLDS, [hold_to_row(hold) for hold in holds])
            write_usage(connection, holds, self._fading)
        return took


def in_states(query: Select[Any], states: Sequence[Phase]) -> Select[Any]:
    """The first condition says no more than the second, but opens an index without the kind of which there are most."""
    if set(states) <= HOLDS_GPUS:
        query = query.where(HOLDING)
    elif Phase.ENDED not in states:
        query = query.where(LIVE)
    return query.where(table.c.phase.in_([phase.value for phase in states]))


AMONG = table.c.id.in_(bindparam("wanted_ids", expanding=True))
BY_ID = select(table).where(table.c.id == bindparam("wanted_id"))
AMONG_ENDED = select(table).where(AMONG, table.c.phase == Phase.ENDED.value)
LIVE_ONES = select(table).where(LIVE).order_by(table.c.number)
OF_NAME = (table.c.owner == bindparam("wanted_owner")) & (table.c.name == bindparam("wanted_name"))
LIVE_FIRST = case((LIVE, 0), else_=1)
OF_THAT_NAME = select(table).where(OF_NAME).order_by(LIVE_FIRST, table.c.number.desc()).limit(1)
