"""One server writes. Beside a SQLite file a flock says who; on PostgreSQL a row, whose epoch every write checks.

A lease never depends on a clock that can be set: who wants it watches whether the holder's beat still changes.
"""
import asyncio
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Update, bindparam, insert, select, update
from sqlalchemy import func as sql

from gpufairy.core.errors import Conflict, NotLeader, StoreUnavailable
from gpufairy.store.database import Database
from gpufairy.store.faults import core_errors
from gpufairy.store.tables import leader

MAKING_LEADER = 0x6761697279  # any number: PostgreSQL's advisory lock while the leader table is made


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    beat_s: float = 5.0  # how often an idle leader shows that it lives
    silent_s: float = 15.0  # no beat for so long: dead; three beats, so that one slow commit loses nothing
    look_s: float = 0.5  # how often one who waits looks


@dataclass(frozen=True, slots=True)
class Seen:
    """The leader row at one moment."""

    holder: str  # empty: nobody
    epoch: int
    beat: int


class FileLock:
    """Held for the life of the process; the kernel frees it however that ends."""

    def __init__(self, database_file: Path, holder: str) -> None:
        self.file = database_file.with_name(database_file.name + ".lock")
        try:
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"lock {self.file} cannot be opened: {error.strerror}", "Check who owns it and its folder.") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(self._descriptor)
            raise Conflict(
                f"database {database_file} is in use by {found}",
                "Stop that server first (`fairy down`), or give this one a folder of its own with --data.",
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"pid {os.getpid()}, {holder}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


class Lease:
    """The right to write, as long as the epoch in the database is ours."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._beat = 0

    def next_beat(self) -> int:
        self._beat += 1
        return self._beat

    def claim(self, connection: Connection, beat: int) -> bool:
        """Locks the row for this transaction. False: a transaction with this beat is committed already.

        The update also marks the commit, so that one whose answer was lost on the way is neither repeated nor reported as failed.
        """
        if connection.execute(CLAIM, {"our_epoch": self.epoch, "our_beat": beat}).rowcount == 1:
            return True
        row = read_leader(connection)
        if row.epoch == self.epoch:
            return False
        raise NotLeader(
            f"the lease is with {row.holder or 'nobody'} (epoch {row.epoch}), no longer with this server (epoch {self.epoch})",
            "Nothing was written. Ask the server that leads now; this one must be started again.",
        )

    def release(self, connection: Connection) -> None:
        connection.execute(update(leader).where(leader.c.epoch == self.epoch).values(holder=""))


async def take_lease(database: Database, holder: str, times: LeaseTimes, wait: bool) -> Lease:
    """Waits until nobody else has it. `wait=False`: Conflict as soon as the holder is seen to live."""
    await asyncio.to_thread(make_leader, database)
    seen = await asyncio.to_thread(look, database)
    changed_s = time.monotonic()
    while True:
        # The flock is ours already where there is one, so whoever the row names is dead.
        if database.file is not None or not seen.holder or time.monotonic() - changed_s >= times.silent_s:
            lease = await asyncio.to_thread(try_take, database, seen, holder)
            if lease is not None:
                return lease
        await asyncio.sleep(times.look_s)
        try:
            found = await asyncio.to_thread(look, database)
        except StoreUnavailable:
            changed_s = time.monotonic()  # a holder that could not beat is not dead
            continue
        if found != seen:
            seen, changed_s = found, time.monotonic()
            if seen.holder and not wait:
                raise Conflict(f"database {database.place} is in use by {seen.holder}", "Stop that server first, or wait for the lease.")


def make_leader(database: Database) -> None:
    with core_errors(database.place), database.writing.begin() as connection:
        if database.file is None:
            connection.execute(select(sql.pg_advisory_xact_lock(MAKING_LEADER)))
        leader.create(connection, checkfirst=True)
        if connection.execute(select(leader.c.id)).first() is None:
            connection.execute(insert(leader).values(id=1, holder="", epoch=0, beat=0))


def look(database: Database) -> Seen:
    with core_errors(database.place), database.reading.connect() as connection:
        return read_leader(connection)


def try_take(database: Database, seen: Seen, holder: str) -> Lease | None:
    unchanged = (leader.c.epoch == seen.epoch) & (leader.c.beat == seen.beat)
    taking = update(leader).where(unchanged).values(holder=holder, epoch=seen.epoch + 1, beat=0)
    with core_errors(database.place), database.writing.begin() as connection:
        return Lease(seen.epoch + 1) if connection.execute(taking).rowcount == 1 else None


def read_leader(connection: Connection) -> Seen:
    row = connection.execute(select(leader.c.holder, leader.c.epoch, leader.c.beat)).one()
    return Seen(row.holder, row.epoch, row.beat)


def _claim() -> Update:
    ours = (leader.c.id == 1) & (leader.c.epoch == bindparam("our_epoch")) & (leader.c.beat != bindparam("our_beat"))
    return update(leader).where(ours).values(beat=bindparam("our_beat"))


CLAIM = _claim()  # built once: it runs with every transaction
