"""MPS daemons in trouble: killed, stopped, crashed into, full, gone round, missing. Each is seen, said in words, and mended where it can be."""
import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from adapters.mps_scene import GPU, Scene, a_share, events, mps_scene
from fake_mps.scene import alive
from gpufairy.core.errors import EngineRefused
from waits import until

pytestmark = pytest.mark.slow  # each is quick; all of them are not


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with mps_scene(tmp_path) as made:
        yield made


async def test_a_killed_daemon_is_started_anew_and_its_programs_are_told(scene):
    door = await scene.share()
    program, killed = scene.fake.use(door), scene.fake.daemon_pid(door)
    await scene.turn(a_share())
    scene.fake.kill(killed)
    assert program.hear() == "lost"
    [news] = await scene.turn(a_share("s1"), a_share("s2"))
    assert events([news]) == ["restarted"]
    assert (news.gpu, news.sessions) == (GPU, ("s1", "s2"))
    assert "have lost their CUDA contexts" in news.words
    assert str(program.pid) in news.words
    assert scene.fake.use(door).told == "up 50.0 20G"
    assert scene.status().daemon_pid not in (None, killed)


async def test_a_daemon_killed_while_nobody_watched_is_found_dead_and_started_anew(scene):
    door = await scene.share()
    scene.fake.kill(scene.fake.daemon_pid(door))
    scene.mps = scene.another()
    assert events(await scene.turn(a_share())) == ["restarted"]
    assert scene.fake.use(door).told == "up 50.0 20G"


@pytest.mark.slow
async def test_a_daemon_that_dies_again_and_again_is_waited_for_longer_each_time(scene):
    await scene.turn(a_share())
    starts = []
    for second in range(40):
        scene.fake.kill(scene.status().daemon_pid) if scene.status().daemon_pid else None
        if "restarted" in events(await scene.turn(a_share(), after_s=1.0)):
            starts.append(second)
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert waits == sorted(waits)
    assert len(starts) <= 6
    assert waits[-1] >= 8


async def test_a_killed_server_is_seen_and_another_holds_the_gpu_at_once(scene):
    door = await scene.share()
    program, killed = scene.fake.use(door), scene.server()
    await scene.turn(a_share())
    scene.fake.kill(killed)
    assert program.hear() == "lost"
    [news] = await scene.turn(a_share())
    assert events([news]) == ["server_lost"]
    assert f"process {killed}) died while program {program.pid} used it" in news.words
    assert scene.server() != killed
    assert scene.fake.use(door).told == "up 50.0 20G"


async def test_a_server_that_ended_after_its_programs_is_no_news(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share())
    program.end()
    scene.fake.kill(scene.server())
    assert await scene.turn(a_share()) == []


async def test_a_fault_is_told_once_refuses_newcomers_and_its_end_is_told(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share())
    scene.fake.crash(door)
    [news] = await scene.turn(a_share())
    assert events([news]) == ["fault"]
    assert f"program {program.pid} cannot go on" in news.words
    assert await scene.turn(a_share()) == []
    assert scene.status().servers[0].state == "FAULT"
    assert scene.fake.use(door).told == "807"
    with pytest.raises(EngineRefused, match="is in fault: a program on that GPU crashed") as refused:
        await scene.share()
    assert refused.value.next_step
    program.end()
    assert events(await scene.turn(a_share())) == ["fault_over"]
    assert scene.fake.use(door).told.startswith("up")


async def test_the_limit_of_programs_is_told_before_and_when_it_is_reached(tmp_path):
    with mps_scene(tmp_path) as scene:
        scene.fake.script(most_clients=6)
        scene.mps = scene.another(client_limit=lambda gpu: 6)
        door = await scene.share()
        programs = [scene.fake.use(door) for _ in range(2)]
        assert events(await scene.turn(a_share())) == ["clients_near_limit"]
        programs += [scene.fake.use(door) for _ in range(4)]
        assert events(await scene.turn(a_share())) == ["clients_at_limit"]
        assert scene.fake.use(door).told == "808"
        with pytest.raises(EngineRefused, match=r"6 programs use GPU .* and 6 are the most"):
            await scene.share()
        programs[0].end()
        until(lambda: str(programs[0].pid) not in scene.fake.ask(door, f"get_client_list {scene.server()}"), "a free place")
        assert await scene.share() == door


async def test_a_program_with_a_wrong_pipe_folder_is_named_once_it_is_seen_twice(scene):
    door = await scene.share()
    member, stranger = scene.fake.use(door), scene.fake.use(scene.folder / "nowhere")
    assert stranger.told == "whole"
    seen = (member.pid, stranger.pid, scene.server())
    assert await scene.turn(a_share(), on_gpu=seen) == []
    [news] = await scene.turn(a_share(), on_gpu=seen)
    assert events([news]) == ["went_round"]
    assert f"program {stranger.pid} on GPU" in news.words
    assert "CUDA_MPS_PIPE_DIRECTORY" in news.words
    assert await scene.turn(a_share(), on_gpu=seen) == []
    other = scene.fake.use(scene.folder / "nowhere")
    told = [news for _ in range(3) for news in await scene.turn(a_share(), on_gpu=(*seen, other.pid))]
    assert [news.words.partition(" on GPU")[0] for news in told] == [f"program {other.pid}"]


