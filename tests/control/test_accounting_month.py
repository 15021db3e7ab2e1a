"""A month from the store: held by the holds, energy by the GPUs' own counters, each hour at the price of its day."""
from datetime import UTC, datetime, timedelta

import pytest
from house_scene import a_house

from gpufairy.control.accounting import account_of
from gpufairy.control.clock import HeldClock
from gpufairy.control.history import Chronicle
from gpufairy.control.ledger import ledger_of
from gpufairy.core.accounting import AccountBy
from gpufairy.core.fair_ledger import LedgerBy
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.share import PARTS
from gpufairy.core.tariff import MILLION, Rate, Tariff

HOUR = PARTS * 3600 * MILLION
NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)
CHANGE = datetime(2026, 11, 14, 15, tzinfo=UTC)  # midnight in Seoul


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, clock=HeldClock(NOON)) as found:
        await found.house.registry.ensure_user("ann")
        yield found


def a_sample(scene, energy_j):
    node = scene.house.nodes[0]
    at = scene.clock()
    devices = tuple(GpuDevice(gpu.uuid, str(gpu.index), gpu.index, gpu.kind, gpu.memory_bytes) for gpu in node.gpus)
    readings = tuple(GpuReading(gpu.uuid, at, utilisation=0.5, energy_j=energy_j) for gpu in node.gpus)
    return NodeSample(node.name, at, 60.0, devices=devices, readings=readings)


async def watched(scene, hours, watts):
    """A report a minute, with a counter that rises."""
    chronicle = Chronicle(scene.house)
    for minute in range(hours * 60 + 1):
        await chronicle.take(a_sample(scene, None if watts is None else 1e6 + minute * 60 * watts))
        if minute < hours * 60:
            scene.clock.go_on(timedelta(minutes=1))


async def test_energy_is_that_of_the_counters_by_what_was_held(scene):
    scene.house.tariff = Tariff((Rate(NOON - timedelta(days=90), 0, 100 * MILLION),), "EUR")
    await scene.submit(gpus="0.5")
    await scene.rest()
    await watched(scene, 2, watts=500.0)
    total = (await account_of(scene.house, "2026-11")).total
    assert total.energy == pytest.approx(2 * 500 * 3600 / 2 * 1000, rel=0.01)  # half of 1 kWh, in millijoules
    assert total.cost == pytest.approx(50 * MILLION, rel=0.01)
    assert total.used == 0  # no process of theirs was on it
    assert total.energy_unknown <= total.held * 0.02


async def test_without_counters_energy_is_not_known_and_the_rest_is(scene):
    await scene.submit()
    await scene.rest()
    await watched(scene, 1, watts=None)
    total = (await account_of(scene.house, "2026-11")).total
    assert (total.energy, total.cost, total.unpriced) == (None, None, total.held)
    assert total.energy_unknown == total.held == HOUR


async def test_a_price_that_changes_in_the_middle_of_the_month_splits_the_sums(scene):
    scene.house.tariff = Tariff((Rate(NOON - timedelta(days=300), 500 * MILLION), Rate(CHANGE, 900 * MILLION)), "KRW", 0)
    session = await scene.submit()
    await scene.rest()
    await scene.later(timedelta(hours=10))  # three of them before midnight in Seoul
    await scene.stop(session)
    await scene.rest()
    found = await account_of(scene.house, "2026-11")
    assert found.total.cost == (3 * 500 + 7 * 900) * MILLION
    ledger = await ledger_of(scene.house, LedgerBy.USER, found.period.since)
    assert found.total.held == ledger.held == 10 * HOUR
    assert [row.name for row in found.rows(AccountBy.USER)] == ["ann"]
    assert (await account_of(scene.house, "2026-11", "bob")).total.held == 0


async def test_a_seat_over_the_end_of_a_month_is_counted_in_both_and_once_in_the_year(scene):
    scene.clock.now = datetime(2026, 11, 30, 22, tzinfo=UTC)
    await scene.submit()
    await scene.rest()
    scene.clock.go_on(timedelta(hours=5))
    november, december, year = [(await account_of(scene.house, month)) for month in ("2026-11", "2026-12", "2026")]
    assert (november.total.held, december.total.held, year.total.held) == (2 * HOUR, 3 * HOUR, 5 * HOUR)
    assert [(row.name, row.amount.held) for row in year.rows(AccountBy.MONTH)] == [("2026-11", 2 * HOUR), ("2026-12", 3 * HOUR)]
    assert (november.is_over, december.is_over) == (True, False)
