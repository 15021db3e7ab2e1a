"""Readings over time: each report counts once, whatever its order; what is read is what was reported; old things go."""
import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import pytest_asyncio
from sqlalchemy import func, select, text
from store_builders import a_seat, a_session, a_store, placed, stopped

from gpufairy.core.errors import StoreUnavailable
from gpufairy.core.series import RAW, Kind, Point, Series, Subject, point
from gpufairy.store import history as history_module
from gpufairy.store import tables
from gpufairy.store.history import History
from gpufairy.store.history_arrival import Arrival
from gpufairy.store.store import Store

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AT_ONCE = timedelta()


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


@pytest_asyncio.fixture
async def sqlite_store(sqlite_url: str) -> AsyncIterator[Store]:
    async with a_store(sqlite_url) as opened:
        yield opened


def a_gpu(utilisation: float | None, name: str = "GPU-1", node: str = "gpu01", **values: float) -> Point:
    return point(Subject(Kind.GPU, name, node), utilisation=utilisation, **values)


def a_user(name: str, node: str, **values: float) -> Point:
    return point(Subject(Kind.USER, name, node), **values)


async def report(store: Store, at: datetime, *points: Point, node: str = "gpu01", arrived_at: datetime | None = None) -> bool:
    return await store.history.append(node, at, points, seconds=5, arrived_at=arrived_at or at)


async def roll_up(store: Store, now: datetime) -> None:
    while await store.history.roll_up(now, AT_ONCE):
        pass


async def utilisation(store: Store, since: datetime, until: datetime, step: int | None, now: datetime | None = None) -> Series:
    return await store.history.read(Kind.GPU, "GPU-1", since, until, now=now or until, step=step)


async def rows_in(store: Store, table) -> int:
    return await store._held.reader.read(lambda connection: connection.execute(select(func.count()).select_from(table)).scalar())


def means(series: Series, column: str = "utilisation") -> Sequence[float | None]:
    return series.columns[column].mean


async def test_a_report_is_read_at_once_and_the_same_after_it_is_folded(store: Store):
    for second, value in ((5, 0.25), (10, 0.75), (15, 1.0), (35, None)):
        await report(store, NOW + second * SECOND, a_gpu(value, memory_bytes=2**30))
    now = NOW + MINUTE
    before = await utilisation(store, NOW, NOW + 40 * SECOND, 10, now)
    assert means(before) == [0.5, 1.0, None, None]
    assert before.columns["utilisation"].max == [0.75, 1.0, None, None]
    assert before.columns["memory_bytes"].mean == [2**30, 2**30, None, 2**30]
    assert before.times == [NOW + number * 10 * SECOND for number in range(4)]
    await roll_up(store, now)
    assert await rows_in(store, tables.reading_blocks) == 3
    assert await utilisation(store, NOW, NOW + 40 * SECOND, 10, now) == before


async def test_a_minute_and_an_hour_are_the_mean_of_what_is_known(store: Store):
    for second in range(5, 125, 5):
        await report(store, NOW + second * SECOND, a_gpu(None if second <= 30 else second / 200))
    await roll_up(store, NOW + HOUR)
    by_minute = await utilisation(store, NOW, NOW + 3 * MINUTE, 60)
    assert means(by_minute) == [pytest.approx(sum(range(35, 65, 5)) / 6 / 200, abs=5e-4), pytest.approx(92.5 / 200, abs=5e-4), None]
    assert means(await utilisation(store, NOW, NOW + HOUR, 3600)) == [pytest.approx(sum(range(35, 125, 5)) / 18 / 200, abs=5e-4)]


async def test_the_same_report_twice_counts_once_even_after_it_was_folded(store: Store):
    assert await report(store, NOW, a_gpu(0.5))
    assert not await report(store, NOW, a_gpu(0.9))
    await roll_up(store, NOW)
    assert not await report(store, NOW, a_gpu(0.9))
    assert await report(store, NOW, a_gpu(0.1, "GPU-2", "gpu02"), node="gpu02")
    assert means(await utilisation(store, NOW - MINUTE, NOW, 60)) == [0.5]


def a_node(node: str = "gpu01") -> Point:
    return point(Subject(Kind.NODE, node, node), gpus_used=1.0)


async def told_s(store: Store, step: int = 60) -> float:
    """For how long the node was told of, in the hour from NOW on."""
    totals = await store.history.totals(Kind.NODE, NOW, NOW + HOUR, step=step)
    return totals[Subject(Kind.NODE, "gpu01", "gpu01")]["gpus_used"].known_s


