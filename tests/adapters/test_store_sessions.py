"""Sessions in the store: added once, changed under guard, found again."""
import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio
from store_builders import NOW, a_seat, a_session, a_store, noted, placed, stopped, submitted

from gpufairy.core.errors import Conflict
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Outcome, Request, SessionKind, Wanted
from gpufairy.store.sessions import IdempotencyKey
from gpufairy.store.store import Store

HOUR = timedelta(hours=1)
ALL = {"owner": None, "states": None, "name": None, "after": None}


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


async def test_a_session_comes_back_as_it_was_added(store: Store):
    full = a_session(
        "full", kind=SessionKind.INTERACTIVE, request=Request(), team="nlp", priority=-3, wanted=Wanted.STOP,
        stop_outcome=Outcome.EVICTED, stop_why="나중에", phase=Phase.RUNNING, why="it runs", exit_code=-9, seat=a_seat(),
        attempt=3, refusals=2, revision=7, placed_at=NOW, started_at=NOW + HOUR, outcome=Outcome.DONE, ended_at=NOW,
    )  # fmt: skip
    added = await store.sessions.add([full, a_session("plain")], [])
    assert [session.number for session in added] == [1, 2]
    assert await store.sessions.get(full.id) == added[0] == replace(full, number=1)
    assert await store.sessions.get("mina-plain") == added[1]


async def test_numbers_go_on_after_a_restart(store_url: str):
    async with a_store(store_url) as store:
        await store.sessions.add([a_session("one"), a_session("two")], [])
    async with a_store(store_url) as store:
        assert [session.number for session in await store.sessions.add([a_session("three")], [])] == [3]


async def test_a_name_that_a_live_session_has_is_refused_and_nothing_is_added(store: Store):
    await store.sessions.add([a_session("train")], [])
    with pytest.raises(Conflict, match="mina has a session named train already"):
        await store.sessions.add([a_session("new"), a_session("train", id="other")], [])
    assert [session.name for session in await store.sessions.live()] == ["train"]
    await store.sessions.add([a_session("train", owner="jun")], [])


async def test_two_of_one_name_at_once_are_refused(store: Store):
    with pytest.raises(Conflict, match="two sessions named train"):
        await store.sessions.add([a_session("train"), a_session("train", id="other")], [])


async def test_the_name_of_an_ended_session_is_free_and_finds_the_live_one(store: Store):
    [first] = await store.sessions.add([a_session("train")], [])
    await store.sessions.save([stopped(first, NOW)])
    assert (await store.sessions.named("mina", "train")).id == first.id
    [second] = await store.sessions.add([a_session("train", id="second")], [])
    assert await store.sessions.named("mina", "train") == second
    await store.sessions.save([stopped(second, NOW)])
    assert (await store.sessions.named("mina", "train")).id == "second"
    assert await store.sessions.named("jun", "train") is None


async def test_the_same_id_twice_is_a_conflict(store: Store):
    await store.sessions.add([a_session("one", id="same")], [])
    with pytest.raises(Conflict):
        await store.sessions.add([a_session("two", id="same")], [])


async def test_asking_twice_with_one_key_makes_one_session(store: Store):
    key = IdempotencyKey("mina", "k1", "hash")
    first = await store.sessions.add([a_session("a"), a_session("b")], [], key)
    again = await store.sessions.add([a_session("a", id="x"), a_session("b", id="y")], [], key)
    assert again == first
    assert len(await store.sessions.live()) == 2


async def test_one_key_with_another_body_is_a_conflict_and_other_owners_may_use_it(store: Store):
    await store.sessions.add([a_session("a")], [], IdempotencyKey("mina", "k1", "hash"))
    with pytest.raises(Conflict, match="another request"):
        await store.sessions.add([a_session("b")], [], IdempotencyKey("mina", "k1", "other"))
    assert await store.sessions.add([a_session("b", owner="jun")], [], IdempotencyKey("jun", "k1", "other"))


async def test_what_a_key_made_can_be_asked_without_adding(store: Store):
    key = IdempotencyKey("mina", "k1", "hash")
    assert await store.sessions.made_with(key) is None
    made = await store.sessions.add([a_session("a")], [], key)
    assert await store.sessions.made_with(key) == made
    with pytest.raises(Conflict, match="another request"):
        await store.sessions.made_with(IdempotencyKey("mina", "k1", "other"))


async def test_twenty_at_once_with_one_key_make_one_session(store: Store):
    asked = [store.sessions.add([a_session("a", id=f"id{i}")], [], IdempotencyKey("mina", "k", "hash")) for i in range(20)]
    assert len({made[0].id for made in await asyncio.gather(*asked)}) == 1


async def test_a_forgotten_key_may_be_used_again(store: Store):
    key = IdempotencyKey("mina", "k1", "hash")
    await store.sessions.add([a_session("a")], [], key)
    await store.sessions.forget_old_keys(NOW)
    assert [session.name for session in await store.sessions.add([a_session("b")], [], key)] == ["a"]
    await store.sessions.forget_old_keys(NOW + HOUR)
    assert [session.name for session in await store.sessions.add([a_session("b")], [], key)] == ["b"]


