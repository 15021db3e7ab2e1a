"""The writer: one thread, and one commit for all that wait (group commit). What is written is the callers' business.

A piece of work that fails takes nothing of its neighbours with it: all are undone, and run again with a savepoint each.
So work may run more than once: what it changes outside the database must stand that, as a counter with gaps does.
"""
import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError, SQLAlchemyError

from gpufairy.core import failpoints
from gpufairy.core.errors import FairyError, NotLeader, StoreUnavailable
from gpufairy.store.database import Database
from gpufairy.store.faults import ConnectionLost, closed, core_error, core_errors
from gpufairy.store.leader import Lease

T = TypeVar("T")
Work = Callable[[Connection], T]

MOST_IN_ONE_COMMIT = 64  # PostgreSQL keeps 64 savepoints of a transaction in memory; more slow down every reader
OWN_FAULTS = (IntegrityError, DataError, ProgrammingError)  # of one piece of work; any other concerns the whole database


@dataclass(slots=True, eq=False)
class Job:
    work: Work[Any]
    done: asyncio.Future[Any]
    alone: bool = False  # it was in a batch that broke for no known reason: each of that batch now runs by itself
    answer: Any = None
    error: BaseException | None = None


class CommitUnknown(ConnectionLost):
    """The connection broke while the commit was on its way."""


class Writer:
    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "store-writer")
        self._waiting: deque[Job] = deque()
        self._in_hand: list[Job] = []
        self._draining: asyncio.Future[None] | None = None  # touched by the event loop alone
        self._closed = False

    async def write(self, work: Work[T]) -> T:
        if self._closed:
            raise closed(self._database.place)
        job = Job(work, self._loop.create_future())
        self._waiting.append(job)
        self._start_draining()
        answer: T = await job.done
        return answer

    async def close(self) -> None:
        """Writes what waits, then gives the lease back."""
        self._closed = True
        while self._draining is not None:
            await asyncio.wait([self._draining])
        try:
            await self._loop.run_in_executor(self._thread, self._release)
        finally:
            self._thread.shutdown()

    def _release(self) -> None:
        with core_errors(self._database.place), self._database.writing.begin() as connection:
            self._lease.release(connection)

    def _start_draining(self) -> None:
        if self._draining is None and self._waiting:
            self._draining = self._loop.run_in_executor(self._thread, self._drain)
            self._draining.add_done_callback(self._drained)

    def _drain(self) -> None:
        """In the thread: batch after batch without asking the event loop, which may be busy."""
        while batch := self._take():
            self._in_hand = batch
            self._write_batch(batch)
            self._loop.call_soon_threadsafe(settle, batch)
            self._in_hand = []

    def _take(self) -> list[Job]:
        batch: list[Job] = []
        while self._waiting and len(batch) < MOST_IN_ONE_COMMIT:
            if self._waiting[0].alone and batch:
                break
            batch.append(self._waiting.popleft())
            if batch[0].alone:
                break
        return batch

    def _drained(self, draining: asyncio.Future[None]) -> None:
        self._draining = None
        error, broken, self._in_hand = draining.exception(), self._in_hand, []
        if error is not None and len(broken) == 1:
            broken[0].error = error
            settle(broken)
        elif error is not None:
            for job in reversed(broken):
                job.alone = True
                self._waiting.appendleft(job)
        self._start_draining()

    def _write_batch(self, batch: list[Job]) -> None:
        try:
            self._write_twice(batch)
        except FairyError as error:
            for job in batch:
                job.error = error

    def _write_twice(self, batch: list[Job]) -> None:
        """A broken connection is worth a second try: the beat tells whether the first was committed after all."""
        beat = self._lease.next_beat()
        try:
            self._transact(batch, beat)
        except CommitUnknown as unknown:
            try:
                self._transact(batch, beat)
            except (StoreUnavailable, NotLeader) as error:
                raise StoreUnavailable(
                    f"{error.detail}; before that, {unknown.detail}, so it is not known whether this was written",
                    "Look before you ask again, or ask again with the same Idempotency-Key.",
                ) from error
        except ConnectionLost:
            self._transact(batch, beat)

    def _transact(self, batch: list[Job], beat: int) -> None:
        place = self._database.place
        with core_errors(place), self._database.writing.connect() as connection:
            for run in (run_together, run_apart):
                transaction = connection.begin()
                if not self._lease.claim(connection, beat):
                    transaction.rollback()
                    return
                if run(connection, batch, place):
                    break
                transaction.rollback()
            try:
                failpoints.passing("before_commit")
                transaction.commit()
                failpoints.passing("after_commit")
            except SQLAlchemyError as error:
                found = core_error(error, place)
                raise (CommitUnknown(found.detail, found.next_step) if isinstance(found, ConnectionLost) else found) from error


def run_together(connection: Connection, batch: list[Job], _place: str) -> bool:
    """Without savepoints, which cost as much as the work itself. False: one failed, so all must be undone and run apart."""
    try:
        for job in batch:
            job.answer, job.error = job.work(connection), None
    except OWN_FAULTS as error:
        if error.connection_invalidated:
            raise
        return False
    except FairyError:
        return False
    return True


def run_apart(connection: Connection, batch: list[Job], place: str) -> bool:
    for job in batch:
        job.answer = job.error = None
        connection.exec_driver_sql("SAVEPOINT job")
        try:
            job.answer = job.work(connection)
        except OWN_FAULTS as error:
            if error.connection_invalidated:
                raise
            job.error = core_error(error, place)
        except FairyError as error:
            job.error = error
        connection.exec_driver_sql("RELEASE SAVEPOINT job" if job.error is None else "ROLLBACK TO SAVEPOINT job")
    return True


def settle(batch: list[Job]) -> None:
    for job in batch:
        if job.done.done():  # its caller was cancelled; what it asked for is written all the same
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.answer)
