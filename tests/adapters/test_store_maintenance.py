"""Maintenance windows and unwatched times in the store, on both databases."""
from dataclasses import replace
from datetime import timedelta

from store_builders import a_store

from builders import NOW
from gpufairy.core.maintenance import Window
from gpufairy.core.uptime import Spell

HOUR = timedelta(hours=1)
WINDOW = Window("w1", "gpu01", NOW, NOW + HOUR, "kim", "new disk: 디스크")


async def test_windows_are_kept_changed_removed_and_forgotten(store_url: str):
    async with a_store(store_url) as store:
        rows = store.maintenance
        other = replace(WINDOW, id="w2", node="gpu02", start=NOW - 3 * HOUR, end=NOW - 2 * HOUR)
        for window in (WINDOW, other):
            await rows.put(window)
        assert await rows.windows(NOW) == [WINDOW]
        assert await rows.windows(NOW - 5 * HOUR) == [other, WINDOW]
        await rows.put(replace(WINDOW, end=NOW + timedelta(minutes=5)))
        assert [one.end for one in await rows.windows(NOW)] == [NOW + timedelta(minutes=5)]
        await rows.forget(NOW - HOUR)
        assert [one.id for one in await rows.windows(NOW - 5 * HOUR)] == ["w1"]
        await rows.remove("w1")
        assert await rows.windows(NOW - 5 * HOUR) == []


async def test_unwatched_times_are_kept_once_and_forgotten(store_url: str):
    async with a_store(store_url) as store:
        rows, spell = store.maintenance, Spell(NOW, NOW + HOUR)
        await rows.add_unwatched(spell)
        await rows.add_unwatched(replace(spell, end=NOW + 2 * HOUR))
        assert await rows.unwatched(NOW) == [Spell(NOW, NOW + 2 * HOUR)]
        assert await rows.unwatched(NOW + 3 * HOUR) == []
        await rows.forget(NOW + 3 * HOUR)
        assert await rows.unwatched(NOW) == []
