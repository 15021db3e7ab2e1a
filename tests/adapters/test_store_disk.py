"""Disk use in the store: the last look at each place, and a sum a day."""
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest_asyncio
from store_builders import NOW, a_store

from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing
from gpufairy.core.disk_growth import ALL, KEPT_DAYS, DaySum
from gpufairy.core.quota_rules import Quota
from gpufairy.store.store import Store

TODAY = NOW.date()
THING = Thing(r"ann/b\xff.bin", 10**13, 0, 1_700_000_000, 20_001)
LOOK = DiskLook(
    Place("homes", "/srv/homes", of_homes=True), NOW, 1.5, True, 10**15, 12, 3, 4, 1, 2, 1, 0,
    (Owned("ann", 0, 10**15, 12, 5, (Sort("pip", 5, 1),), (THING,), (THING,), (THING,)),), (THING,), ("x: permission denied",),
)  # fmt: skip


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


async def test_a_look_comes_back_as_it_was_and_the_last_one_counts(store: Store):
    await store.disk.put(LOOK, NOW, [])
    later = replace(LOOK, at=NOW + timedelta(hours=1), full=False, bytes=5)
    await store.disk.put(later, NOW, [])
    assert await store.disk.looks() == [(later, NOW)]
    await store.disk.put(replace(LOOK, place=Place("data", "/data")), None, [])
    await store.disk.forget("homes")
    assert [(look.place.name, full_at) for look, full_at in await store.disk.looks()] == [("data", None)]


async def test_a_day_has_one_sum_of_each_the_last_that_was_found(store: Store):
    await store.disk.put(LOOK, NOW, [DaySum(TODAY, "homes", ALL, 5, 1), DaySum(TODAY, "homes", "ann", 4, 1), DaySum(TODAY, "homes", "gone", 1, 1)])
    await store.disk.put(LOOK, NOW, [DaySum(TODAY, "homes", ALL, 7, 2), DaySum(TODAY, "homes", "ann", 6, 2)])
    assert [(one.who, one.bytes) for one in await store.disk.days(TODAY)] == [(ALL, 7), ("ann", 6)]


async def test_days_are_kept_for_a_year_and_a_month_and_no_longer(store: Store):
    for back in (0, KEPT_DAYS - 1, KEPT_DAYS, KEPT_DAYS + 1, KEPT_DAYS + 300):
        await store.disk.put(LOOK, NOW, [DaySum(TODAY - timedelta(days=back), "homes", ALL, back, 1)])
    await store.disk.put(LOOK, NOW, [DaySum(TODAY, "homes", ALL, 0, 1)])
    kept = await store.disk.days(TODAY - timedelta(days=2000))
    assert [one.bytes for one in kept] == [KEPT_DAYS, KEPT_DAYS - 1, 0]


async def test_a_limit_on_disk_is_part_of_a_quota(store: Store):
    await store.teams.set_quota(Quota("user:ann", disk_bytes=10**14))
    assert await store.teams.quotas() == [Quota("user:ann", disk_bytes=10**14)]
