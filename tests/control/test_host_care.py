"""Maintenance windows and the record of hosts on a whole house: planned, opened and closed in time; nobody dead because nobody watched."""
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import a_house

from alert_scene import a_host_reading, a_host_sample, a_reading
from builders import NOW
from gpufairy.control.alerts import AlertSettings, AlertSources, AlertWatch
from gpufairy.control.clock import HeldClock
from gpufairy.control.govern import set_drained
from gpufairy.control.host_care import HostCare, end_window, plan_window
from gpufairy.control.watch import Watch
from gpufairy.core.agent import Agent
from gpufairy.core.alert_tell import Channel
from gpufairy.core.booking_choice import BookingAsk
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import NodeState
from gpufairy.engines.fake import FakeContainers
from gpufairy.wire.maintenance import WindowBody

pytestmark = pytest.mark.slow  # many minutes go by, second by second
OPS = Channel("ops", "webhook")


class Lab:
    def __init__(self, scene):
        self.scene, self.house, self.clock, self.steady_s = scene, scene.house, scene.clock, 0.0
        self.house.watch = Watch(self.clock, lambda: [agent.name for agent in self.house.agents.accepted()], lambda: self.steady_s)
        self.watch = AlertWatch(self.house, AlertSettings(channels=(OPS,)), AlertSources())
        self.care = HostCare(self.house)

    async def begin(self, *hosts):
        for name in hosts:
            agent = Agent(name, b"k", NOW, "admin")
            await self.house.store.agents.put(agent)
            self.house.agents._agents[name] = agent
        await self.watch.load()
        await self.care.load()

    async def later(self, seconds, *samples):
        for second in range(int(seconds)):
            self.clock.go_on(timedelta(seconds=1))
            self.steady_s += 1
            if second % 5 == 0:
                for sample in samples:
                    self.house.watch.take(sample(self.clock()))
            await self.care.look()
            await self.watch.look()

    async def plan(self, node, **body):
        return await plan_window(self.house, "kim", node, WindowBody.model_validate(body))

    def firing(self):
        return [alert.thing for alert in self.watch.alerts() if alert.fired_at is not None]

    async def record(self, node="gpu01"):
        return next(one for one in await self.watch.uptime() if one.node == node)

    async def events(self):
        return [event.what for event in await self.house.store.events.page(limit=1000) if event.what.startswith("maintenance")]


@asynccontextmanager
async def a_lab(folder, *hosts, **settings):
    async with a_house(folder, **settings) as scene:
        lab = Lab(scene)
        await lab.begin(*hosts)
        yield lab


def told_by(node="gpu01", *, boot_id="boot-1", agent_up_s=9e5, up_s=9e5):
    def sample(now):
        made = a_host_sample(node, now, a_reading(f"GPU-{node}", now), host=replace(a_host_reading(now), up_s=up_s, boot_id=boot_id))
        return replace(made, agent_up_s=agent_up_s)

    return sample


async def test_a_window_drains_its_host_from_its_start_to_its_end_and_what_runs_goes_on(tmp_path):
    async with a_lab(tmp_path) as lab:
        runs = await lab.scene.submit(time="10h")
        await lab.scene.rest()
        window = await lab.plan("here", why="new disk", start=(NOW + timedelta(minutes=2)).isoformat(), time="1m")
        assert lab.house.nodes[0].state is NodeState.READY
        await lab.later(121)
        assert (lab.house.nodes[0].state, lab.house.nodes[0].state_why) == (NodeState.DRAINED, "maintenance until 08:03 UTC: new disk")
        waits = await lab.scene.submit(time="1m")
        await lab.scene.rest()
        assert (await lab.scene.now(waits)).phase is Phase.QUEUED
        with pytest.raises(Conflict, match="it is worked on"):
            await set_drained(lab.house, "kim", "here", None)
        assert (await lab.scene.now(runs)).phase is Phase.RUNNING
        await lab.later(61)
        assert lab.house.nodes[0].state is NodeState.READY
        await lab.scene.rest()
        assert (await lab.scene.now(waits)).phase is Phase.RUNNING
        assert await lab.events() == ["maintenance_planned", "maintenance_began", "maintenance_over"]
        assert window.made_by == "kim"