async def test_only_a_change_of_what_stands_is_saved(store: Store):
    [session] = await store.sessions.add([a_session("a")], [])
    fresh, stale = placed(session), noted(session, "too late")
    assert await store.sessions.save([fresh, stale]) == [fresh]
    assert await store.sessions.save([stale]) == []
    assert await store.sessions.get(session.id) == fresh.after
    assert (await store.events.page(limit=9))[-1].what == "placed"


async def test_a_change_on_top_of_a_change_in_one_save_takes_both(store: Store):
    [session] = await store.sessions.add([a_session("a")], [])
    first = noted(session, "first")
    second = noted(first.after, "second")
    assert await store.sessions.save([first, second]) == [first, second]
    assert (await store.sessions.get(session.id)).why == "second"


async def test_an_ended_session_never_changes(store: Store):
    [session] = await store.sessions.add([a_session("a")], [])
    ending = stopped(session, NOW)
    assert await store.sessions.save([ending, noted(ending.after, "risen")]) == [ending]
    assert await store.sessions.save([noted(ending.after, "risen")]) == []
    assert await store.sessions.get(session.id) == ending.after


async def test_saving_nothing_or_the_unknown_changes_nothing(store: Store):
    assert await store.sessions.save([]) == []
    assert await store.sessions.save([noted(a_session("ghost"), "boo")]) == []


async def test_what_was_held_is_in_the_usage_of_its_owner(store: Store):
    sessions = await store.sessions.add([a_session("a"), a_session("b"), a_session("c", owner="jun")], [])
    held = await store.sessions.save([placed(session) for session in sessions])
    await store.sessions.save([stopped(change.after, NOW + HOUR) for change in held[:1]])
    await store.sessions.save([stopped(change.after, NOW + HOUR) for change in held[1:]])
    usage = await store.sessions.usage()
    assert usage["mina"].gpu_seconds == pytest.approx(7200, rel=0.01)
    assert usage["jun"].gpu_seconds == pytest.approx(3600, rel=0.01)
    assert usage["jun"].as_of == NOW + HOUR


async def test_pages_follow_each_other_without_gap_or_repeat(store: Store):
    await store.sessions.add([a_session(f"s{i}") for i in range(7)], [])
    first = await store.sessions.page(**{**ALL, "limit": 4})
    rest = await store.sessions.page(**{**ALL, "limit": 4, "after": first[-1].number})
    assert [session.number for session in first + rest] == [7, 6, 5, 4, 3, 2, 1]


async def test_pages_are_filtered_by_owner_name_and_state(store: Store):
    a, _b, _c = await store.sessions.add([a_session("a"), a_session("b"), a_session("a", owner="jun")], [])
    await store.sessions.save([stopped(a, NOW)])

    async def names(**filters: object) -> list[str]:
        return [session.id for session in await store.sessions.page(**{**ALL, "limit": 9, **filters})]

    assert await names(owner="mina") == ["mina-b", "mina-a"]
    assert await names(name="a") == ["jun-a", "mina-a"]
    assert await names(states=[Phase.QUEUED]) == ["jun-a", "mina-b"]
    assert await names(states=[Phase.ENDED], owner="mina") == ["mina-a"]
    assert await names(states=[phase for phase in Phase if phase is not Phase.ENDED], owner="mina") == ["mina-b"]
    assert await names(states=list(Phase)) == ["jun-a", "mina-b", "mina-a"]
    assert await names(states=[]) == []


async def test_those_that_have_ended_are_told_from_many_ids(store: Store):
    a, b = await store.sessions.add([a_session("a"), a_session("b")], [])
    await store.sessions.save([stopped(a, NOW)])
    asked = [a.id, b.id, "ghost", *(f"x{i}" for i in range(20_000))]
    assert set(await store.sessions.ended(asked)) == {a.id}
    assert await store.sessions.ended([]) == {}
    assert [session.id for session in await store.sessions.live()] == [b.id]


async def test_events_are_paged_in_order_and_by_whom(store: Store):
    sessions = [a_session("a"), a_session("b"), a_session("c", owner="jun")]
    assert await store.events.last_number() == 0
    await store.sessions.add(sessions, [submitted(session) for session in sessions])
    everything = await store.events.page(limit=9)
    assert [event.name for event in everything] == ["a", "b", "c"]
    assert everything[0] == replace(submitted(sessions[0]), number=everything[0].number)
    assert [event.name for event in await store.events.page(after=everything[0].number, limit=1)] == ["b"]
    assert [event.name for event in await store.events.page(limit=9, owner="mina")] == ["a", "b"]
    assert [event.name for event in await store.events.page(limit=9, session_id="jun-c")] == ["c"]
    assert [event.name for event in await store.events.page(limit=2, newest=True)] == ["b", "c"]
    assert await store.events.last_number() == everything[-1].number