async def test_caps_that_somebody_changed_are_set_back(scene):
    door = await scene.share()
    await scene.turn(a_share())
    scene.fake.ask(door, "set_default_active_thread_percentage 100")
    scene.fake.ask(door, f"set_device_pinned_mem_limit {scene.server()} 0 90000M")
    assert events(await scene.turn(a_share())) == ["caps_changed"]
    assert scene.fake.use(door).told == "up 50.0 20G"
    assert scene.fake.ask(door, "get_default_active_thread_percentage") == "50.0"
    assert await scene.turn(a_share()) == []


@pytest.mark.slow
async def test_a_silent_daemon_with_programs_is_reported_and_left_alone(scene):
    door = await scene.share()
    scene.fake.use(door)
    await scene.turn(a_share())
    pid = scene.fake.daemon_pid(door)
    os.kill(pid, signal.SIGSTOP)
    [news] = await scene.turn(a_share())
    assert events([news]) == ["silent"]
    assert "Programs that run go on" in news.words
    for _ in range(3):
        assert await scene.turn(a_share(), after_s=100) == []
    assert "no answer for 300 s" in scene.status().trouble
    with pytest.raises(EngineRefused, match="does not answer"):
        await scene.share()
    os.kill(pid, signal.SIGCONT)
    assert events(await scene.turn(a_share())) == ["answers_again"]
    assert (scene.status().daemon_pid, scene.status().trouble) == (pid, "")


@pytest.mark.slow
async def test_a_silent_daemon_that_nobody_uses_is_started_anew(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share())
    pid = scene.fake.daemon_pid(door)
    os.kill(pid, signal.SIGSTOP)
    program.end()
    assert events(await scene.turn(a_share())) == ["silent"]
    assert await scene.turn(a_share()) == []
    assert events(await scene.turn(a_share())) == ["restarted"]
    assert not alive(pid)
    assert scene.fake.use(door).told == "up 50.0 20G"


@pytest.mark.slow
async def test_a_silent_daemon_that_nobody_holds_or_uses_gives_its_gpu_back(scene):
    door = await scene.share()
    await scene.turn(a_share(), after_s=100)
    pid = scene.fake.daemon_pid(door)
    os.kill(pid, signal.SIGSTOP)
    assert await scene.turn() == []
    with pytest.raises(EngineRefused, match="does not answer"):
        await scene.mps.give_up(GPU)
    assert events([*await scene.turn(after_s=61), *await scene.turn(), *await scene.turn()])[-1] == "ended"
    assert not alive(pid)
    await scene.mps.give_up(GPU)
    assert scene.mode.orders[-1] == (GPU, False)


@pytest.mark.slow
async def test_a_silent_daemon_with_programs_that_nobody_holds_is_left_alone(scene):
    door = await scene.share()
    scene.fake.use(door)
    await scene.turn(a_share(), after_s=100)
    os.kill(scene.fake.daemon_pid(door), signal.SIGSTOP)
    told = [news for _ in range(5) for news in await scene.turn(after_s=61)]
    assert events(told) == ["not_ended"]
    assert alive(scene.fake.daemon_pid(door))


@pytest.mark.slow
async def test_a_silent_daemon_with_programs_is_killed_where_the_admin_set_a_limit(scene):
    scene.mps = scene.another(silent_limit_s=30.0)
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share())
    os.kill(scene.fake.daemon_pid(door), signal.SIGSTOP)
    assert events(await scene.turn(a_share())) == ["silent"]
    news = await scene.turn(a_share(), after_s=31)
    assert "restarted" in events(news)
    assert program.hear() == "lost"


@pytest.mark.slow
async def test_a_daemon_that_hung_before_the_server_came_is_started_anew_if_nothing_is_on_the_gpu(scene):
    door = await scene.share()
    pid = scene.fake.daemon_pid(door)
    os.kill(pid, signal.SIGSTOP)
    scene.mps = scene.another()
    told = [news for _ in range(3) for news in await scene.turn(a_share(), on_gpu=())]
    assert events(told) == ["silent", "restarted"]
    assert not alive(pid)
    assert scene.fake.use(door).told == "up 50.0 20G"


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
async def test_a_daemon_that_hung_before_the_server_came_is_left_alone_if_programs_are_or_may_be_on_the_gpu(scene, known):
    door = await scene.share()
    program, pid = scene.fake.use(door), scene.fake.daemon_pid(door)
    os.kill(pid, signal.SIGSTOP)
    scene.mps = scene.another()
    told = [news for _ in range(4) for news in await scene.turn(a_share(), on_gpu=(program.pid,) if known else None)]
    assert events(told) == ["silent"]
    assert alive(pid)


@pytest.mark.slow
async def test_a_daemon_that_hung_before_the_server_came_and_that_nobody_holds_or_uses_gives_its_gpu_back(scene):
    pid = scene.fake.daemon_pid(await scene.share())
    os.kill(pid, signal.SIGSTOP)
    scene.mps = scene.another()
    told = [news for after_s in (0, 61, 1) for news in await scene.turn(after_s=after_s, on_gpu=())]
    assert events(told)[-1] == "ended"
    assert not alive(pid)


