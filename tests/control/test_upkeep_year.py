"""A year of a lab, day by day through the real store: what is over goes by its age, what was held stays, and nobody waits for the cleaning."""
import asyncio
import time as clock_time
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest
from house_scene import a_house
from sqlalchemy import insert, text

from builders import a_seat
from gpufairy.control.accounting import account_of
from gpufairy.control.clock import HeldClock
from gpufairy.control.upkeep import Upkeep, UpkeepSettings
from gpufairy.core.lifecycle import Happening
from gpufairy.core.people import Token
from gpufairy.core.series import Kind, Subject, point
from gpufairy.core.session import GpuSeat, Outcome, Request, Session, SessionKind
from gpufairy.core.share import ONE_GPU, PARTS
from gpufairy.core.steps import change, deed_event, end, event, place
from gpufairy.core.upkeep import Keeps
from gpufairy.engines.old_files import OldFiles, use_tools
from gpufairy.store.class_tables import class_links
from gpufairy.store.history_arrival import Arrival
from gpufairy.store.rows import to_micros

pytestmark = pytest.mark.slow

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
DAYS, A_DAY = 365, 12  # sessions a day
KEEPS = Keeps(sessions=60 * DAY, events=60 * DAY, audit=90 * DAY, bookings=60 * DAY, tokens=30 * DAY)
FOR_EVER = {"holds", "reading_subjects", "reading_blocks"}  # what the accounts are made of


def a_year_session(day: int, number: int, at: datetime) -> Session:
    request = Request(ONE_GPU, ("train",), image=f"image-{number % 3}")
    owner = f"user{number % 5}"
    return Session(f"id-{day}-{number}", f"job-{day}-{number}", owner, SessionKind.BATCH, request, at, at, team=f"team{number % 2}")


def seated(number: int):
    gpu = GpuSeat(number % 4, f"GPU-{number % 4}", PARTS, 40 * 2**30, kind="A100-40GB")
    return replace(a_seat(), gpus=(gpu,), charge_parts=PARTS)


async def live_a_day(scene, day: int) -> None:
    """A dozen sessions from submit to end with their events and readings, a browser that signs in, and an admin's deed."""
    store, at = scene.house.store, scene.clock()
    new = [a_year_session(day, number, at) for number in range(A_DAY)]
    added = await store.sessions.add(new, [event(one, "submitted", at, "asked for", actor=one.owner) for one in new])
    seats = [place(one, seated(number), at + HOUR, "room") for number, one in enumerate(added)]
    placed = await store.sessions.save(seats)
    running = await store.sessions.save([change(one.after, (Happening.LAUNCH_ORDERED, ""), (Happening.READY, ""), now=at + HOUR) for one in placed])
    over = at + 4 * HOUR
    await store.sessions.save([end(one.after, Happening.EXITED, over, outcome=Outcome.DONE, why="done", exit_code=0) for one in running])
    points = [point(Subject(Kind.SESSION, one.id, "gpu01"), gpus_held=1.0, gpus_used=0.5, gpus_unknown=0.0, drawn_w=300.0) for one in added]
    heard = [at + HOUR + minutes * timedelta(minutes=30) for minutes in range(1, 7)]
    await store.history.append_all([Arrival("gpu01", when, when, when, 1800.0, tuple(points)) for when in heard])
    while await store.history.roll_up(at + 12 * HOUR, timedelta()):
        pass
    await store.people.add_token(Token(f"t{day}", "ann", "browser", f"hash{day}", "page", at, at + DAY))
    link = {"hash": f"h{day}", "of": "class", "user": f"student{day}", "made_at": to_micros(at), "until": to_micros(at + DAY)}
    await store._held.writer.write(lambda connection: connection.execute(insert(class_links), [link]) and None)
    await store.events.add(deed_event("user:ann", "user_changed", at, "a new share", actor="root"))


async def tables_of(store) -> dict[str, int]:
    def count(connection):
        names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")).scalars().all()
        return {name: connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar() for name in names}

    return await store._held.reader.read(count)


