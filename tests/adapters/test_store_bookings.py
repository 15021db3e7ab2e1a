"""Bookings in the store: as they were made, those to come and those that are over."""
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest_asyncio
from store_builders import NOW, a_store

from gpufairy.control.bookings import booking_event
from gpufairy.core.booking import Booking
from gpufairy.store.store import Store

HOUR = timedelta(hours=1)
ONE = Booking("b1", "CS231n, 수업", "kim", ("team:nlp", "user:bob"), ("GPU-1", "GPU-2"), NOW + HOUR, NOW + 3 * HOUR, NOW)


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


async def put(store: Store, *bookings: Booking) -> None:
    for booking in bookings:
        await store.bookings.put(booking, booking_event(booking, "booked", NOW, "why"))


async def test_a_booking_comes_back_as_it_was_with_its_event_and_a_change_takes_its_place(store: Store):
    later = replace(ONE, id="b2", start=NOW + 5 * HOUR, end=NOW + 6 * HOUR)
    await put(store, later, ONE)
    assert await store.bookings.not_over(NOW) == [ONE, later]
    moved = replace(ONE, gpus=("GPU-3", "GPU-2"))
    await put(store, moved)
    assert (await store.bookings.not_over(NOW))[0] == moved
    assert [event.what for event in await store.events.page(session_id="b1", owner="kim", limit=9)] == ["booked", "booked"]


async def test_those_that_are_over_are_history_and_one_taken_back_is_gone(store: Store):
    other = replace(ONE, id="b2", end=NOW + 2 * HOUR)
    await put(store, ONE, other)
    assert await store.bookings.not_over(NOW + 3 * HOUR) == []
    assert await store.bookings.over(NOW, NOW + 3 * HOUR, 9) == [other, ONE]
    assert await store.bookings.over(NOW, NOW + 3 * HOUR, 1) == [ONE]
    await store.bookings.remove("b1", booking_event(ONE, "booking_cancelled", NOW, "why"))
    assert await store.bookings.over(NOW, NOW + 3 * HOUR, 9) == [other]
