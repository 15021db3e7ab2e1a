"""Sessions, seats and stores for the store's tests, with everything that a test does not care about filled in."""
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufairy.core.lifecycle import Happening
from gpufairy.core.session import GpuSeat, Outcome, Request, Seat, Session, SessionKind
from gpufairy.core.share import ONE_GPU, PARTS
from gpufairy.core.steps import Change, Event, change, end, event, place
from gpufairy.store.leader import LeaseTimes
from gpufairy.store.store import Store

NOW = datetime(2026, 11, 15, 8, 0, 0, 123456, tzinfo=UTC)
HALF_LIFE = timedelta(days=7)
REQUEST = Request(ONE_GPU, ("python", "train.py"), 4000, 2**34, "A100-40GB", env=(("SEED", "1"),), time_limit=timedelta(hours=2))
QUICK = LeaseTimes(beat_s=0.05, silent_s=0.3, look_s=0.02)
NEVER_BEATS = LeaseTimes(beat_s=3600, silent_s=0.1, look_s=0.02)  # as a server that is paused right after it took the lease


@asynccontextmanager
async def a_store(url: str, holder: str = "server-a", times: LeaseTimes = QUICK, **options: Any) -> AsyncIterator[Store]:
    store = await Store.open(url, holder=holder, half_life=HALF_LIFE, times=times, **options)
    try:
        yield store
    finally:
        await store.close()


def a_session(name: str, owner: str = "mina", **fields: Any) -> Session:
    return Session(**{"id": f"{owner}-{name}", "name": name, "owner": owner, "kind": SessionKind.BATCH, "request": REQUEST,
                      "submitted_at": NOW, "since": NOW, **fields})  # fmt: skip


def submitted(session: Session) -> Event:
    return event(session, "submitted", NOW, "asked by its owner", actor=session.owner)


def a_seat(node: str = "gpu01") -> Seat:
    return Seat(node, 4000, 2**34, (GpuSeat(0, "GPU-1", PARTS, 40 * 2**30, enforced=("memory",)),), charge_parts=PARTS)


def placed(session: Session, now: datetime = NOW) -> Change:
    return place(session, a_seat(), now, "room on gpu01")


def stopped(session: Session, now: datetime) -> Change:
    return end(session, Happening.TOLD_TO_STOP, now, outcome=Outcome.STOPPED, why="its owner stopped it")


def noted(session: Session, why: str) -> Change:
    return Change(session, replace(session, why=why, revision=session.revision + 1), ())


def happened(session: Session, *happenings: Happening, now: datetime = NOW) -> Change:
    return change(session, *((what, "") for what in happenings), now=now)
