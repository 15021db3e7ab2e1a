"""Reading: a few threads with connections of their own, beside the writer and never waiting for it."""
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection

from gpufairy.store.database import READERS, Database
from gpufairy.store.faults import ConnectionLost, closed, core_errors

T = TypeVar("T")


class Reader:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(READERS, "store-reader")
        self._closed = False

    async def read(self, query: Callable[[Connection], T]) -> T:
        """`query` must be harmless to repeat: after a broken connection it runs again on a new one."""
        if self._closed:
            raise closed(self._database.place)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read_twice, query)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)

    def _read_twice(self, query: Callable[[Connection], T]) -> T:
        try:
            return self._read(query)
        except ConnectionLost:
            return self._read(query)

    def _read(self, query: Callable[[Connection], T]) -> T:
        with core_errors(self._database.place), self._database.reading.connect() as connection:
            return query(connection)
