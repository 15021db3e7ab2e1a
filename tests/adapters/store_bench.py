"""How fast the store is, by hand: `python tests/adapters/store_bench.py [URL]`; without URL on SQLite in a folder of its own."""
import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta

from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Request, Seat, Session, SessionKind
from gpufairy.core.share import ONE_GPU
from gpufairy.core.steps import event, place
from gpufairy.store.store import Store

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ADDERS, ADDS_EACH = 64, 100
BATCHES, CHANGES = 50, 100
QUEUED = 100_000
SEAT = Seat("gpu01", 1000, 2**30)


def a_session(number: int, same: bool = True) -> Session:
    request = Request(ONE_GPU, ("python", "train.py", "" if same else str(number)), env=(("SEED", "1"),))
    return Session(f"id{number}", f"n{number}", "mina", SessionKind.BATCH, request, NOW, NOW)


async def bench(url: str) -> None:
    store = await Store.open(url, holder="bench", half_life=timedelta(days=7))
    await adds(store)
    await lone_adds(store, 1_000_000)
    await saves(store)
    await many(store)
    await lone_adds(store, 2_000_000)
    await store.close()
    began = time.perf_counter()
    store = await Store.open(url, holder="bench", half_life=timedelta(days=7))
    tell("open with 100,000 rows", (time.perf_counter() - began) * 1000, "ms")
    await store.close()


async def adds(store: Store) -> None:
    async def adder(which: int) -> None:
        for i in range(ADDS_EACH):
            session = a_session(which * ADDS_EACH + i)
            await store.sessions.add([session], [event(session, "submitted", NOW, "")])

    began = time.perf_counter()
    await asyncio.gather(*(adder(which) for which in range(ADDERS)))
    tell(f"adds, {ADDERS} at once", ADDERS * ADDS_EACH / (time.perf_counter() - began), "/s")


async def lone_adds(store: Store, start: int) -> None:
    times = []
    for i in range(200):
        session = a_session(start + i)
        began = time.perf_counter()
        await store.sessions.add([session], [event(session, "submitted", NOW, "")])
        times.append(time.perf_counter() - began)
    tell("one add alone, median", sorted(times)[100] * 1000, "ms")
    tell("one add alone, p99", sorted(times)[197] * 1000, "ms")


async def saves(store: Store) -> None:
    sessions = (await store.sessions.live())[: BATCHES * CHANGES]
    changes = [place(session, SEAT, NOW, "room") for session in sessions]
    began = time.perf_counter()
    for start in range(0, len(changes), CHANGES):
        assert len(await store.sessions.save(changes[start : start + CHANGES])) == CHANGES
    tell(f"saves of {CHANGES} changes", BATCHES / (time.perf_counter() - began), "/s")


async def many(store: Store) -> None:
    began = time.perf_counter()
    for start in range(0, QUEUED, 1000):
        await store.sessions.add([a_session(10_000_000 + start + i, same=i % 2 == 0) for i in range(1000)], [])
    tell("adds by the thousand", QUEUED / (time.perf_counter() - began), "/s")
    began = time.perf_counter()
    await store.sessions.live()
    tell("live() of 100,000, half of the requests alike", time.perf_counter() - began, "s")
    await store.sessions.get("id1")  # freeing the hundred thousand is no part of the first page
    live = [phase for phase in Phase if phase is not Phase.ENDED]
    for owner, states in ((None, None), ("mina", None), ("mina", live), ("jun", live), ("mina", [Phase.RUNNING]), (None, [Phase.LOST])):
        began = time.perf_counter()
        await store.sessions.page(owner=owner, states=states, name=None, limit=100, after=90_000)
        tell(f"page of 100, owner={owner} states={None if states is None else len(states)}", (time.perf_counter() - began) * 1000, "ms")
    began = time.perf_counter()
    await store.sessions.counts()
    tell("counts()", (time.perf_counter() - began) * 1000, "ms")


def tell(what: str, figure: float, unit: str) -> None:
    print(f"{what:<50} {figure:>12,.2f} {unit}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        asyncio.run(bench(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/fairy.db"))
