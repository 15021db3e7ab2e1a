"""The reclaim and preempt loops in a house on the fake engine: idle sessions go down the ladder, guests come and go, victims are told first."""
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from gpufairy.api.shapes import session_shape
from gpufairy.control.alter import keep_longer
from gpufairy.control.enter import greeting
from gpufairy.control.preempt import Preemption
from gpufairy.control.reclaim import ReclaimWatch
from gpufairy.control.registry import Caller
from gpufairy.control.resume import resume
from gpufairy.control.roster import roster
from gpufairy.core.errors import BadInput, Conflict, QuotaExceeded
from gpufairy.core.image import ImageRules
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, GpuReading
from gpufairy.core.reclaim import Ladder, Ladders
from gpufairy.core.session import IdleStep, Outcome
from gpufairy.core.share import PARTS
from gpufairy.core.workload import workload_id
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.web.session_page import session_page

AS_ANN = Caller(ANN, "full")
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
SMALL = {"cpus": 0.1, "memory": "64MiB"}
STOPS = Ladder(HOUR, 30 * MINUTE, lend=False, stop=True)


class Ward:
    """A house whose sessions are watched; what they use is what the test says."""

    def __init__(self, scene, ladder):
        self.scene, self.house = scene, scene.house
        self.reclaim, self.preemption = ReclaimWatch(scene.house, Ladders(ladder)), Preemption(scene.house)
        self.busy = {}  # by session id: utilisation of its program; None: nobody can tell

    def sample(self) -> NodeSample:
        processes, said = [], []
        for session in self.house.book.holding():
            said.append(SessionReading(session.id, 0.0, 0, typed=False))
            for gpu in session.seat.gpus if session.id in self.busy else ():
                owner = Owner(session.owner, KnownBy.SESSION, session.id, session.name)
                on = GpuProcess(7, gpu.device, 0, self.busy[session.id])
                processes.append(ProcessReading(on, RunningProcess(7, 1, 1000, "python"), owner))
        now = self.house.clock()
        readings = tuple(GpuReading(gpu.uuid, now, utilisation=0.0) for node in self.house.nodes for gpu in node.gpus)
        return NodeSample("here", now, 1.0, readings=readings, processes=tuple(processes), sessions=tuple(said))

    async def look(self):
        self.scene.clock.go_on(timedelta(seconds=1))  # a sample of the same time says nothing new
        self.house.watch.take(self.sample(), own=True)
        await self.reclaim.look()
        await self.house.deeds.settled()
        await self.preemption.look()
        await self.scene.rest()

    async def later(self, time):
        """A look each minute, and one at the end."""
        until = self.scene.clock() + time
        while self.scene.clock() < until:
            self.scene.clock.go_on(min(MINUTE, until - self.scene.clock()))
            await self.look()

    async def running(self, **fields):
        session = await self.scene.submit(**{**SMALL, **fields})
        await self.scene.rest()
        return await self.scene.now(session)

    async def guest(self, **fields):
        """Submitted as preemptible."""
        return await self.running(preemptible=True, **fields)

    async def stop(self, session):
        await self.scene.stop(session)
        await self.scene.rest()

    async def events(self, session):
        found = await self.house.store.events.page(session_id=session.id, after=0, limit=100)
        return [event.what for event in found]


@asynccontextmanager
async def a_ward(folder, ladder=Ladder(), gpus=1, **settings):
    async with a_house(folder, gpus=gpus, **settings) as scene:
        await scene.house.registry.ensure_user("ann")
        yield Ward(scene, ladder)


