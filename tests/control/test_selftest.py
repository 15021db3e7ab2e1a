"""The isolation self-test over a whole house: two sessions on an idle GPU, entered by the engine's own door, ended in every case."""
import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest
from house_scene import a_house

from builders import GIB, NOW, a_gpu, a_node, a_session
from gpufairy.api.selftests import told
from gpufairy.control.clock import HeldClock
from gpufairy.control.selftest import IDLE_LIMIT, SETTLING, IsolationSelftest, NotTested
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.isolation import overall
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess
from gpufairy.core.share import parse_share
from gpufairy.core.sharing import IsolationTest
from gpufairy.engines.fake import FakeStream

pytestmark = pytest.mark.slow

FACTS = {"facts": {"driver": "580.159.04", "whole_sms": 108, "instance_sms": None}}
HELD = [
    {"way": "cuMemAlloc", "of": "memory", "got_bytes": 19 * GIB},
    {"way": "multiprocessors used", "of": "sm", "sms": 54},
    {"way": "another GPU's device file", "of": "devices", "reached": [], "words": "none"},
]
DONE = {"done": True}
TURN_S = 0.01  # between two rounds of the loops
UUIDS = ("GPU-real-0", "GPU-real-1")


def lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


class Probes:
    """Stands in for what runs inside: what each command prints, and which were run, by session and option."""

    def __init__(self, scene, tried=HELD, own_bytes=19 * GIB, ends=(DONE,)):
        self.scene, self.tried, self.own_bytes, self.ends = scene, tried, own_bytes, ends
        self.opened = []
        scene.house.engine.open = self.open

    async def open(self, workload, command):
        box = self.scene.containers.running[workload]
        words = command.argv
        option = next((word for word in ("--hold", "--own-share") if word in words), "")
        self.opened.append((box.session.name[-1], option))
        self.words = words
        if option == "--hold":
            return FakeStream(lines({"held_bytes": int(words[words.index(option) + 1]), "error": ""}), None, box, self.scene.containers)
        if option == "--own-share":
            own = {"way": "its own share", "of": "memory", "got_bytes": self.own_bytes}
            return FakeStream(lines(own, DONE), 0, box, self.scene.containers)
        return FakeStream(lines(FACTS, *self.tried, *self.ends), 0 if self.ends else None, box, self.scene.containers)


@asynccontextmanager
async def real_house(folder, containers=None, clock=None, **fields):
    async with a_house(folder, containers, clock) as scene:
        gpus = tuple(a_gpu(number, uuid=uuid, simulated=False, sharing=Sharing.MPS, **fields) for number, uuid in enumerate(UUIDS))
        scene.house.engine._nodes = (replace(a_node(cpus_milli=16_000, memory_bytes=64 * GIB), gpus=gpus),)
        await scene.house.look_at_nodes()
        nobody_on(scene)
        scene.admin = await scene.house.registry.ensure_admin("boss")
        yield scene


def nobody_on(scene, **fields):
    """As the host tells it."""
    devices = tuple(GpuDevice(uuid, str(number), number, "A100-40GB", 40 * GIB) for number, uuid in enumerate(UUIDS))
    scene.house.watch.take(replace(NodeSample("here", scene.clock(), 1.0, devices=devices), **fields), own=True)


async def finished(scene, task):
    """The loops go on until it is done."""
    while not task.done():
        await scene.rest()
        await asyncio.wait([task], timeout=TURN_S)
    return task.result()


async def self_test(scene, wanted=None, **settings):
    news = []
    selftest = IsolationSelftest(scene.house, **settings)
    return await finished(scene, selftest.begin(scene.admin, wanted, news.append)), news


async def ends_all(scene):
    await scene.rest()
    assert not scene.containers.alive()
    assert not list(scene.house.book)


