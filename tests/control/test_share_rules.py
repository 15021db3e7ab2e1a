"""Shares in the house: rules and tests are kept, change what is offered at once, and a session over its share is told and stopped."""
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import a_house

from builders import NOW
from gpufairy.api.context import Context
from gpufairy.api.shapes import moment
from gpufairy.api.shares import mps_shape, shares_shape
from gpufairy.control.links import SignInLinks
from gpufairy.control.over_share import ShareWatch
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess
from gpufairy.core.session import Outcome
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SM, Attempt, IsolationTest, ShareRule, Verdict
from gpufairy.devices.mps_values import Caps, MpsStatus
from gpufairy.wire.shares import ShareBody

GIB = 2**30


async def looked(scene):
    await scene.house.look_at_nodes()
    return scene.house.nodes[0].gpus[0]


async def test_a_rule_is_kept_over_a_restart_and_what_it_leaves_open_stays(tmp_path):
    async with a_house(tmp_path) as scene:
        await scene.house.shares.set(ShareRule("*", 5 * PARTS), scene.house.found_nodes(), [])
        await scene.house.shares.set(ShareRule("*", sharing=Sharing.TIME), scene.house.found_nodes(), [])
    async with a_house(tmp_path) as scene:
        gpu = await looked(scene)
        assert (gpu.fgpu_parts, gpu.sharing) == (5 * PARTS, Sharing.TIME)
        await scene.house.shares.clear("*", scene.house.found_nodes(), [])
        assert (await looked(scene)).fgpu_parts == PARTS


def test_a_broken_number_of_fgpu_is_what_was_written():
    assert [ShareBody(fgpu=fgpu).to_rule().fgpu_parts for fgpu in (8.2, 0.01, 5)] == [8_200_000, 10_000, 5_000_000]


async def test_a_rule_for_what_is_not_there_is_refused_with_the_nearest(tmp_path):
    async with a_house(tmp_path) as scene:
        with pytest.raises(NoSuchThing, match="did you mean A100-40GB"):
            await scene.house.shares.set(ShareRule("A100-40G", 2 * PARTS), scene.house.found_nodes(), [])
        with pytest.raises(NoSuchThing, match="no rule"):
            await scene.house.shares.clear("*", scene.house.found_nodes(), [])