async def test_an_idle_session_is_warned_in_words_and_told_wherever_its_owner_looks(tmp_path):
    async with a_ward(tmp_path) as ward:
        session = await ward.running(name="desk")
        await ward.later(HOUR)
        assert (await ward.scene.now(session)).idle_step is IdleStep.NONE
        await ward.later(2 * MINUTE)
        warned = await ward.scene.now(session)
        assert (warned.idle_step, (await ward.events(session))[-1]) == (IdleStep.WARNED, "idle_warned")
        assert "fairy keep desk 2h" in warned.why
        assert warned.why in greeting(warned)
        assert [notice.words for notice in roster(ward.house).notices] == [warned.why]
        assert (await session_page(ward.house, warned)).idle == warned.why
        shape = session_shape(warned, reader=warned.owner)["idle"]
        assert (shape["step"], shape["since"] is not None, shape["kept_until"]) == ("warned", True, None)


async def test_a_session_that_is_used_or_cannot_be_read_is_left_alone(tmp_path):
    async with a_ward(tmp_path, gpus=2) as ward:
        used, unread = await ward.running(), await ward.running()
        ward.busy = {used.id: 0.4, unread.id: None}
        await ward.later(3 * HOUR)
        assert [(await ward.scene.now(one)).idle_step for one in (used, unread)] == [IdleStep.NONE] * 2


async def test_a_host_that_falls_silent_makes_nobody_idle(tmp_path):
    async with a_ward(tmp_path) as ward:
        session = await ward.running()
        await ward.later(30 * MINUTE)
        ward.scene.clock.go_on(5 * HOUR)
        await ward.reclaim.look()
        await ward.look()
        assert (await ward.scene.now(session)).idle_step is IdleStep.NONE


async def test_what_is_lent_is_used_by_a_guest_who_leaves_at_once_when_it_is_wanted_back(tmp_path):
    async with a_ward(tmp_path) as ward:
        host = await ward.running()
        waiting = await ward.guest()
        assert waiting.phase is Phase.QUEUED
        await ward.later(HOUR + 32 * MINUTE)
        guest = await ward.scene.now(waiting)
        assert (await ward.scene.now(host)).idle_step is IdleStep.LENT
        assert (guest.phase, guest.seat.gpus[0].borrowed) == (Phase.RUNNING, True)
        ward.busy = {guest.id: 0.9}
        await ward.later(2 * HOUR)
        assert (await ward.scene.now(guest)).phase is Phase.RUNNING  # what the guest does is no use of the host's
        ward.busy[host.id] = 0.5
        await ward.look()
        back, sent = await ward.scene.now(host), await ward.scene.now(guest)
        assert (back.phase, back.idle_step) == (Phase.RUNNING, IdleStep.NONE)
        assert (sent.phase, sent.preempted, sent.attempt) == (Phase.QUEUED, 1, 2)
        assert "lent_back" in await ward.events(host)
        assert "preempted" in await ward.events(guest)


async def test_a_guest_whose_host_has_ended_keeps_the_gpu_as_its_own(tmp_path):
    async with a_ward(tmp_path) as ward:
        host, waiting = await ward.running(), await ward.guest()
        await ward.later(HOUR + 32 * MINUTE)
        await ward.stop(host)
        await ward.later(MINUTE)
        guest = await ward.scene.now(waiting)
        assert (guest.phase, guest.seat.gpus[0].borrowed) == (Phase.RUNNING, False)
        other = await ward.guest()
        assert other.phase is Phase.QUEUED


async def test_keep_leads_back_to_the_top_with_or_without_a_limit(tmp_path):
    async with a_ward(tmp_path, gpus=2) as ward:
        endless, limited = await ward.running(), await ward.running(time="10h")
        await ward.later(HOUR + 32 * MINUTE)
        for session in (endless, limited):
            assert (await ward.scene.now(session)).idle_step is IdleStep.LENT
            kept = await keep_longer(ward.house, AS_ANN, session, 2 * HOUR)
            assert (kept.idle_step, kept.kept_until) == (IdleStep.NONE, ward.scene.clock() + 2 * HOUR)
        assert (await ward.scene.now(limited)).request.time_limit == 10 * HOUR
        await ward.later(2 * HOUR - MINUTE)
        assert (await ward.scene.now(endless)).idle_step is IdleStep.NONE
        await ward.later(2 * MINUTE)
        assert (await ward.scene.now(endless)).idle_step is IdleStep.WARNED
        with pytest.raises(BadInput, match="more than 1 d ahead"):
            await keep_longer(ward.house, AS_ANN, endless, 30 * HOUR)


