"""The past of sessions and readings put from one store into another: whole, once, and counted as if they had been there."""
from datetime import timedelta

import pytest
from store_builders import NOW, a_session, a_store, placed, stopped, submitted

from gpufairy.core.errors import BadInput
from gpufairy.core.lifecycle import Phase
from gpufairy.core.moved_block import MovedBlock, block_from_plain, block_to_plain
from gpufairy.core.past import Past, past_from_plain, past_to_plain
from gpufairy.core.series import Kind, Subject, point
from gpufairy.store.store import Store

HOUR = timedelta(hours=1)


async def with_past(store: Store, *names: str) -> list[Past]:
    """Sessions that held a GPU for an hour and are over."""
    for name in names:
        (session,) = await store.sessions.add([a_session(name, team="nlp")], [submitted(a_session(name))])
        (seated,) = await store.sessions.save([placed(session)])
        await store.sessions.save([stopped(seated.after, NOW + HOUR)])
    return await store.sessions.past(0, 100)


async def test_it_comes_out_whole_and_in_order(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as store:
        pasts = await with_past(store, "one", "two", "three")
        assert [past.session.name for past in pasts] == ["one", "two", "three"]
        assert [past.session.name for past in await store.sessions.past(pasts[0].session.number, 1)] == ["two"]
        await store.sessions.add([a_session("lives")], [])
        assert len(await store.sessions.past(0, 100)) == 3, "what is not over stays"
        (hold,) = pasts[0].holds
        assert (hold.since, hold.until, hold.seat.node) == (NOW, NOW + HOUR, "gpu01")
        assert pasts[0].events[0].what == "submitted"


async def test_as_text_and_back_it_is_the_same(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as store:
        (past,) = await with_past(store, "one")
    back = past_from_plain(past_to_plain(past))
    assert (back.session, back.holds) == (past.session, past.holds)
    assert [(event.at, event.what, event.why, event.actor) for event in back.events] == [(event.at, event.what, event.why, event.actor) for event in past.events]


async def test_put_in_twice_it_is_there_once_and_its_use_is_counted_once(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as old, a_store(f"sqlite:///{tmp_path}/b.db", "server-b") as new:
        pasts = await with_past(old, "one", "two")
        await with_past(new, "mine")
        assert [past.session.name for past in await new.sessions.add_past([*pasts, pasts[0]])] == ["one", "two"]
        assert await new.sessions.add_past(pasts) == []
        page = await new.sessions.page(owner="mina", states=[Phase.ENDED], name=None, limit=10, after=None)
        assert sorted(session.name for session in page) == ["mine", "one", "two"]
        assert len({session.number for session in page}) == 3
        assert len(await new.events.page(limit=100, session_id="mina-one")) == len(pasts[0].events)
        used, alone = await new.sessions.usage(), await old.sessions.usage()
        assert used["mina"].gpu_seconds == pytest.approx(alone["mina"].gpu_seconds * 1.5)
        assert used["team:nlp"].gpu_seconds == pytest.approx(alone["team:nlp"].gpu_seconds * 1.5)


async def test_one_that_lives_there_is_left_alone(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as old, a_store(f"sqlite:///{tmp_path}/b.db", "server-b") as new:
        pasts = await with_past(old, "one")
        await new.sessions.add([a_session("one")], [])
        assert await new.sessions.add_past(pasts) == []
        assert [session.phase for session in await new.sessions.live()] == [Phase.QUEUED]


async def test_what_lives_is_no_past(tmp_path):
    plain = past_to_plain(Past(a_session("lives")))
    with pytest.raises(BadInput, match="is not over"):
        past_from_plain(plain)
    for broken in ({}, {"session": {}}, {**plain, "session": {**plain["session"], "owner": "../x"}}, {**plain, "session": {**plain["session"], "submitted_at": 5}}):
        with pytest.raises(BadInput):
            past_from_plain(broken)


async def readings(store: Store, seconds: int = 60) -> list[MovedBlock]:
    gpu = Subject(Kind.GPU, "GPU-1", "gpu01")
    for second in range(0, seconds, 5):
        at = NOW + timedelta(seconds=second)
        await store.history.append("gpu01", at, [point(gpu, utilisation=0.5)], seconds=5, arrived_at=at)
    while await store.history.roll_up(NOW + HOUR, timedelta()):
        pass
    return await store.history.blocks(0, 1000)


async def test_readings_are_told_at_the_other_store_as_here(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as old, a_store(f"sqlite:///{tmp_path}/b.db", "server-b") as new:
        blocks = [block_from_plain(block_to_plain(block)) for block in await readings(old)]
        assert await new.history.add_blocks(blocks) == len(blocks) > 0
        assert await new.history.add_blocks(blocks) == 0
        asked = {"kind": Kind.GPU, "name": "GPU-1", "since": NOW - HOUR, "until": NOW + HOUR, "now": NOW + 2 * HOUR, "step": 60}
        here, there = await old.history.read(**asked), await new.history.read(**asked)
        assert str(there) == str(here)


async def test_of_two_that_tell_of_the_same_the_one_that_knows_more_stays(tmp_path):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as early, a_store(f"sqlite:///{tmp_path}/b.db", "server-b") as late, a_store(f"sqlite:///{tmp_path}/c.db", "server-c") as new:
        few, many = await readings(early, 20), await readings(late, 60)
        assert await new.history.add_blocks(few) == len(few)
        assert await new.history.add_blocks(many) > 0
        assert await new.history.add_blocks(few) == 0


@pytest.mark.parametrize("body", [b"", b"x" * 40, b"\0" * (2**17 + 1)])
async def test_what_are_no_readings_is_refused_and_nothing_is_written(tmp_path, body):
    async with a_store(f"sqlite:///{tmp_path}/a.db") as store:
        with pytest.raises(BadInput):
            await store.history.add_blocks([MovedBlock(Subject(Kind.GPU, "GPU-1", "gpu01"), 60, 0, body)])
        assert await store.history.blocks(0, 10) == []
