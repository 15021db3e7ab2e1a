"""Hosts whose agents may report, with the keys they are known by."""
import base64
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.agent import Agent
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.tables import agents
from gpufairy.store.writer import Writer


class Agents:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def all(self) -> list[Agent]:
        rows = await self._reader.read(lambda connection: connection.execute(select(agents).order_by(agents.c.name)).all())
        return [Agent(row.name, base64.b64decode(row.key), from_micros(row.accepted_at), row.accepted_by) for row in rows]

    async def put(self, agent: Agent) -> None:
        """One host has one key: a new one takes the old one's place."""
        row = {"name": agent.name, "key": base64.b64encode(agent.key).decode(), "accepted_by": agent.accepted_by}
        await self._writer.write(lambda connection: _put(connection, {**row, "accepted_at": to_micros(agent.accepted_at)}))

    async def remove(self, name: str) -> None:
        await self._writer.write(lambda connection: _remove(connection, name))


def _put(connection: Connection, row: dict[str, Any]) -> None:
    _remove(connection, row["name"])
    connection.execute(insert(agents), [row])


def _remove(connection: Connection, name: str) -> None:
    connection.execute(delete(agents).where(agents.c.name == name))