async def used_bytes(store) -> int:
    def look(connection):
        pages, free, size = (connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size

    return await store._held.reader.read(look)


def files_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def day_of_files(folder: Path, day: int, now: datetime) -> None:
    """A version a month, each with tools of its own; and a log that gets a thousand lines a day."""
    if day % 30 == 0:
        made = folder / "tools" / f"v{day}"
        made.mkdir(parents=True)
        (made / "porter").write_bytes(b"x" * 100_000)
        use_tools(folder / "tools", made.name, now)
    with (folder / "server.log").open("ab") as log:
        log.write(b"2026 gpufairy INFO something happened\n" * 1000)


async def test_a_year_leaves_a_house_of_the_same_size_and_the_same_accounts(tmp_path):
    held, folder = HeldClock(BEGAN), tmp_path / "files"
    folder.mkdir()
    async with a_house(tmp_path, clock=held) as scene:
        await scene.house.registry.ensure_user("ann")
        store, files = scene.house.store, OldFiles(folder / "tools", (folder / "server.log",), 200_000)
        upkeep = Upkeep(scene.house, UpkeepSettings(KEEPS, time(4), rest_s=0), files)
        told, seen = {}, {}
        for day in range(DAYS):
            await live_a_day(scene, day)
            day_of_files(folder, day, held())
            held.go_on(DAY)
            await upkeep.look()
            if held().day == 1:  # a month is over: its accounts as they are told then
                month = f"{held() - DAY:%Y-%m}"
                told[month] = (await account_of(scene.house, month)).cells
            if day in (180, DAYS - 1):
                seen[day] = (await tables_of(store), await used_bytes(store), files_of(folder))
        assert len(told) == 12
        for month, cells in told.items():
            assert (await account_of(scene.house, month)).cells == cells, month
            assert {key.image for key in cells} == {"image-0", "image-1", "image-2"}
    (half, half_bytes, half_files), (whole, whole_bytes, whole_files) = seen[180], seen[DAYS - 1]
    grown = {name: whole[name] - half[name] for name in whole if name not in FOR_EVER and abs(whole[name] - half[name]) > A_DAY * 5}
    assert grown == {}
    assert whole["sessions"] <= 62 * A_DAY
    assert whole["holds"] == DAYS * A_DAY
    kept_for_good = (whole_bytes - half_bytes) / ((DAYS - 1 - 180) * A_DAY)
    assert kept_for_good < 1500, f"{kept_for_good:.0f} bytes a session"
    assert whole_files <= half_files + 200_000
    assert len([path for path in (folder / "tools").iterdir() if path.is_dir()]) <= 2


async def a_write_s(store) -> float:
    began = clock_time.monotonic()
    await store.meta.put("tick", str(began))
    return clock_time.monotonic() - began


async def test_whoever_writes_never_waits_for_the_cleaning(tmp_path):
    held = HeldClock(BEGAN)
    async with a_house(tmp_path, clock=held) as scene:
        store = scene.house.store
        for lot in range(20):
            new = [a_year_session(lot, number, BEGAN) for number in range(250)]
            added = await store.sessions.add(new, [event(one, "submitted", BEGAN, "", actor="") for one in new])
            stops = [end(one, Happening.TOLD_TO_STOP, BEGAN, outcome=Outcome.STOPPED, why="") for one in added]
            await store.sessions.save(stops)
        held.go_on(500 * DAY)
        alone = sorted([await a_write_s(store) for _ in range(40)])
        cleaning = asyncio.create_task(Upkeep(scene.house, UpkeepSettings(), OldFiles(tmp_path / "none", (), 1)).clean(held()))
        waits = []
        while not cleaning.done():
            waits.append(await a_write_s(store))
            await asyncio.sleep(0.005)
        gone = await cleaning
    assert gone["sessions"] == 5000
    assert gone["events"] == 10_000
    usual_s = alone[int(len(alone) * 0.95)]  # of this disk, now
    assert sorted(waits)[int(len(waits) * 0.95)] < max(0.05, 4 * usual_s), max(waits)


async def test_what_runs_and_what_is_young_stays(tmp_path):
    held = HeldClock(BEGAN)
    async with a_house(tmp_path, clock=held) as scene:
        running = await scene.submit()
        await scene.rest()
        ended = await scene.submit(gpus="0")
        await scene.stop(ended)
        await scene.rest()
        held.go_on(30 * DAY)
        upkeep = Upkeep(scene.house, UpkeepSettings(Keeps(sessions=60 * DAY)), OldFiles(tmp_path / "none", (), 1))
        assert (await upkeep.clean(held()))["sessions"] == 0
        held.go_on(40 * DAY)
        assert (await upkeep.clean(held()))["sessions"] == 1
        assert await scene.house.store.sessions.get(running.id) is not None
        assert await scene.house.store.sessions.get(ended.id) is None


async def test_the_clean_up_is_written_down_and_comes_once_a_night_also_after_a_restart(tmp_path):
    held = HeldClock(BEGAN + 12 * HOUR)
    async with a_house(tmp_path, clock=held) as scene:
        one = await scene.submit(gpus="0")
        await scene.stop(one)
        await scene.rest()
        held.go_on(500 * DAY)
        upkeep = Upkeep(scene.house, UpkeepSettings(), OldFiles(tmp_path / "none", (), 1))
        upkeep._started = BEGAN
        await upkeep.look()
        told = [found for found in await scene.house.store.events.page(limit=50) if found.what == "old_removed"]
        assert len(told) == 1
        assert "1 sessions" in told[0].why
        again = Upkeep(scene.house, UpkeepSettings(), OldFiles(tmp_path / "none", (), 1))
        again._started = BEGAN
        await again.look()
        assert len([found for found in await scene.house.store.events.page(limit=50) if found.what == "old_removed"]) == 1
