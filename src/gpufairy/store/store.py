"""The store as the rest of the system sees it: opened once, by the one server that writes."""
import asyncio
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func as sql
from sqlalchemy import select

from gpufairy.core.errors import NotLeader, StoreUnavailable
from gpufairy.core.ledger import ENTRY_PENALTY, Fading
from gpufairy.store import tables
from gpufairy.store.agents import Agents
from gpufairy.store.alerts import Alerts
from gpufairy.store.bookings import Bookings
from gpufairy.store.classes import Classes
from gpufairy.store.database import Database, open_database
from gpufairy.store.disk import Disk
from gpufairy.store.events import Events
from gpufairy.store.faults import core_errors
from gpufairy.store.history import History
from gpufairy.store.images import Images
from gpufairy.store.leader import FileLock, Lease, LeaseTimes, take_lease
from gpufairy.store.ledger import LedgerRows
from gpufairy.store.maintenance import MaintenanceRows
from gpufairy.store.meta import Meta
from gpufairy.store.migrate import BeforeUpgrade, migrate, nothing_kept
from gpufairy.store.nodes import Nodes
from gpufairy.store.outbox import OutboxRows
from gpufairy.store.people import People
from gpufairy.store.pools import Pools
from gpufairy.store.reader import Reader
from gpufairy.store.sessions import Sessions
from gpufairy.store.shares import Shares
from gpufairy.store.teams import Teams
from gpufairy.store.upkeep import UpkeepRows
from gpufairy.store.writer import Writer

log = logging.getLogger(__name__)
TIMES = LeaseTimes()


@dataclass(frozen=True, slots=True)
class Held:
    """What the store must give back when it closes."""

    database: Database
    lock: FileLock | None
    writer: Writer
    reader: Reader
    beating: asyncio.Task[None] | None
    lost: asyncio.Event


class Store:
    sessions: Sessions
    events: Events
    people: People
    nodes: Nodes
    meta: Meta
    images: Images
    history: History
    agents: Agents
    shares: Shares
    teams: Teams
    bookings: Bookings
    ledger: LedgerRows
    classes: Classes
    alerts: Alerts
    maintenance: MaintenanceRows
    outbox: OutboxRows
    pools: Pools
    disk: Disk
    upkeep: UpkeepRows

    def __init__(self, held: Held, fading: Fading, last_number: int) -> None:
        self._held = held
        self.lease_lost = held.lost  # set when another server leads: this one must end
        writer, reader = held.writer, held.reader
        self.sessions = Sessions(writer, reader, fading, last_number)
        self.events = Events(writer, reader)
        self.people = People(writer, reader)
        self.nodes = Nodes(writer, reader)
        self.meta = Meta(writer, reader)
        self.images = Images(writer, reader)
        self.history = History(writer, reader)
        self.agents = Agents(writer, reader)
        self.shares = Shares(writer, reader)
        self.teams = Teams(writer, reader)
        self.bookings = Bookings(writer, reader)
        self.ledger = LedgerRows(reader)
        self.classes = Classes(writer, reader)
        self.alerts = Alerts(writer, reader)
        self.maintenance = MaintenanceRows(writer, reader)
        self.outbox = OutboxRows(writer, reader)
        self.pools = Pools(writer, reader)
        self.disk = Disk(writer, reader)
        self.upkeep = UpkeepRows(writer, reader)

    @classmethod
    async def open(
        cls, url: str, *, holder: str, half_life: timedelta, entry_penalty: timedelta = ENTRY_PENALTY,
        wait_for_lease: bool = True, times: LeaseTimes = TIMES, before_upgrade: BeforeUpgrade = nothing_kept,
    ) -> "Store":  # fmt: skip
        """`holder` names this server to people. SQLite in use: Conflict at once; PostgreSQL: waits for the lease."""
        with ExitStack() as undo:
            database = open_database(url)
            undo.callback(database.dispose)
            lock = FileLock(database.file, holder) if database.file is not None else None
            if lock is not None:
                undo.callback(lock.release)
            lease = await take_lease(database, holder, times, wait_for_lease)
            await asyncio.to_thread(migrate, database, lease, before_upgrade)
            last_number = await asyncio.to_thread(last_session_number, database)
            undo.pop_all()
        return cls(hold(database, lock, lease, times), Fading(half_life, entry_penalty), last_number)

    async def close(self) -> None:
        """What was asked before is written; then another server may take over at once."""
        held = self._held
        if held.beating is not None:
            held.beating.cancel()
            await asyncio.wait([held.beating])
        try:
            await held.writer.close()
        except StoreUnavailable as error:
            log.warning("the lease could not be given back, so the next server waits for it: %s", error)
        await held.reader.close()
        held.database.dispose()
        if held.lock is not None:
            held.lock.release()


def last_session_number(database: Database) -> int:
    """Read under the lease: nobody can add one afterwards."""
    with core_errors(database.place), database.reading.connect() as connection:
        return connection.execute(select(sql.max(tables.sessions.c.number))).scalar() or 0


def hold(database: Database, lock: FileLock | None, lease: Lease, times: LeaseTimes) -> Held:
    writer = Writer(database, lease)
    lost = asyncio.Event()
    beating = asyncio.create_task(beat(writer, times.beat_s, lost)) if lock is None else None
    return Held(database, lock, writer, Reader(database), beating, lost)


async def beat(writer: Writer, every_s: float, lost: asyncio.Event) -> None:
    """Shows those who wait for the lease that this server lives: every commit is a beat, so an empty one will do."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await writer.write(lambda connection: None)
        except StoreUnavailable as error:
            log.warning("no beat of the lease: %s", error)
        except NotLeader as error:
            log.error("%s", error)
            lost.set()
            return
