"""Teams and quotas as the store keeps them, and the holds that count for quotas."""
from dataclasses import replace
from datetime import timedelta

import pytest
from store_builders import NOW, a_session, a_store, placed, stopped

from gpufairy.core.quota_rules import Quota
from gpufairy.core.share import PARTS
from gpufairy.core.team import Team
from gpufairy.store.store import Store

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(store_url: str):
    async with a_store(store_url) as opened:
        yield opened


async def test_a_team_keeps_the_time_it_was_made_whatever_becomes_of_its_share(store: Store):
    await store.teams.put("nlp", 1.0, NOW)
    await store.teams.put("nlp", 2.5, NOW + HOUR)
    assert await store.teams.teams() == [Team("nlp", 2.5, NOW)]


async def test_a_quota_takes_the_place_of_the_one_before_and_goes_with_its_team(store: Store):
    await store.teams.put("nlp", 1.0, NOW)
    await store.teams.set_quota(Quota("team:nlp", gpu_parts=PARTS))
    kept = [Quota("team:nlp", "*", 2 * PARTS, 10.5, 3), Quota("team:nlp", "A100", sessions=1), Quota("user:*", sessions=1)]
    for quota in kept:
        await store.teams.set_quota(quota)
    assert await store.teams.quotas() == kept
    await store.teams.remove_quota("team:nlp", "A100")
    assert await store.teams.quotas() == [kept[0], kept[2]]
    await store.teams.remove("nlp")
    assert (await store.teams.teams(), await store.teams.quotas()) == ([], [kept[2]])


async def test_what_was_borrowed_is_not_counted_for_quotas(store: Store):
    own, borrowed = a_session("own"), a_session("borrowed")
    borrowed = replace(borrowed, request=replace(borrowed.request, preemptible=True))
    held = await store.sessions.save([placed(session) for session in await store.sessions.add([own, borrowed], [])])
    await store.sessions.save([stopped(change.after, NOW + HOUR) for change in held])
    assert [seat.session_id for seat in await store.teams.counted_holds(NOW)] == [own.id]
    assert await store.teams.counted_holds(NOW + HOUR) == []


async def test_what_was_held_is_in_the_usage_of_its_team_too(store: Store):
    [session] = await store.sessions.add([replace(a_session("a"), team="nlp")], [])
    [held] = await store.sessions.save([placed(session)])
    await store.sessions.save([stopped(held.after, NOW + HOUR)])
    usage = await store.sessions.usage()
    assert usage["team:nlp"] == usage[session.owner]