async def test_a_gpu_is_closed_to_newcomers_while_a_fault_lasts_and_always_in_the_same_words(scene):
    door = await scene.share()
    program, other = scene.fake.use(door), scene.fake.use(door)
    await scene.turn(a_share())
    assert (scene.status().closed, scene.status().stays) == ("", "")
    scene.fake.crash(door)
    await scene.turn(a_share())
    before = scene.status().closed
    assert "is in fault" in before
    other.end()
    await scene.turn(a_share())
    assert scene.status().closed == before
    program.end()
    await scene.turn(a_share())
    assert scene.status().closed == ""


async def test_a_gpu_is_closed_to_newcomers_while_it_has_all_the_programs_it_takes(scene):
    scene.mps = scene.another(client_limit=lambda gpu: 1)
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share())
    assert scene.status().closed == "1 programs use it by MPS, the most that it takes"
    program.end()
    until(lambda: str(program.pid) not in scene.fake.ask(door, f"get_client_list {scene.server()}"), "a free place")
    await scene.turn(a_share())
    assert scene.status().closed == ""


async def test_a_gpu_is_closed_to_all_while_its_daemon_is_silent(scene):
    await scene.share()
    await scene.turn(a_share())
    scene.fake.script(hangs=True)
    await scene.turn(a_share())
    first = scene.status()
    await scene.turn(a_share(), after_s=5)
    assert (scene.status().closed, scene.status().stays) == (first.closed, first.stays) == ("its MPS daemon does not answer",) * 2
    scene.fake.script()
    await scene.turn(a_share())
    assert (scene.status().closed, scene.status().stays) == ("", "")


async def test_a_gpu_is_closed_to_newcomers_while_a_daemon_that_died_cannot_be_started(scene):
    door = await scene.share()
    await scene.turn(a_share())
    scene.fake.kill(scene.fake.daemon_pid(door))
    scene.fake.script(start_fails="no permission on /dev/nvidiactl")
    await scene.turn(a_share())
    await scene.turn(a_share())
    assert scene.status().closed == "its MPS daemon died, and cannot be started anew"
    scene.fake.script()
    await scene.turn(a_share(), after_s=61)
    assert scene.status().closed == ""


async def test_mps_stays_while_programs_use_it_of_which_nobody_holds_a_share(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(a_share(), after_s=61)
    assert scene.status().stays == ""  # whoever holds it is in nobody's way for a reason that all can see
    await scene.turn()
    assert f"in use by program {program.pid}" in scene.status().stays
    await scene.share()
    assert scene.status().closed == ""
    await scene.turn(a_share())
    assert scene.status().stays == ""


async def test_a_daemon_whose_socket_is_gone_is_silent_and_not_dead(scene):
    door = await scene.share()
    scene.fake.use(door)
    await scene.turn(a_share())
    (scene.fake.inside(door) / "control_privileged").unlink()
    (scene.fake.inside(door) / "control").unlink()
    assert events(await scene.turn(a_share())) == ["silent"]
    assert alive(scene.fake.daemon_pid(door))


async def test_a_control_program_that_hangs_holds_up_nobody_and_is_killed(scene):
    await scene.share()
    scene.fake.script(hangs=True)
    before = sleepers()
    assert events(await scene.turn(a_share())) == ["silent"]
    assert "no answer within 1 s" in scene.status().trouble
    assert sleepers() == before
    scene.fake.script()
    assert events(await scene.turn(a_share())) == ["answers_again"]


def sleepers() -> set[str]:
    """Programs that hang, as the fake one does."""
    return {path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if read(path) == b"sleep\0infinity\0"}


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def test_a_machine_without_the_program_says_what_to_install(scene):
    scene.mps = scene.another(program="nvidia-cuda-mps-nowhere")
    with pytest.raises(EngineRefused, match="nvidia-cuda-mps-nowhere cannot be run on this machine") as refused:
        await scene.share()
    assert "nvidia-compute-utils" in refused.value.next_step
    [news] = await scene.turn(a_share())
    assert events([news]) == ["not_restarted"]
    assert await scene.turn(a_share()) == []


async def test_a_daemon_that_cannot_start_gives_its_own_words(scene):
    scene.fake.script(start_fails="no permission on /dev/nvidiactl")
    with pytest.raises(EngineRefused, match="cannot be started: code 1, 'no permission on /dev/nvidiactl'"):
        await scene.share()
    scene.fake.script()
    assert await scene.share()


async def test_a_daemon_that_dies_at_once_is_said_not_to_answer(scene):
    scene.fake.script(dies_at_once=True)
    with pytest.raises(EngineRefused, match="cannot be started: it does not answer"):
        await scene.share()


async def test_a_folder_that_cannot_be_written_stops_before_anything_is_changed(scene):
    scene.folder.write_text("")
    with pytest.raises(EngineRefused, match="cannot be made or written"):
        await scene.share()
    assert scene.mode.orders == []