async def test_the_same_report_counts_once_when_nobody_remembers_it_any_more(store: Store):
    ats = [NOW + second * SECOND for second in range(5, 305, 5)]
    for at in ats:
        await report(store, at, a_node())
    for days, step in ((0.1, 10), (3, 60)):
        later = NOW + days * DAY
        await roll_up(store, later)
        assert await rows_in(store, tables.reading_reports) == 0
        assert not any([await report(store, at, a_node(), arrived_at=later) for at in ats])
        assert await told_s(store, step) == 300


async def test_what_comes_late_fills_a_gap_even_in_a_time_that_was_told_before_and_after(store: Store):
    gap = [NOW + second * SECOND for second in range(100, 200, 5)]
    for second in range(5, 305, 5):
        if NOW + second * SECOND not in gap:
            await report(store, NOW + second * SECOND, a_node())
    later = NOW + 2 * HOUR
    await roll_up(store, later)
    assert await rows_in(store, tables.reading_reports) == 0
    assert all([await report(store, at, a_node(), arrived_at=later) for at in gap])
    assert await told_s(store) == 300


@pytest.mark.parametrize("after", [0.1, 1, 2.5, 4, 4.9])
async def test_two_agents_on_one_host_count_as_one(sqlite_store: Store, after: float):
    for beat in range(1, 61):
        await report(sqlite_store, NOW + 5 * beat * SECOND, a_node())
        await report(sqlite_store, NOW + (5 * beat + after) * SECOND, a_node())
    assert 300 <= await told_s(sqlite_store) <= 305


@pytest.mark.parametrize("seed", range(4))
async def test_beats_that_waver_lose_nothing_and_count_no_second_twice(sqlite_store: Store, seed: int):
    chance, at, told = random.Random(seed), 0.0, 0.0
    while at < 600:
        seconds = chance.choice([1.0, 4.0, 5.0, 5.0, 5.0, 6.0, 10.0])
        at, told = at + seconds, told + seconds
        sent = at + chance.uniform(-0.4, 0.4)  # by a clock that is being put right
        arrival = Arrival("gpu01", NOW + sent * SECOND, NOW + sent * SECOND, NOW + sent * SECOND, seconds, (a_node(),))
        [is_new] = await sqlite_store.history.append_all([arrival])
        assert is_new or seconds == 1.0
    assert told * 0.9 <= await told_s(sqlite_store) <= told + 1


@pytest.mark.parametrize("seed", range(4))
async def test_reports_of_all_lengths_count_in_whatever_order_they_come(sqlite_store: Store, seed: int):
    chance, at, arrivals = random.Random(seed), NOW, []
    for _ in range(100):
        seconds = chance.choice([1.0, 3.1, 5.0, 6.9, 30.0])
        at += seconds * SECOND
        arrivals.append(Arrival("gpu01", at, at, NOW + HOUR, seconds, (a_node(),)))
    chance.shuffle(arrivals)
    for begin in range(0, 100, 10):
        assert all(await sqlite_store.history.append_all(arrivals[begin : begin + 10]))
    assert await told_s(sqlite_store) == pytest.approx(sum(arrival.seconds for arrival in arrivals))


async def test_a_report_is_known_again_by_its_hosts_own_clock_wherever_it_was_put(store: Store):
    def arrival(at: datetime, sent_at: datetime) -> Arrival:
        return Arrival("gpu01", at, sent_at, NOW + MINUTE, 5.0, (a_node(),))

    sent = [NOW - HOUR, NOW - HOUR + 5 * SECOND]
    assert await store.history.append_all([arrival(NOW, sent[0])]) == [True]
    assert await store.history.sent_before("gpu01", [*sent, NOW]) == {sent[0]}
    again = [arrival(NOW + 20 * SECOND, sent[0]), arrival(NOW + 25 * SECOND, sent[1]), arrival(NOW + 30 * SECOND, sent[1])]
    assert await store.history.append_all(again) == [False, True, False]
    assert await store.history.sent_before("gpu02", sent) == set()


@pytest.mark.parametrize("seed", range(4))
async def test_any_order_of_arrival_and_any_moments_of_folding_give_the_same(sqlite_store: Store, seed: int):
    """In order and folded at the end, against shuffled, some sent twice, and folded again and again in between."""
    chance = random.Random(seed)
    ats = [NOW + chance.randrange(1, 4 * 720) * 5 * SECOND for _ in range(120)]
    reports = [(at, chance.choice([None, chance.random()])) for at in sorted(set(ats))]
    for at, value in reports:
        await report(sqlite_store, at, a_gpu(value, "GPU-2", "gpu02", temperature_c=at.minute), node="gpu02")
    await roll_up(sqlite_store, NOW + 5 * HOUR)
    for at, value in [*chance.sample(reports, len(reports)), *chance.sample(reports, 20)]:
        await report(sqlite_store, at, a_gpu(value, temperature_c=at.minute), arrived_at=NOW + 4 * HOUR)
        if chance.random() < 0.1:
            await sqlite_store.history.roll_up(NOW + 4 * HOUR, AT_ONCE)
    for step in (10, 60, 3600):
        one, other = [
            await sqlite_store.history.read(Kind.GPU, name, NOW, NOW + 4 * HOUR, now=NOW + 4 * HOUR, step=step) for name in ("GPU-1", "GPU-2")
        ]
        assert one.columns == other.columns


