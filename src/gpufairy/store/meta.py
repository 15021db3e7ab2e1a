"""Single values of a database: those that are chosen once, such as its name and its keys, and small settings."""
from sqlalchemy import Connection, delete, insert, select

from gpufairy.store.reader import Reader
from gpufairy.store.tables import meta
from gpufairy.store.writer import Writer


class Meta:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def get(self, name: str) -> str | None:
        return await self._reader.read(lambda connection: find(connection, name))

    async def put(self, name: str, value: str) -> None:
        await self._writer.write(lambda connection: put(connection, name, value))

    async def put_once(self, name: str, value: str) -> str:
        """What is there now: the first writer wins."""
        return await self._writer.write(lambda connection: put_once(connection, name, value))


def find(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return found


def put(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(meta).where(meta.c.name == name))
    connection.execute(insert(meta), [{"name": name, "value": value}])


def put_once(connection: Connection, name: str, value: str) -> str:
    there = find(connection, name)
    if there is not None:
        return there
    connection.execute(insert(meta), [{"name": name, "value": value}])
    return value
