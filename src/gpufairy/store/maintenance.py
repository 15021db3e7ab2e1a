"""Maintenance windows, over or not, and the times in which no server watched."""
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.maintenance import Window
from gpufairy.core.uptime import Spell
from gpufairy.store.maintenance_tables import maintenance, unwatched
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.writer import Writer


class MaintenanceRows:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def windows(self, end_after: datetime) -> list[Window]:
        query = select(maintenance).where(maintenance.c.end > to_micros(end_after)).order_by(maintenance.c.start, maintenance.c.id)
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [Window(**{**row, "start": from_micros(row["start"]), "end": from_micros(row["end"])}) for row in rows]

    async def put(self, window: Window) -> None:
        """Made, or changed."""
        await self._writer.write(lambda connection: _put(connection, window))

    async def remove(self, window_id: str) -> None:
        await self._writer.write(lambda connection: connection.execute(delete(maintenance).where(maintenance.c.id == window_id)))

    async def unwatched(self, end_after: datetime) -> list[Spell]:
        query = select(unwatched).where(unwatched.c.end > to_micros(end_after)).order_by(unwatched.c.start)
        rows = await self._reader.read(lambda connection: connection.execute(query).all())
        return [Spell(from_micros(row.start), from_micros(row.end)) for row in rows]

    async def add_unwatched(self, spell: Spell) -> None:
        await self._writer.write(lambda connection: _add_unwatched(connection, spell))

    async def forget(self, before: datetime) -> None:
        old: list[Any] = [delete(table).where(table.c.end < to_micros(before)) for table in (maintenance, unwatched)]
        await self._writer.write(lambda connection: [connection.execute(one) for one in old])


def _put(connection: Connection, window: Window) -> None:
    connection.execute(delete(maintenance).where(maintenance.c.id == window.id))
    row = {"id": window.id, "node": window.node, "made_by": window.made_by, "why": window.why}
    connection.execute(insert(maintenance), [{**row, "start": to_micros(window.start), "end": to_micros(window.end)}])


def _add_unwatched(connection: Connection, spell: Spell) -> None:
    connection.execute(delete(unwatched).where(unwatched.c.start == to_micros(spell.start)))
    connection.execute(insert(unwatched), [{"start": to_micros(spell.start), "end": to_micros(spell.end)}])