async def test_a_user_is_the_sum_over_nodes_and_a_session_moves_from_one_to_another(store: Store):
    session = [Subject(Kind.SESSION, "s1", node) for node in ("gpu01", "gpu02")]
    await report(store, NOW + 5 * SECOND, a_user("ann", "gpu01", gpus_used=0.5), point(session[0], gpus_used=0.5))
    await report(store, NOW + 6 * SECOND, a_user("ann", "gpu02", gpus_used=0.25), point(session[1], gpus_used=1.0), node="gpu02")
    await report(store, NOW + 15 * SECOND, a_user("ann", "gpu02", gpus_used=0.25, gpus_outside=0.1), node="gpu02")
    for _ in ("as it came", "folded"):
        user = await store.history.read(Kind.USER, "ann", NOW, NOW + 20 * SECOND, now=NOW + HOUR, step=10)
        assert means(user, "gpus_used") == [0.75, 0.25]
        assert means(user, "gpus_outside") == [None, 0.1]
        assert sorted(user.nodes) == ["gpu01", "gpu02"]
        moved = await store.history.read(Kind.SESSION, "s1", NOW, NOW + 20 * SECOND, now=NOW + HOUR, step=10)
        assert means(moved, "gpus_used") == [0.75, None]
        await roll_up(store, NOW + HOUR)


async def test_raw_readings_come_at_their_own_times_with_gaps_where_reports_are_missing(store: Store):
    for second, value in ((1, 0.1), (6, 0.2), (11, None), (41, 0.3)):
        await report(store, NOW + second * SECOND, a_gpu(value))
    await roll_up(store, NOW + MINUTE)
    raw = await utilisation(store, NOW, NOW + MINUTE, None)
    assert raw.step_s == RAW
    assert [(at - NOW).total_seconds() for at in raw.times] == [1, 6, 11, 16, 41]
    assert means(raw) == [0.1, 0.2, None, None, 0.3]


async def test_what_nobody_ever_reported_has_no_columns(store: Store):
    for step in (RAW, 10, 3600):
        nothing = await utilisation(store, NOW, NOW + MINUTE, step)
        assert (nothing.nodes, nothing.times, nothing.columns) == ((), (), {})


async def test_totals_add_up_what_was_used_and_for_how_long_it_was_known(store: Store):
    for second in range(5, 605, 5):
        await report(store, NOW + second * SECOND, a_gpu(0.5 if second <= 300 else None, held=1.0), a_gpu(1.0, "GPU-2"))
    now = NOW + 10 * MINUTE
    for _ in ("as it came", "folded"):
        totals = await store.history.totals(Kind.GPU, NOW + MINUTE, now, step=60)
        mine = totals[Subject(Kind.GPU, "GPU-1", "gpu01")]
        assert (mine["utilisation"].value_s, mine["utilisation"].known_s) == (pytest.approx(120), pytest.approx(240))
        assert mine["held"].value_s == pytest.approx(540)
        assert list(await store.history.totals(Kind.GPU, NOW, now, step=60, names=["GPU-2"])) == [Subject(Kind.GPU, "GPU-2", "gpu01")]
        await roll_up(store, now)


async def test_reports_go_a_while_after_they_came_and_never_before_they_are_folded(store: Store):
    await report(store, NOW - 3 * HOUR, a_gpu(0.5), arrived_at=NOW)
    await report(store, NOW, a_gpu(0.7))
    later = NOW + 16 * MINUTE
    await store.history.roll_up(later, HOUR)
    assert await rows_in(store, tables.reading_reports) == 2
    await roll_up(store, later)
    assert await rows_in(store, tables.reading_reports) == 0
    assert means(await utilisation(store, NOW - 4 * HOUR, NOW, 3600)) == [0.5, None, None, 0.7]


async def test_blocks_go_when_their_last_reading_is_old_enough_and_hours_stay_for_ever(store: Store):
    await report(store, NOW + MINUTE, a_gpu(0.5))
    await roll_up(store, NOW + 2 * MINUTE)
    for after, left in ((DAY, 3), (3 * DAY, 2), (31 * DAY, 1), (4000 * DAY, 1)):
        await roll_up(store, NOW + after)
        assert await rows_in(store, tables.reading_blocks) == left
    assert means(await utilisation(store, NOW, NOW + HOUR, 3600, NOW + 4000 * DAY)) == [0.5]


