"""The loops of alerts on a whole house: what fires is written with who is to be told, and told at least once, never in a storm."""
import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from house_scene import a_house

from alert_scene import a_host_reading, a_host_sample, a_reading
from builders import NOW
from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.alerts import AlertSettings, AlertSources, AlertWatch
from gpufairy.control.clock import HeldClock
from gpufairy.control.outbox import Outbox, OutboxSettings
from gpufairy.control.user_messages import UserMessages
from gpufairy.control.watch import AWAY_AFTER_S, SILENT_AFTER_S, Watch
from gpufairy.core.agent import Agent
from gpufairy.core.alert import Severity
from gpufairy.core.alert_tell import Channel, Post
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing, NotDelivered
from gpufairy.core.letter import Item
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reading import Xid
from gpufairy.core.workload import workload_id
from gpufairy.wire.alerts import SilenceBody, UserChannelBody

pytestmark = pytest.mark.slow  # many minutes go by, second by second
OPS, BOSS = Channel("ops", "webhook"), Channel("boss", "email", escalate_after=timedelta(minutes=10))


class Ear:
    """A courier that keeps what it is given, or fails as it is told to."""

    most_items, place = 20, "an ear"

    def __init__(self):
        self.letters, self.deaf, self.gate, self.given = [], False, None, asyncio.Event()

    async def send(self, letter):
        if self.gate is not None:
            await self.gate.wait()
        if self.deaf:
            raise NotDelivered("the ear is deaf", "Shout.")
        self.letters.append(letter)
        self.given.set()

    @property
    def heard(self):
        return [item.sentence for letter in self.letters for item in letter.items]


class Lab:
    def __init__(self, scene, ears):
        self.scene, self.house, self.clock, self.ears = scene, scene.house, scene.clock, ears
        self.steady_s = 0.0
        self.house.watch = Watch(self.clock, lambda: [agent.name for agent in self.house.agents.accepted()], lambda: self.steady_s)
        messages = UserMessages(self.house, ("email", "ntfy"), lambda kind, address: ears.setdefault(f"{kind}:{address}", Ear()))
        outbox = Outbox(self.house.store.outbox, self.clock, {name: ears[name] for name in ("ops", "boss")}, OutboxSettings(gather=timedelta(seconds=1)), of_user=messages.courier_of, chance=lambda: 1.0)
        self.desk = AlertDesk(self.house, AlertWatch(self.house, AlertSettings(channels=(OPS, BOSS), version="0.1.0"), AlertSources()), outbox, messages)

    async def watch_hosts(self, *names):
        for name in names:
            agent = Agent(name, b"k", NOW, "admin")
            await self.house.store.agents.put(agent)
            self.house.agents._agents[name] = agent

    async def later(self, seconds, *samples):
        """Second by second, as the loops go; each host reports every five."""
        for second in range(int(seconds)):
            self.clock.go_on(timedelta(seconds=1))
            self.steady_s += 1
            if second % 5 == 0:
                for sample in samples:
                    self.house.watch.take(sample(self.clock()))
            await self.desk.watch.look()
            await self.desk.messages.look()
            await self.desk.outbox.look()
            await self.desk.outbox.settled()

    def firing(self):
        return [alert.thing for alert in self.desk.watch.alerts() if alert.fired_at is not None]


@asynccontextmanager
async def a_lab(folder, ears=None, clock=None):
    async with a_house(folder, clock=clock) as scene:
        lab = Lab(scene, ears if ears is not None else {"ops": Ear(), "boss": Ear()})
        await lab.desk.watch.load()
        await lab.desk.messages.load()
        yield lab
        await lab.desk.outbox.close()


def sound(node="gpu01"):
    return lambda now: a_host_sample(node, now, a_reading(f"GPU-{node}", now))


def hot(node="gpu01"):
    return lambda now: a_host_sample(node, now, a_reading(f"GPU-{node}", now, temperature_c=95.0))


