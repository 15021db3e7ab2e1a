"""Reclaim and preemption where something comes in between: a guest, a write, a gang, a lost database."""
import asyncio

from test_reclaim_loop import AS_ANN, HOUR, MINUTE, SMALL, a_ward, a_ward_with_images

from gpufairy.control.door import submit
from gpufairy.control.notices import About
from gpufairy.control.roster import roster
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.reclaim import Ladder
from gpufairy.core.session import IdleStep, Wanted
from gpufairy.core.share import PARTS
from gpufairy.core.steps import noted, place
from gpufairy.wire.submit import SubmitBody


async def test_of_a_gang_that_borrows_all_leave_when_one_host_is_back(tmp_path):
    async with a_ward(tmp_path, gpus=2) as ward:
        host = await ward.running(name="host")
        await ward.later(HOUR + 32 * MINUTE)
        body = SubmitBody.model_validate({"command": ["work"], "gpus": "1", "count": 2, "together": True, "preemptible": True, **SMALL})
        gang = await submit(ward.house, AS_ANN, body, {}, None)
        await ward.scene.rest()
        assert [(await ward.scene.now(one)).phase for one in gang] == [Phase.RUNNING] * 2
        ward.busy = {host.id: 0.9}
        await ward.look()
        back = [await ward.scene.now(one) for one in gang]
        assert [(one.phase, one.preempted) for one in back] == [(Phase.QUEUED, 1)] * 2


async def test_a_session_is_not_shrunk_when_a_guest_came_while_it_was_judged(tmp_path):
    async with a_ward(tmp_path, Ladder(shrink=True)) as ward:
        host = await ward.running(name="host")
        await ward.later(HOUR + 32 * MINUTE)
        assert (await ward.scene.now(host)).idle_step is IdleStep.LENT
        await ward.later(27 * MINUTE)
        await ward.scene.submit(name="guest", preemptible=True, **SMALL)
        await ward.house.placing.acquire()  # as the place loop has it while it plans
        while not ward.house.placing._waiters:
            ward.scene.clock.go_on(MINUTE)
            ward.house.watch.take(ward.sample(), own=True)
            looking = asyncio.create_task(ward.reclaim.look())
            await asyncio.wait([looking], timeout=0.01)
        made = plan(ward.house.cluster(), ward.scene.clock(), ward.house.floor)
        assert [one.session.name for one in made.placed] == ["guest"]
        await ward.house.save([place(one.session, one.seat, ward.scene.clock(), one.why) for one in made.placed])
        ward.house.placing.release()
        await looking
        assert (await ward.scene.now(host)).idle_step is IdleStep.LENT


async def test_what_one_loop_takes_back_another_still_tells_and_tells_again_after_a_restart(tmp_path):
    async with a_ward(tmp_path) as ward:
        session = await ward.running()
        await ward.later(HOUR + 2 * MINUTE)
        warned = await ward.scene.now(session)
        ward.house.notices.tell(session.id, About.BOOKING, "its GPU is booked")
        ward.house.notices.take_back(session.id, About.BOOKING)
        assert ward.house.notices.of(session.id) == [warned.why]
        containers, clock = ward.scene.containers, ward.scene.clock
    async with a_ward(tmp_path, containers=containers, clock=clock) as ward:
        assert [notice.words for notice in roster(ward.house).notices] == [warned.why]


async def test_where_no_images_are_made_nobody_is_stopped_for_being_idle(tmp_path):
    async with a_ward_with_images(tmp_path, commit="off") as (ward, _):
        session = await ward.running()
        await ward.later(HOUR + 40 * MINUTE)
        assert (await ward.scene.now(session)).phase is Phase.RUNNING
        assert "not_reclaimed" in await ward.events(session)


async def test_whose_images_are_over_their_quota_is_not_stopped(tmp_path):
    async with a_ward_with_images(tmp_path, commit_quota_bytes=0) as (ward, shelf):
        session = await ward.running()
        await ward.later(HOUR + 40 * MINUTE)
        assert ((await ward.scene.now(session)).phase, shelf.committed) == (Phase.RUNNING, [])
        await ward.stop(session)
        await ward.look()
        assert ward.reclaim._stop_idle._failed == {}


async def test_an_image_is_made_once_though_something_was_written_meanwhile(tmp_path):
    async with a_ward_with_images(tmp_path) as (ward, shelf):
        session, sessions = await ward.running(), ward.house.store.sessions
        await ward.later(HOUR + 2 * MINUTE)
        save = sessions.save

        async def save_late(changes):
            if changes[0].after.wanted is Wanted.STOP:
                sessions.save = save
                await save([noted(changes[0].before, "told", ward.scene.clock(), "something")])
            return await save(changes)

        sessions.save = save_late
        await ward.later(32 * MINUTE)
        assert ((await ward.scene.now(session)).phase, len(shelf.committed)) == (Phase.ENDED, 1)


async def test_adopted_by_their_labels_a_shrunk_session_stays_small_beside_others(tmp_path):
    one, two = (tmp_path / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    async with a_ward(one, Ladder(lend=False, shrink=True)) as ward:
        host = await ward.running(name="host")
        await ward.later(HOUR + 32 * MINUTE)
        second = await ward.running(name="second", gpus="0.5")
        containers, clock = ward.scene.containers, ward.scene.clock
    async with a_ward(two, containers=containers, clock=clock) as ward:
        await ward.scene.rest()
        parts = [(await ward.scene.now(one)).seat.gpu_parts for one in (host, second)]
        assert parts == [PARTS // 2] * 2
        assert (await ward.scene.now(host)).seat.charge_parts == PARTS // 2


async def test_adopted_by_their_labels_a_guest_is_still_a_guest_of_one_who_lends(tmp_path):
    one, two = (tmp_path / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    async with a_ward(one) as ward:
        host, waiting = await ward.running(name="host"), await ward.guest(name="guest")
        await ward.later(HOUR + 32 * MINUTE)
        containers, clock = ward.scene.containers, ward.scene.clock
    async with a_ward(two, containers=containers, clock=clock) as ward:
        await ward.scene.rest()
        await ward.look()
        assert ((await ward.scene.now(host)).idle_step, (await ward.scene.now(waiting)).phase) == (IdleStep.LENT, Phase.RUNNING)
        ward.busy = {host.id: 0.9}
        await ward.look()
        assert (await ward.scene.now(waiting)).phase is Phase.QUEUED