async def test_what_comes_days_late_is_folded_where_it_belongs_and_nowhere_else(store: Store):
    now = NOW + 5 * DAY
    await report(store, NOW + MINUTE, a_gpu(0.5), arrived_at=now)
    await roll_up(store, now)
    assert await rows_in(store, tables.reading_blocks) == 2
    assert means(await utilisation(store, NOW, NOW + MINUTE, None, now)) == [0.5]


async def test_a_fold_that_could_not_be_written_is_done_again_and_counts_once(sqlite_store: Store, monkeypatch):
    await report(sqlite_store, NOW + 5 * SECOND, a_gpu(0.5))
    await roll_up(sqlite_store, NOW + MINUTE)
    await report(sqlite_store, NOW + 10 * SECOND, a_gpu(1.0))
    whole = history_module.write_fold

    def half_written(connection, folded):
        whole(connection, folded)
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(history_module, "write_fold", half_written)
        with pytest.raises(StoreUnavailable):
            await roll_up(sqlite_store, NOW + MINUTE)
    for _ in range(2):
        assert means(await utilisation(sqlite_store, NOW, NOW + MINUTE, 60)) == [0.75]
        await roll_up(sqlite_store, NOW + MINUTE)


async def test_two_who_fold_the_same_reports_write_them_once(sqlite_store: Store):
    """As after a lost answer: what was prepared from what is folded by now changes nothing."""
    await report(sqlite_store, NOW + 5 * SECOND, a_gpu(0.5))
    reader, writer, steps = sqlite_store._held.reader, sqlite_store._held.writer, sqlite_store.history.keeps.steps
    prepared = await reader.read(lambda connection: history_module.fold(connection, 1, steps, NOW + MINUTE))
    for _ in range(2):
        await writer.write(lambda connection: history_module.write_fold(connection, prepared))
    total = await sqlite_store.history.totals(Kind.GPU, NOW, NOW + MINUTE, step=60)
    assert total[Subject(Kind.GPU, "GPU-1", "gpu01")]["utilisation"].known_s == 5


async def test_a_crowd_of_nodes_is_folded_a_few_at_a_time(sqlite_store: Store):
    for number in range(60):
        await report(sqlite_store, NOW, a_gpu(0.5, f"GPU-{number}", f"n{number}"), node=f"n{number}")
    left = [60]
    while left[-1]:
        await sqlite_store.history.roll_up(NOW, AT_ONCE)
        left.append(60 - await rows_in(sqlite_store, tables.reading_blocks) // 3)
    assert {before - after for before, after in pairwise(left)} == {3}


async def test_a_report_whose_transaction_was_undone_leaves_no_subject_behind(sqlite_store: Store):
    """Its neighbour in the same commit failed: it is written again, with numbers that are in the database."""
    def broken(connection):
        raise StoreUnavailable("no")

    at_once = [report(sqlite_store, NOW, a_gpu(0.5)), sqlite_store._held.writer.write(broken), report(sqlite_store, NOW + 5 * SECOND, a_gpu(0.7))]
    first, error, second = await asyncio.gather(*at_once, return_exceptions=True)
    assert (first, type(error), second) == (True, StoreUnavailable, True)
    again = History(sqlite_store._held.writer, sqlite_store._held.reader)
    assert await again.append("gpu01", NOW + 10 * SECOND, [a_gpu(0.9)], seconds=5, arrived_at=NOW)
    assert await rows_in(sqlite_store, tables.reading_subjects) == 2


async def test_seats_that_were_given_back_are_found_by_when_they_were_held(store: Store):
    [session] = await store.sessions.add([a_session("train")], [])
    [change] = await store.sessions.save([placed(session, NOW)])
    await store.sessions.save([stopped(change.after, NOW + HOUR)])
    [seat] = await store.history.held(NOW + 30 * MINUTE, NOW + 2 * HOUR)
    assert (seat.session_id, seat.owner, seat.since, seat.until, seat.seat) == (session.id, "mina", NOW, NOW + HOUR, a_seat())
    assert await store.history.held(NOW + HOUR, NOW + 2 * HOUR) == []
    assert await store.history.held(NOW, NOW + HOUR, "jun") == []


async def test_charts_and_folds_find_their_blocks_by_an_index(sqlite_store: Store):
    places = "SELECT body FROM reading_blocks WHERE subject IN (1, 2) AND step_s = 10 AND start = 0"
    chart = "SELECT body FROM reading_blocks WHERE subject IN (1, 2) AND step_s = 10 AND start >= 0 AND start <= 9"
    for statement in (places, chart):
        asked = text(f"EXPLAIN QUERY PLAN {statement}")
        rows = await sqlite_store._held.reader.read(lambda connection, asked=asked: connection.execute(asked).all())
        assert any("reading_blocks_place" in row.detail for row in rows), rows