async def test_both_sessions_try_everything_and_what_was_found_is_written_down(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        found, news = await self_test(scene, [UUIDS[0]])
        assert [(test.gpu, test.sharing, test.driver) for test in found] == [(UUIDS[0], "mps", "580.159.04")]
        assert [overall(found[0], what) for what in ("memory", "sm", "devices")] == ["enforced"] * 3
        assert {attempt.way for attempt in found[0].attempts} == {"cuMemAlloc", "multiprocessors used", "another GPU's device file", "its own share"}
        assert probes.opened == [
            ("b", "--hold"), ("a", ""), ("a", "--hold"), ("b", ""), ("b", "--hold"), ("a", "--own-share"), ("a", "--hold"), ("b", "--own-share"),
        ]  # fmt: skip
        assert scene.house.shares.tests() == found
        assert scene.house.nodes[0].gpus[0].held_to == ("memory", "sm")
        assert scene.house.nodes[0].gpus[1].held_to == ()
        assert any("cuMemAlloc" in str(line) for line in news)
        await ends_all(scene)


async def test_the_sessions_are_halves_of_that_very_gpu_and_the_probe_is_told_of_the_others(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        await self_test(scene, [UUIDS[1]])
        seats = [box.session.seat.gpus[0] for box in scene.containers.running.values()]
        assert [(seat.uuid, seat.parts, seat.memory_bytes) for seat in seats] == [(UUIDS[1], 500_000, 20 * GIB)] * 2
        assert all(box.session.name.startswith("selftest-") and box.session.owner == "boss" for box in scene.containers.running.values())
        assert [probes.words[number + 1] for number, word in enumerate(probes.words) if word == "--other"] == [UUIDS[0]]
        assert probes.words[probes.words.index("--memory-bytes") + 1] == str(20 * GIB)


async def test_an_escape_is_failed_with_mps_and_accounted_where_gpus_are_shared_in_turns(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene, [{"way": "cuMemCreate", "of": "memory", "got_bytes": 39 * GIB}])
        found, _ = await self_test(scene, [UUIDS[0]])
        assert overall(found[0], "memory") == "failed"
        assert scene.house.nodes[0].gpus[0].held_to == ()
        node = scene.house.engine._nodes[0]
        scene.house.engine._nodes = (replace(node, gpus=tuple(replace(gpu, sharing=Sharing.TIME) for gpu in node.gpus)),)
        await scene.house.look_at_nodes()
        found, _ = await self_test(scene, [UUIDS[0]])
        assert [(attempt.way, attempt.verdict) for attempt in found[0].attempts] == [("cuMemCreate", "accounted"), ("its own share", "enforced")]
        assert len(scene.house.shares.tests()) == 2


async def test_a_share_that_cannot_be_had_beside_the_neighbour_is_a_failure(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene, own_bytes=3 * GIB)
        found, _ = await self_test(scene, [UUIDS[0]])
        assert next(attempt for attempt in found[0].attempts if attempt.way == "its own share").found == "only 3 GiB of its 20 GiB could be had"


async def test_a_busy_gpu_is_left_alone_and_nothing_is_written(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene)
        await scene.submit(gpus="0.25")
        await scene.rest()
        found, _ = await self_test(scene)
        by_gpu = {one.gpu: one for one in found}
        assert by_gpu[UUIDS[0]] == NotTested("here", UUIDS[0], "untried: sessions are on it", busy=True)
        assert isinstance(by_gpu[UUIDS[1]], IsolationTest)
        assert [test.gpu for test in scene.house.shares.tests()] == [UUIDS[1]]


@pytest.mark.parametrize(
    ("tried", "ends", "why"),
    [
        ([{"error": "there is no libcuda.so.1 in the session"}], (DONE,), "no libcuda"),
        (HELD, ({"way": "half"},), "cut short"),
        ([{"way": "x", "of": "memory", "got_bytes": "lots"}], (DONE,), "lots"),
        (["no record"], (DONE,), "no record"),
    ],
)
async def test_a_probe_that_fails_leaves_nothing_behind(tmp_path, tried, ends, why):
    async with real_house(tmp_path) as scene:
        Probes(scene, tried, ends=ends)
        found, _ = await self_test(scene, [UUIDS[0]])
        assert isinstance(found[0], NotTested)
        assert why in found[0].why
        assert scene.house.shares.tests() == []
        await ends_all(scene)


async def test_sessions_that_do_not_start_are_ended_and_said(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene)
        scene.containers.refuse_next = ["no such image"] * 20
        selftest = IsolationSelftest(scene.house)
        task = selftest.begin(scene.admin, [UUIDS[0]], lambda news: None)
        while not task.done():
            await scene.later(timedelta(minutes=1))
            await asyncio.wait([task], timeout=TURN_S)
        assert "did not start" in task.result()[0].why
        await ends_all(scene)


async def test_one_that_is_cancelled_ends_its_sessions(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene, ends=())  # the probe in it never ends
        selftest = IsolationSelftest(scene.house)
        heard = asyncio.Event()
        task = selftest.begin(scene.admin, [UUIDS[0]], lambda news: heard.set() if "device file" in str(news) else None)
        while not heard.is_set():
            await scene.rest()
            await asyncio.wait([task], timeout=TURN_S)
        with pytest.raises(Conflict, match="under way"):
            selftest.begin(scene.admin, None, lambda news: None)
        assert len(scene.containers.alive()) == 2
        scene.house.bells.leave()
        await selftest.close()
        assert task.cancelled()
        await ends_all(scene)


async def test_a_restarted_server_ends_what_a_killed_one_left_and_nothing_else(tmp_path):
    async with real_house(tmp_path) as scene:
        leftover = a_session("sleep", seat=None, owner="boss")
        leftover = replace(leftover, request=replace(leftover.request, share=parse_share("0.5"), cpus_milli=1000, memory_bytes=GIB, on_gpu=UUIDS[0]))
        await scene.house.add([leftover], [], None)
        other = await scene.submit(name="selftest-of-mine", gpus="0.25")
        await scene.rest()
        assert len(scene.containers.alive()) == 2
    async with real_house(tmp_path, scene.containers) as scene:
        await IsolationSelftest(scene.house).end_leftovers()
        await scene.rest()
        assert (await scene.now(leftover)).why == "left over from a self-test that was cut short"
        assert (await scene.now(leftover)).phase is Phase.ENDED
        assert (await scene.now(other)).phase is Phase.RUNNING


async def test_what_cannot_be_tested_is_refused_in_words(tmp_path):
    async with a_house(tmp_path) as scene:
        scene.admin = await scene.house.registry.ensure_admin("boss")
        simulated = scene.house.nodes[0].gpus[0].uuid
        assert await self_test(scene) == ([], [])
        with pytest.raises(Conflict, match="simulated: there is nothing to test"):
            await self_test(scene, [simulated])
        with pytest.raises(NoSuchThing, match="no GPU 'GPU-x'"):
            await self_test(scene, ["GPU-x"])
    (tmp_path / "other").mkdir()
    async with real_house(tmp_path / "other") as scene:
        with pytest.raises(Conflict, match="nothing holds them to a share"):
            await self_test(scene, python=None)


async def look(scene, selftest):
    await finished(scene, asyncio.ensure_future(selftest.look()))


async def test_new_gpus_are_tested_by_themselves_and_then_each_night(tmp_path):
    clock = HeldClock(NOW)
    async with real_house(tmp_path, clock=clock) as scene:
        probes = Probes(scene)
        selftest = IsolationSelftest(scene.house, nightly=time(3), here=lambda now: now.astimezone(UTC))
        await look(scene, selftest)
        assert not probes.opened
        clock.go_on(SETTLING)
        await look(scene, selftest)
        assert {test.gpu for test in scene.house.shares.tests()} == set(UUIDS)
        count = len(probes.opened)
        await look(scene, selftest)
        assert len(probes.opened) == count
        clock.go_on(datetime(2026, 11, 16, 3, 5, tzinfo=UTC) - clock())
        await look(scene, selftest)
        assert len(probes.opened) == 2 * count
        assert all(test.at == clock() for test in scene.house.shares.tests())


async def test_a_server_that_has_just_begun_waits_until_it_has_seen_who_is_on_its_gpus(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene)
        scene.house.watch.forget("here")
        task = IsolationSelftest(scene.house).begin(scene.admin, [UUIDS[0]], lambda news: None)
        await scene.rest()
        assert not list(scene.house.book)
        nobody_on(scene)
        assert isinstance((await finished(scene, task))[0], IsolationTest)


def one_that_dies(uuid):
    """A process of a session that has ended: nobody's any more, and not gone yet."""
    return ProcessReading(GpuProcess(7, uuid, 11 * GIB), RunningProcess(7, 1, 1000, "python"), Owner())


async def begun_while_busy(scene, news):
    nobody_on(scene, processes=(one_that_dies(UUIDS[0]),))
    task = IsolationSelftest(scene.house).begin(scene.admin, [UUIDS[0]], news.append)
    while not any("waiting" in str(line) for line in news):
        await asyncio.wait([task], timeout=TURN_S)
    return task


async def test_a_program_that_has_just_ended_is_waited_for_and_that_is_said_once(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene)
        news = []
        task = await begun_while_busy(scene, news)
        scene.clock.go_on(IDLE_LIMIT - timedelta(seconds=1))
        assert not list(scene.house.book)
        nobody_on(scene)
        assert isinstance((await finished(scene, task))[0], IsolationTest)
        assert [line for line in news if "waiting" in str(line)] == ["waiting until GPU 0 is idle: somebody unknown has 11 GiB on it"]


async def test_one_that_stays_is_somebodys_and_its_gpu_is_left_alone(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        task = await begun_while_busy(scene, [])
        scene.clock.go_on(IDLE_LIMIT)
        assert await finished(scene, task) == [NotTested("here", UUIDS[0], "untried: somebody unknown has 11 GiB on it", busy=True)]
        assert probes.opened == []


async def test_the_test_that_comes_by_itself_waits_for_nobody(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        selftest = IsolationSelftest(scene.house, here=lambda now: now)
        scene.clock.go_on(SETTLING)
        nobody_on(scene, processes=tuple(map(one_that_dies, UUIDS)))
        await look(scene, selftest)
        assert probes.opened == []


async def test_nothing_is_started_on_a_gpu_whose_driver_does_not_say_who_is_on_it(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        nobody_on(scene, gpus_known=False)
        found, _ = await self_test(scene, [UUIDS[0]])
        assert found == [NotTested("here", UUIDS[0], "untried: its driver does not answer", busy=True)]
        assert probes.opened == []


async def test_a_busy_one_is_looked_at_again_soon_and_a_broken_one_the_next_night(tmp_path):
    async with real_house(tmp_path) as scene:
        probes = Probes(scene)
        busy = await scene.submit(gpus="1")
        await scene.rest()
        selftest = IsolationSelftest(scene.house, here=lambda now: now)
        scene.clock.go_on(SETTLING)
        await look(scene, selftest)
        assert [test.gpu for test in scene.house.shares.tests()] == [UUIDS[1]]
        await scene.stop(busy)
        await scene.rest()
        count = len(probes.opened)
        await look(scene, selftest)
        assert len(probes.opened) == count
        scene.clock.go_on(timedelta(minutes=11))
        probes.tried = [{"error": "no CUDA"}]
        await look(scene, selftest)
        assert len(probes.opened) > count
        count = len(probes.opened)
        scene.clock.go_on(timedelta(minutes=11))
        await look(scene, selftest)
        assert len(probes.opened) == count
        scene.clock.go_on(timedelta(hours=23))
        await look(scene, selftest)
        assert len(probes.opened) > count


async def test_the_api_tells_each_step_and_then_that_it_is_done(tmp_path):
    async with real_house(tmp_path) as scene:
        Probes(scene)
        news = asyncio.Queue()
        task = IsolationSelftest(scene.house).begin(scene.admin, [UUIDS[0]], news.put_nowait)
        task.add_done_callback(lambda _: news.put_nowait(None))
        await finished(scene, task)
        said = [json.loads(line) async for line in told(news, task)]
        assert said[-1] == {"done": True}
        test = next(line["test"] for line in said if "test" in line)
        assert (test["node"], test["gpu"], test["sharing"], test["memory"], test["sm"], test["devices"]) == ("here", UUIDS[0], "mps", "enforced", "enforced", "enforced")
        assert {"way": "cuMemAlloc", "of": "memory", "verdict": "enforced", "found": "refused after 19 GiB of a share of 20 GiB"} in test["attempts"]