async def test_before_a_window_only_what_ends_in_time_is_started(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.plan("here", why="new disk", start=(NOW + timedelta(hours=2)).isoformat(), time="1h")
        short, long, endless = await lab.scene.submit(time="1h"), await lab.scene.submit(time="3h"), await lab.scene.submit()
        await lab.scene.rest()
        assert [(await lab.scene.now(one)).phase for one in (short, long, endless)] == [Phase.RUNNING, Phase.QUEUED, Phase.QUEUED]
        [refusal] = lab.house.plan.refusals_of(await lab.scene.now(long))
        assert refusal.why == "here: booked for maintenance (new disk) from 10:00 UTC, in 2 h"


async def test_no_booking_gets_a_gpu_that_is_out_of_use_then(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.plan("here", why="new disk", start=(NOW + timedelta(hours=2)).isoformat(), time="1h")
        ask = BookingAsk("class", "kim", ("user:kim",), 1, NOW + timedelta(hours=1), NOW + timedelta(hours=4), by_admin=True)
        with pytest.raises(Conflict, match="maintenance"):
            await lab.house.bookings.make(ask, lab.house.nodes, [])
        after = replace(ask, start=NOW + timedelta(hours=3))
        assert (await lab.house.bookings.make(after, lab.house.nodes, [])).start == after.start


async def test_a_window_can_be_called_off_and_is_written_down_with_who_did_it(tmp_path):
    async with a_lab(tmp_path, "gpu01") as lab:
        window = await lab.plan("gpu01", why="new disk", time="1h")
        with pytest.raises(Conflict):
            await lab.plan("gpu01", why="again", time="1h")
        with pytest.raises(NoSuchThing, match="did you mean gpu01"):
            await lab.plan("gpu1", why="new disk", time="1h")
        with pytest.raises(BadInput):
            await lab.plan("here", why="new disk")
        await lab.later(5, told_by())
        await end_window(lab.house, "lee", window.id)
        assert lab.house.maintenance.windows() == []
        with pytest.raises(NoSuchThing):
            await end_window(lab.house, "lee", window.id)
        await lab.later(2, told_by())
        assert await lab.events() == ["maintenance_planned", "maintenance_began", "maintenance_ended"]


async def test_a_host_away_in_its_window_is_told_to_nobody_and_counts_as_planned(tmp_path):
    async with a_lab(tmp_path, "gpu01", "gpu02") as lab:
        await lab.plan("gpu01", why="new disk", time="10m")
        await lab.later(30, told_by("gpu01"), told_by("gpu02"))
        await lab.later(60, told_by("gpu02"))
        assert lab.firing() == ["gpu01"], "shown, and not told"
        assert all(alert.told_at is None for alert in lab.watch.alerts())
        await lab.later(30, told_by("gpu01", boot_id="boot-2", up_s=20.0), told_by("gpu02"))
        record = await lab.record()
        assert (record.part, record.downtimes[0].planned) == (1.0, True)
        assert record.planned > timedelta(seconds=40)
        assert record.downtimes[0].why == "it is back; maintenance by kim: new disk"


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({"boot_id": "boot-2", "agent_up_s": 10.0, "up_s": 30.0}, "it is back; the host was started anew"),
        ({"agent_up_s": 10.0}, "it is back; its agent had stopped, the host itself ran on"),
        ({"agent_up_s": 9e5}, "it is back; the network was away, the host and its agent ran on"),
    ],
    ids=["reboot", "agent", "network"],
)
async def test_a_downtime_has_its_reason(tmp_path, after, why):
    async with a_lab(tmp_path, "gpu01") as lab:
        await lab.later(20, told_by())
        died = lab.clock()
        while not lab.firing():
            await lab.later(1)
        assert lab.clock() - died <= timedelta(seconds=20)
        await lab.later(60)
        await lab.later(30, told_by(**after))
        record = await lab.record()
        assert [one.why for one in record.downtimes] == [why]
        assert record.part < 1


async def test_time_in_which_the_server_was_away_is_not_watched_and_nobodys_downtime(tmp_path):
    clock, containers = HeldClock(NOW), FakeContainers()
    async with a_lab(tmp_path, "gpu01", clock=clock, containers=containers) as lab:
        await lab.later(60, told_by())
    clock.go_on(timedelta(hours=5))
    async with a_lab(tmp_path, clock=clock, containers=containers) as lab:
        await lab.later(10)
        assert lab.firing() == [], "it is given its time"
        await lab.later(60, told_by())
        record = await lab.record()
        assert (record.part, record.downtimes) == (1.0, ())
        assert timedelta(hours=5) <= record.unwatched <= timedelta(hours=5, seconds=31)


async def test_a_server_that_slept_writes_down_that_nobody_watched(tmp_path):
    async with a_lab(tmp_path, "gpu01") as lab:
        await lab.later(30, told_by())
        lab.clock.go_on(timedelta(minutes=10))
        lab.steady_s += 600
        await lab.later(10, told_by())
        record = await lab.record()
        assert (record.part, record.unwatched) == (1.0, timedelta(minutes=10, seconds=1))


async def test_windows_and_what_was_not_watched_outlive_the_server_and_are_forgotten_after_a_year(tmp_path):
    clock, containers = HeldClock(NOW), FakeContainers()
    async with a_lab(tmp_path, "gpu01", clock=clock, containers=containers) as lab:
        made = await lab.plan("gpu01", why="new disk", start=(NOW + timedelta(hours=1)).isoformat(), time="10m")
    clock.go_on(timedelta(minutes=5))
    async with a_lab(tmp_path, clock=clock, containers=containers) as lab:
        assert lab.house.maintenance.windows() == [made]
        clock.go_on(timedelta(days=500))
        await lab.care.look()
        assert await lab.house.maintenance.past(NOW) == []
