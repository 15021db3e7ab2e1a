"""What admins said of nodes. What nodes themselves report is not kept: it is asked again."""
from sqlalchemy import Connection, delete, insert, select

from gpufairy.store.reader import Reader
from gpufairy.store.tables import drained
from gpufairy.store.writer import Writer


class Nodes:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def drained(self) -> dict[str, str]:
        """Why, by the name of the node."""
        rows = await self._reader.read(lambda connection: connection.execute(select(drained)).all())
        return {row.node: row.why for row in rows}

    async def set_drained(self, name: str, why: str | None) -> None:
        """`why=None`: it may be used again."""
        await self._writer.write(lambda connection: set_drained(connection, name, why))


def set_drained(connection: Connection, name: str, why: str | None) -> None:
    connection.execute(delete(drained).where(drained.c.node == name))
    if why is not None:
        connection.execute(insert(drained), [{"node": name, "why": why}])