async def test_how_a_gpu_is_shared_is_not_changed_under_those_who_are_on_it_but_how_many_fgpu_it_is_may_be(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        session = await scene.submit(gpus="0.5")
        await scene.rest()
        shares, nodes = scene.house.shares, scene.house.found_nodes()
        with pytest.raises(Conflict, match="sessions of ann are on GPUs"):
            await shares.set(ShareRule("*", sharing=Sharing.TIME), nodes, scene.house.book.holding())
        await shares.set(ShareRule("*", 5 * PARTS), nodes, scene.house.book.holding())
        await scene.stop(session)
        await scene.rest()
        await shares.set(ShareRule("*", sharing=Sharing.TIME), nodes, scene.house.book.holding())


async def test_what_a_test_found_is_kept_and_told_by_seats(tmp_path):
    attempts = (Attempt("cuMemAlloc", MEMORY, Verdict.ENFORCED, "20 of 20 GiB"), Attempt("%smid", SM, Verdict.FAILED, "132 of 66"))
    async with a_house(tmp_path) as scene:
        real = replace(scene.house.nodes[0].gpus[0], simulated=False)
        await scene.house.shares.tested(IsolationTest("here", real.uuid, Sharing.MPS, NOW, attempts, "580.1"))
    async with a_house(tmp_path) as scene:
        assert scene.house.shares.tests()[0].attempts == attempts
        node = replace(scene.house.nodes[0], gpus=(real,))
        assert scene.house.shares.applied(node).gpus[0].held_to == (MEMORY,)


def greedy(scene, session, gib, utilisation=None):
    """What the host tells: a process of that session with so much memory."""
    gpu = session.seat.gpus[0].uuid
    owner = Owner(session.owner, KnownBy.SESSION, session.id, session.name)
    on = ProcessReading(GpuProcess(7, gpu, gib * GIB, utilisation), RunningProcess(7, 1, 1000, "python"), owner)
    scene.house.watch.take(NodeSample("here", scene.clock(), 1.0, processes=(on,)), own=True)


async def two_real_halves(scene, **fields):
    first, second = await scene.submit(gpus="0.5"), await scene.submit(gpus="0.5")
    await scene.rest()
    for session in (first, second):
        live = await scene.now(session)
        seat = replace(live.seat, gpus=(replace(live.seat.gpus[0], simulated=False, **fields),))
        scene.house.book.put(replace(live, seat=seat))
    return await scene.now(first), await scene.now(second)


async def look_for(scene, watch, session, gib, seconds, utilisation=None):
    for _ in range(seconds):
        greedy(scene, session, gib, utilisation)
        await watch.look()
        scene.clock.go_on(timedelta(seconds=1))


async def whys(scene, session):
    events = await scene.house.store.events.page(owner=None, session_id=session.id, after=0, limit=100)
    return {event.what: event.why for event in events}


async def test_a_session_over_its_share_is_told_then_stopped_and_its_neighbour_told_why(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        greedy_one, neighbour = await two_real_halves(scene)
        watch = ShareWatch(scene.house, timedelta(seconds=30))
        await look_for(scene, watch, greedy_one, 25, 5)
        assert "it holds 25 GiB of GPU memory, its share is 20 GiB" in (await whys(scene, greedy_one))["over_share"]
        assert (await scene.now(greedy_one)).wanted == "run"
        await look_for(scene, watch, greedy_one, 25, 31)
        await scene.rest()
        ended = await scene.now(greedy_one)
        assert ended.outcome is Outcome.EVICTED
        assert "more of its GPU than its share" in ended.why
        assert "a neighbour on your GPU" in (await whys(scene, neighbour))["neighbour_over_share"]
        assert (await scene.now(neighbour)).state == "RUNNING"


async def test_with_over_share_off_a_session_is_told_and_goes_on(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        greedy_one, _ = await two_real_halves(scene)
        await look_for(scene, ShareWatch(scene.house, None), greedy_one, 25, 100)
        assert "over_share" in await whys(scene, greedy_one)
        assert (await scene.now(greedy_one)).state == "RUNNING"


async def test_one_sample_is_one_look_however_often_it_is_looked_at(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        greedy_one, _ = await two_real_halves(scene)
        watch = ShareWatch(scene.house, timedelta(seconds=30))
        greedy(scene, greedy_one, 25)
        for _ in range(60):
            await watch.look()
            scene.clock.go_on(timedelta(seconds=1))
        assert "over_share" not in await whys(scene, greedy_one)
        await look_for(scene, watch, greedy_one, 25, 2)
        assert "over_share" in await whys(scene, greedy_one)
        assert (await scene.now(greedy_one)).wanted == "run"


async def test_of_two_excesses_at_once_each_is_told(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        greedy_one, _ = await two_real_halves(scene, sharing=Sharing.TIME)
        await look_for(scene, ShareWatch(scene.house, None), greedy_one, 25, 3, utilisation=0.9)
        events = await scene.house.store.events.page(owner=None, session_id=greedy_one.id, after=0, limit=100)
        assert sorted(event.why[:8] for event in events if event.what == "over_share") == ["it holds", "it takes"]


async def test_what_mps_does_on_a_gpu_is_told_with_it_and_where_none_runs_nothing(tmp_path):
    since = NOW.replace(microsecond=0)
    runs = MpsStatus("GPU-0", "/pipe", 77, (), (5, 6), 48, Caps(50, 20 * GIB), since, False, "")
    broken = replace(runs, daemon_pid=None, clients=(), caps=None, since=None, trouble="it does not start")
    assert mps_shape(replace(broken, trouble="")) is None
    assert mps_shape(broken) == {"daemon_pid": None, "clients": 0, "client_limit": 48, "caps": None, "since": None, "trouble": "it does not start"}
    async with a_house(tmp_path) as scene:
        own = replace(runs, gpu=scene.house.nodes[0].gpus[1].uuid)
        without, with_it = shares_shape(a_context(scene))["items"], shares_shape(a_context(scene, own))["items"]
        assert [gpu["mps"] for gpu in without] == [None, None]
        assert [gpu["mps"] for gpu in with_it] == [
            None,
            {"daemon_pid": 77, "clients": 2, "client_limit": 48, "caps": {"sm_percent": 50, "memory_bytes": 20 * GIB}, "since": moment(since), "trouble": None},
        ]


def a_context(scene, *daemons):
    return Context(scene.house, SignInLinks(scene.clock), "http://server", **({"mps": lambda: daemons} if daemons else {}))