async def test_a_shrunk_session_gives_up_half_which_the_ledger_knows_and_grows_back_when_it_is_used(tmp_path):
    async with a_ward(tmp_path, Ladder(HOUR, 30 * MINUTE, lend=False, shrink=True)) as ward:
        session = await ward.running()
        await ward.later(HOUR + 32 * MINUTE)
        small = await ward.scene.now(session)
        assert (small.idle_step, small.seat.gpu_parts, small.seat.charge_parts) == (IdleStep.SHRUNK, PARTS // 2, PARTS // 2)
        other = await ward.running(gpus="0.5")
        assert other.phase is Phase.RUNNING
        ward.busy = {session.id: 0.5, other.id: 0.5}
        await ward.look()
        assert (await ward.scene.now(session)).seat.gpu_parts == PARTS // 2
        await ward.stop(other)
        await ward.later(MINUTE)
        big = await ward.scene.now(session)
        assert (big.idle_step, big.seat) == (IdleStep.NONE, session.seat)
        assert {"shrunk", "grown"} <= set(await ward.events(session))


async def test_an_idle_session_is_stopped_where_policy_says_so_and_resumed_by_one_command(tmp_path):
    async with a_ward(tmp_path, STOPS) as ward:
        session = await ward.running(name="desk")
        await ward.later(HOUR + 32 * MINUTE)
        ended = await ward.scene.now(session)
        assert (ended.phase, ended.outcome, ended.idle_step) == (Phase.ENDED, Outcome.EVICTED, IdleStep.STOPPED)
        assert "fairy resume desk" in ended.why
        assert "reclaimed" in await ward.events(session)
        again = await resume(ward.house, AS_ANN, ended)
        await ward.scene.rest()
        again = await ward.scene.now(again)
        assert (again.name, again.phase, again.request) == ("desk", Phase.RUNNING, session.request)
        with pytest.raises(Conflict, match="is RUNNING, not over"):
            await resume(ward.house, AS_ANN, again)
        with pytest.raises(Conflict, match="already has a session 'desk'"):
            await resume(ward.house, AS_ANN, ended)


@asynccontextmanager
async def a_ward_with_images(folder, commit="approve", **rules):
    shelf = FakeShelf("ubuntu:24.04")
    async with a_ward(folder, STOPS, shelf=shelf, images=ImageRules("ubuntu:24.04", commit=commit, **rules)) as ward:
        yield ward, shelf


async def test_what_is_over_its_quota_by_now_is_not_resumed(tmp_path):
    async with a_ward(tmp_path, gpus=2) as ward:
        session = await ward.running(name="big", gpus="2")
        await ward.stop(session)
        await ward.house.quotas.set("user:ann", "*", lambda quota: replace(quota, gpu_parts=PARTS), ward.house.nodes)
        with pytest.raises(QuotaExceeded, match="may hold 1 GPU at once; 2 asked"):
            await resume(ward.house, AS_ANN, await ward.scene.now(session))
        assert ward.house.book.named("ann", "big") is None


async def test_what_was_in_it_is_kept_as_an_image_first_and_resumed_from(tmp_path):
    async with a_ward_with_images(tmp_path) as (ward, shelf):
        session = await ward.running(name="desk")
        await ward.later(HOUR + 32 * MINUTE)
        ended = await ward.scene.now(session)
        assert (ended.phase, [name for _, name in shelf.committed]) == (Phase.ENDED, ["ann/reclaimed:desk"])
        again = await resume(ward.house, AS_ANN, ended)
        assert again.request.image == "ann/reclaimed:desk"


async def test_who_cannot_be_kept_as_an_image_is_not_stopped(tmp_path):
    async with a_ward_with_images(tmp_path) as (ward, shelf):
        shelf.refuse = "no space left on device"
        session = await ward.running()
        await ward.later(HOUR + 40 * MINUTE)
        assert (await ward.scene.now(session)).phase is Phase.RUNNING
        events = await ward.house.store.events.page(session_id=session.id, after=0, limit=100)
        told = [event.why for event in events if event.what == "not_reclaimed"]
        assert len(told) == 1
        assert "no space left on device" in told[0]
        shelf.refuse = ""
        await ward.later(HOUR)
        assert (await ward.scene.now(session)).phase is Phase.ENDED


async def test_where_no_image_can_be_made_at_all_nobody_is_stopped_and_the_reason_is_told_once(tmp_path):
    async with a_ward_with_images(tmp_path) as (ward, shelf):
        shelf.no_commits = "this server has no registry"
        session = await ward.running()
        await ward.later(3 * HOUR)
        assert ((await ward.scene.now(session)).phase, shelf.committed) == (Phase.RUNNING, [])
        events = await ward.house.store.events.page(session_id=session.id, after=0, limit=100)
        told = [event.why for event in events if event.what == "not_reclaimed"]
        assert told == ["not stopped: what was installed outside of its home would be lost (this server has no registry)"]


async def test_a_victim_is_told_first_and_leaves_only_if_it_is_still_needed(tmp_path):
    async with a_ward(tmp_path, Ladder(idle_after=None)) as ward:
        victim = await ward.guest(retry=0)
        await ward.later(11 * MINUTE)
        first = await ward.running()
        await ward.look()
        assert (await ward.events(victim))[-1] == "preempt_notice"
        assert (await ward.scene.now(victim)).phase is Phase.RUNNING
        await ward.stop(first)
        await ward.later(2 * MINUTE)
        assert (await ward.scene.now(victim)).phase is Phase.RUNNING
        second = await ward.running()
        await ward.look()
        await ward.later(2 * MINUTE)
        sent = await ward.scene.now(victim)
        assert (sent.phase, sent.attempt, sent.preempted) == (Phase.QUEUED, 2, 1)
        assert (await ward.scene.now(second)).phase is Phase.RUNNING
        assert (await ward.events(victim)).count("preempt_notice") == 2


async def test_being_preempted_uses_up_no_retry_and_keeps_nobody_waiting(tmp_path):
    async with a_ward(tmp_path, Ladder(idle_after=None)) as ward:
        victim = await ward.guest(retry=1)
        for _ in range(3):
            await ward.later(11 * MINUTE)
            first = await ward.running()
            await ward.look()
            await ward.later(2 * MINUTE)
            assert (await ward.scene.now(first)).phase is Phase.RUNNING
            await ward.stop(first)
            await ward.later(MINUTE)
            assert (await ward.scene.now(victim)).phase is Phase.RUNNING
        again = await ward.scene.now(victim)
        assert (again.attempt, again.preempted) == (4, 3)
        ward.scene.containers.exit(workload_id(again), 1)
        await ward.scene.rest()
        assert (await ward.scene.now(victim)).phase is Phase.QUEUED  # its one retry is still there
        await ward.later(MINUTE)
        failed = await ward.scene.now(victim)
        ward.scene.containers.exit(workload_id(failed), 1)
        await ward.scene.rest()
        assert (await ward.scene.now(victim)).outcome is Outcome.FAILED


async def test_after_a_restart_a_lent_session_is_still_lent_and_its_guest_a_guest(tmp_path):
    async with a_ward(tmp_path) as ward:
        host, waiting = await ward.running(), await ward.guest()
        await ward.later(HOUR + 32 * MINUTE)
        containers, clock = ward.scene.containers, ward.scene.clock
    async with a_ward(tmp_path, containers=containers, clock=clock) as ward:
        await ward.later(10 * MINUTE)
        assert (await ward.scene.now(host)).idle_step is IdleStep.LENT
        assert (await ward.scene.now(waiting)).phase is Phase.RUNNING
        ward.busy = {host.id: 0.5}
        await ward.look()
        assert (await ward.scene.now(waiting)).phase is Phase.QUEUED
