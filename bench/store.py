"""The store alone on SQLite, every commit synced: adds, saves, pages, loading 100,000."""
import asyncio
import tempfile
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

from bench.figures import Figure, Report
from gpufairy.core.session import Request, Seat, Session, SessionKind
from gpufairy.core.share import ONE_GPU
from gpufairy.core.steps import event, place
from gpufairy.store.store import Store

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ADDERS, ADDS_EACH = 64, 50
BATCHES, CHANGES = 30, 100
QUEUED = 100_000
SEAT = Seat("gpu01", 1000, 2**30)


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        return Report("store", asyncio.run(figures(f"sqlite:///{folder}/data/fairy.db")))


async def figures(url: str) -> list[Figure]:
    store = await Store.open(url, holder="bench", half_life=timedelta(days=7))
    try:
        adds_s = await timed(asyncio.gather(*(adder(store, number) for number in range(ADDERS))))
        saves_s = await timed(saves(store))
        await fill(store)
        live_s = await timed(store.sessions.live())
        await store.sessions.get("nobody")  # freeing the hundred thousand is no part of a page
        page_s = await timed(store.sessions.page(owner=None, states=None, name=None, limit=100, after=90_000))
    finally:
        await store.close()
    return [
        Figure(f"adds of one session, {ADDERS} at once, each synced", ADDERS * ADDS_EACH / adds_s, "/s"),
        Figure(f"saves of {CHANGES} changes", BATCHES / saves_s, "/s"),
        Figure(f"reading {QUEUED:,} live sessions", live_s, "s", goal=5, higher_is_better=False),
        Figure("one page of 100 among them", page_s * 1000, "ms", goal=50, higher_is_better=False),
    ]


async def timed(work: Awaitable[object]) -> float:
    began = time.monotonic()
    await work
    return time.monotonic() - began


def a_session(name: str, memory_bytes: int = 2**30) -> Session:
    request = Request(ONE_GPU, ("true",), cpus_milli=1000, memory_bytes=memory_bytes)
    return Session(name, name, "mina", SessionKind.BATCH, request, NOW, NOW)


async def adder(store: Store, number: int) -> None:
    for turn in range(ADDS_EACH):
        session = a_session(f"a{number}-{turn}")
        await store.sessions.add([session], [event(session, "submitted", NOW, "")])


async def saves(store: Store) -> None:
    sessions = await store.sessions.add([a_session(f"b{number}") for number in range(BATCHES * CHANGES)], [])
    changes = [place(session, SEAT, NOW, "") for session in sessions]
    for start in range(0, len(changes), CHANGES):
        assert len(await store.sessions.save(changes[start : start + CHANGES])) == CHANGES


async def fill(store: Store) -> None:
    """Half of the requests alike, as a lab's are."""
    for start in range(0, QUEUED, 1000):
        await store.sessions.add([a_session(f"q{start + i}", 2**30 + (start + i) * (i % 2)) for i in range(1000)], [])