async def test_what_is_bad_for_long_enough_fires_is_told_once_and_told_again_when_it_is_over(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        await lab.later(20, hot())
        assert (lab.firing(), lab.ears["ops"].letters) == ([], [])
        await lab.later(30, hot())
        assert lab.firing() == ["gpu01 GPU 0"]
        await lab.later(60, hot())
        assert lab.ears["ops"].heard == ["gpu01 GPU 0 has 95 °C (bad from 90 °C)"]
        await lab.later(140, sound())
        assert lab.firing() == []
        assert lab.ears["ops"].heard[1:] == ["gpu01 GPU 0 has 95 °C (bad from 90 °C): it is over"]
        [past] = await lab.house.store.alerts.past(limit=10)
        assert (past.rule, past.ended_why) == ("gpu_hot", "it is over")


async def test_an_xid_is_told_at_once_and_a_report_sent_twice_tells_it_once(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        xid = Xid("GPU-gpu01", 79, NOW)
        await lab.later(6, lambda now: a_host_sample("gpu01", now, a_reading("GPU-gpu01", now), xids=(xid,)))
        assert lab.firing() == ["gpu01 GPU 0 XID 79"]
        assert lab.ears["ops"].heard == ["gpu01 GPU 0: XID 79: the GPU fell off the bus: the host cannot reach it"]


async def test_a_dead_host_is_told_of_within_twenty_seconds_and_its_downtime_has_a_reason(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01", "gpu02")
        await lab.later(11, sound("gpu01"), sound("gpu02"))
        died = lab.clock()
        while not lab.firing():
            await lab.later(1)
            lab.house.watch.take(sound("gpu02")(lab.clock()))
        assert lab.clock() - died <= timedelta(seconds=20)
        assert lab.firing() == ["gpu01"]
        await lab.later(30, lambda now: a_host_sample("gpu01", now, host=a_host_reading(now)), sound("gpu02"))
        [record, other] = await lab.desk.watch.uptime()
        assert (record.node, len(record.downtimes), other.downtimes) == ("gpu01", 1, ())
        assert record.downtimes[0].why == "it is back; its agent or the network was away, the host itself ran on"


async def test_a_server_that_slept_for_a_minute_calls_nobody_dead(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        await lab.later(10, sound())
        lab.clock.go_on(timedelta(minutes=1))
        lab.steady_s += 60
        assert not lab.house.watch.host("gpu01").silent, "also for whoever asks first"
        await lab.later(SILENT_AFTER_S - 2)
        assert (lab.firing(), lab.house.watch.host("gpu01").silent) == ([], False)
        await lab.later(4)
        assert lab.firing() == ["gpu01"], "it had its time, and said nothing"
        assert AWAY_AFTER_S < SILENT_AFTER_S


async def test_who_has_taken_note_is_not_told_again_and_no_second_channel_either(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01", "gpu02")
        await lab.later(40, hot("gpu01"), hot("gpu02"))
        noted = lab.desk.watch.alerts()[0]
        await lab.desk.acknowledge("kim", noted.id)
        await lab.later(660, hot("gpu01"), hot("gpu02"))
        other = next(one for one in lab.desk.watch.alerts() if one.id != noted.id)
        assert [item.thing for letter in lab.ears["boss"].letters for item in letter.items] == [other.thing]
        kept = {one.id: one.acked_by for one in await lab.house.store.alerts.live()}
        assert kept == {noted.id: "kim", other.id: ""}
        with pytest.raises(NoSuchThing):
            await lab.desk.acknowledge("kim", "nothing")


async def test_a_maintenance_window_keeps_a_node_silent_and_ends_by_itself(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        body = SilenceBody(node="gpu01", time="5m", why="new disk")
        made = await lab.desk.silence("kim", body)
        await lab.later(100, hot())
        assert (lab.firing(), lab.ears["ops"].letters) == (["gpu01 GPU 0"], [])
        await lab.later(220, hot())
        assert len(lab.ears["ops"].letters) == 1
        with pytest.raises(NoSuchThing):
            await lab.desk.unsilence("kim", made.id)
        events = await lab.house.store.events.page(limit=10)
        assert [(event.what, event.actor) for event in events] == [("alerts_silenced", "kim")]


async def test_alerts_that_come_together_go_in_one_letter_and_a_storm_in_few(tmp_path):
    async with a_lab(tmp_path) as lab:
        names = [f"n{number:05}" for number in range(10_000)]
        posts = [Post("ops", name, Item("node_silent", "firing", "critical", f"{name} is silent")) for name in names]
        await lab.house.store.outbox.add(posts, lab.clock())
        await lab.later(600)
        letters = lab.ears["ops"].letters
        assert len(letters) <= 30
        assert sum(len(letter.items) + letter.more for letter in letters) == 10_000
        assert await lab.house.store.outbox.waiting() == []


async def test_a_channel_that_fails_is_tried_again_until_it_takes_all_that_waited(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        lab.ears["ops"].deaf = True
        await lab.later(120, hot())
        [status, _] = await lab.desk.outbox.status()
        assert (status.waiting, status.trouble, status.sent_at) == (1, "the ear is deaf", None)
        with pytest.raises(NotDelivered):
            await lab.desk.test("kim", "ops")
        lab.ears["ops"].deaf = False
        await lab.later(900, hot())
        assert lab.ears["ops"].heard == ["gpu01 GPU 0 has 95 °C (bad from 90 °C)"]
        [status, _] = await lab.desk.outbox.status()
        assert (status.waiting, status.trouble, status.next_try) == (0, "", None)


async def test_what_nobody_took_for_a_day_is_given_up(tmp_path):
    async with a_lab(tmp_path) as lab:
        lab.ears["ops"].deaf = True
        await lab.house.store.outbox.add([Post("ops", "old", Item("x", "firing", "warning", "old"))], lab.clock())
        lab.clock.go_on(timedelta(hours=25))
        await lab.later(2)
        assert await lab.house.store.outbox.waiting() == []
        assert lab.ears["ops"].letters == []


async def test_a_channel_that_hangs_holds_up_no_other(tmp_path):
    async with a_lab(tmp_path) as lab:
        lab.ears["boss"].gate = asyncio.Event()
        for channel in ("boss", "ops"):
            await lab.house.store.outbox.add([Post(channel, "a", Item("x", "firing", "warning", "news"))], lab.clock())
        lab.clock.go_on(timedelta(seconds=2))
        await lab.desk.outbox.look()
        async with asyncio.timeout(5):
            await lab.ears["ops"].given.wait()
        assert (len(lab.ears["ops"].letters), lab.ears["boss"].letters) == (1, [])


async def test_what_was_written_and_not_sent_goes_out_after_a_restart_and_the_same_is_not_told_twice(tmp_path):
    ears, clock = {"ops": Ear(), "boss": Ear()}, HeldClock(NOW)
    async with a_lab(tmp_path, ears, clock) as lab:
        await lab.watch_hosts("gpu01")
        ears["ops"].deaf = True
        await lab.later(60, hot())
    ears["ops"].deaf = False
    async with a_lab(tmp_path, ears, clock) as lab:
        assert lab.firing() == ["gpu01 GPU 0"], "it fires still"
        await lab.later(60, hot())
    assert ears["ops"].heard == ["gpu01 GPU 0 has 95 °C (bad from 90 °C)"]


async def test_nobody_takes_note_of_what_only_may_come(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.watch_hosts("gpu01")
        await lab.later(10, hot())
        with pytest.raises(Conflict):
            await lab.desk.acknowledge("kim", lab.desk.watch.alerts()[0].id)


async def test_users_are_told_of_their_own_sessions_where_they_want_and_of_what_they_want(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.desk.put_channel("ann", UserChannelBody(kind="ntfy", address="anns-topic", about=["started", "failed", "ending"]))
        waits = await lab.scene.submit(gpus="2", name="first", time="1h")
        behind = await lab.scene.submit(gpus="2", name="second")
        await lab.scene.rest()
        await lab.later(90)
        await lab.scene.stop(waits)
        await lab.scene.rest()
        await lab.later(5)
        assert (await lab.scene.now(behind)).phase is Phase.RUNNING
        heard = lab.ears["ntfy:anns-topic"].heard
        assert len(heard) == 1, "the first did not wait, and that it ended was not asked for"
        assert heard[0].startswith("session second runs on ")
        lab.scene.containers.exit(workload_id(await lab.scene.now(behind)), 3)
        await lab.scene.rest()
        await lab.later(5)
        assert heard != lab.ears["ntfy:anns-topic"].heard
        assert "session second failed with code 3" in lab.ears["ntfy:anns-topic"].heard[-1]


async def test_a_session_about_to_end_is_told_of_once(tmp_path):
    async with a_lab(tmp_path) as lab:
        await lab.desk.put_channel("ann", UserChannelBody(kind="ntfy", address="anns-topic"))
        await lab.scene.submit(name="long", time="1h")
        await lab.scene.rest()
        lab.clock.go_on(timedelta(minutes=50))
        await lab.later(60)
        assert lab.ears["ntfy:anns-topic"].heard == ["session long ends in 9 min 59 s: its time is up then"]


async def test_a_user_may_choose_only_what_is_offered_and_what_makes_sense(tmp_path):
    async with a_lab(tmp_path) as lab:
        for body in ({"kind": "webhook", "address": "https://hooks.example/x"}, {"kind": "email", "address": "nobody"}, {"kind": "ntfy", "address": "x"}, {"kind": "ntfy", "address": "long-enough", "about": ["all"]}):
            with pytest.raises(BadInput):
                await lab.desk.put_channel("ann", UserChannelBody.model_validate(body))
        with pytest.raises(NoSuchThing):
            await lab.desk.remove_channel("ann", "email")


async def test_critical_is_worse_than_a_warning_is_worse_than_a_note():
    assert sorted(Severity, key=lambda one: one.rank) == [Severity.NOTE, Severity.WARNING, Severity.CRITICAL]
