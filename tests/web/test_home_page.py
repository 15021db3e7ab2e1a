"""The first page, as its views make it: what I hold and use, what waits and why, warnings with a way to keep, what to start again."""
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from builders import GIB, NOW, a_gpu_seat, a_node, a_seat, a_session
from gpufairy.control.notices import About
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, GpuReading
from gpufairy.core.session import IdleStep
from gpufairy.core.share import PARTS
from gpufairy.web.home import home
from gpufairy.web.home_use import meters
from gpufairy.web.home_warnings import warnings_of
from gpufairy.web.pages import show

ROOM = {"cpus": "0.1", "memory": "1GiB"}


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ")


def drawn(seen):
    return plain(show("home.html", user=ANN.name, refresh_s=5, home=seen, fairy="fairy").body.decode())


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


async def test_an_empty_page_teaches_how_to_start(scene):
    seen = await home(scene.house, "ann")
    assert seen.answer == "You hold nothing, and nothing of yours waits."
    assert 'href="/new"' in drawn(seen)
    assert "fairy run --gpus 0.5" in drawn(seen)


async def test_it_says_what_i_hold_and_what_waits_with_a_range_and_what_would_help(scene):
    await scene.submit(name="holds", gpus="1", time="1h", **ROOM)
    await scene.submit(name="part", gpus="0.5", time="1h", **ROOM)
    await scene.rest()
    await scene.submit(name="waits", gpus="2", **ROOM)
    await scene.rest()
    seen = await home(scene.house, "ann")
    assert plain(seen.answer).startswith("You hold 1.5 GPUs in 2 sessions. 1 session waits: the first about 1 h more.")
    assert [row.name for row in seen.held] == ["holds", "part"]
    (waiter,) = seen.waiters
    assert "place 1 in line" in waiter.when
    assert waiter.when.startswith("Starts about")
    assert any("--gpus 0.5" in way for way in waiter.helps)
    assert all(words in drawn(seen) for words in ("0 of 2 GPUs wholly free", "holds", "waits"))


async def test_what_i_started_last_and_is_over_can_be_started_again_unless_its_name_is_in_use(scene):
    for name in ("first", "second"):
        session = await scene.submit(name=name, gpus="0", **ROOM)
        await scene.stop(session)
        await scene.rest()
    assert (await home(scene.house, "ann")).again.name == "second"
    await scene.submit(name="second", gpus="0", **ROOM)
    assert (await home(scene.house, "ann")).again.name == "first"
    assert "Start first again" in drawn(await home(scene.house, "ann"))
    assert (await home(scene.house, "bea")).again is None


async def test_with_many_gpus_only_those_beside_mine_are_drawn(tmp_path):
    async with a_house(tmp_path, node=a_node(gpus=40)) as scene:
        seen = await home(scene.house, "ann")
        assert (seen.hosts, seen.hidden_gpus) == ((), 40)
        assert 'href="/cluster"' in drawn(seen)


async def test_an_idle_session_and_one_that_ends_soon_can_be_kept_from_here(scene):
    idle = a_session("x", phase=Phase.RUNNING, idle_step=IdleStep.WARNED, why="idle for 1 h", started_at=NOW)
    (warning,) = warnings_of(scene.house, idle, NOW)
    assert (warning.detail, warning.keep) == ("idle for 1 h", "2h")
    await scene.submit(name="short", gpus="0", time="10m", **ROOM)
    await scene.rest()
    seen = await home(scene.house, "ann")
    assert "short ends at" in seen.warnings[0].title
    assert 'action="/sessions/short/keep"' in drawn(seen)


async def test_what_is_asked_of_a_session_is_told_as_it_is_in_its_terminals(scene):
    session = await scene.submit(name="guest", gpus="0", **ROOM)
    await scene.rest()
    scene.house.notices.tell(session.id, About.PREEMPTION, "makes room in 30 s <b>")
    assert "makes room in 30 s &lt;b&gt;" in drawn(await home(scene.house, "ann"))


def a_sample(session_id, **of_process):
    seen = GpuProcess(7, "GPU-simulated-0", **of_process)
    process = ProcessReading(seen, RunningProcess(7, 1, 1000, "x"), Owner(session_id=session_id, known_by=KnownBy.SESSION))
    reading = GpuReading("GPU-simulated-0", NOW, utilisation=0.9, memory_used_bytes=30 * GIB)
    return {"here": NodeSample("here", NOW, 1.0, readings=(reading,), processes=(process,), sessions=(SessionReading(session_id, 0.25, GIB // 2),))}


def shown(session, samples):
    return {meter.label: (plain(meter.words), meter.part) for meter in meters(session, samples)}


def test_a_whole_gpu_is_read_as_it_is_and_a_part_by_its_own_programs():
    whole = a_session("x", seat=a_seat("here", a_gpu_seat(0)))
    part = a_session("x", seat=a_seat("here", a_gpu_seat(0, PARTS // 2)))
    assert shown(whole, a_sample(whole.id))["GPU"] == ("90 %", 90.0)
    assert shown(whole, a_sample(whole.id))["GPU memory"][1] == 75.0
    used = shown(part, a_sample(part.id, utilisation=0.25, memory_bytes=5 * GIB))
    assert (used["GPU"], used["GPU memory"][1]) == (("50 %", 50.0), 25.0)
    assert used["GPU memory"][0].endswith(" / 20 GiB")
    assert used["CPUs"] == ("0.25 / 0.5", 50.0)


def test_what_nobody_can_tell_is_not_said_to_be_nothing():
    part = a_session("x", seat=a_seat("here", a_gpu_seat(0, PARTS // 2)))
    assert shown(part, a_sample(part.id))["GPU"] == ("not known", None)
    assert shown(part, {})["GPU memory"] == ("20 GiB", None)
    assert shown(part, {})["Memory"] == ("1 GiB", None)


async def test_the_last_page_of_many_sessions_says_how_many_more_there_are(scene):
    await scene.submit(gpus="0", count=60, name="many", time="1h", **ROOM)
    scene.clock.go_on(timedelta(seconds=2))
    seen = await home(scene.house, "ann")
    assert len(seen.held) + len(seen.waiters) + seen.more == 60
    assert seen.more == 10
