"""MPS daemons as they should be: started on first need, found again, capped by the largest share, ended when nobody is left."""
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.mps_scene import GIB, GPU, NOW, OTHER, Scene, a_share, events, mps_scene
from fake_mps.scene import alive
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.devices.mps_folder import MOST_SOCKET_BYTES, make_folder, pipe_folder
from waits import until

pytestmark = pytest.mark.slow  # each is quick; all of them are not


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with mps_scene(tmp_path) as made:
        yield made


async def test_the_first_share_starts_a_daemon_with_a_server_and_caps(scene):
    door = await scene.share(sm_percent=25, gib=10)
    program = scene.fake.use(door)
    assert program.told == "up 25.0 10G"
    status = scene.status()
    assert status.daemon_pid == scene.fake.daemon_pid(door)
    assert [server.state for server in status.servers] == ["ACTIVE"]
    assert (status.since, status.trouble, status.one_user_at_a_time) == (NOW, "", False)


async def test_the_daemon_sees_one_gpu_and_nothing_of_our_environment(scene, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    pid = scene.fake.daemon_pid(await scene.share())
    told = environment_of(pid)
    assert told["CUDA_VISIBLE_DEVICES"] == GPU
    assert "LD_PRELOAD" not in told
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def environment_of(pid: int) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in entry)


async def test_the_caps_are_those_of_the_largest_share(scene):
    door = await scene.share(sm_percent=25, gib=10)
    await scene.share(sm_percent=75, gib=5)
    assert scene.fake.use(door).told == "up 75.0 10G"
    small, large = a_share("small", 25, 10), a_share("large", 75, 5)
    await scene.turn(small, large, after_s=100)
    assert scene.fake.use(door).told == "up 75.0 10G"
    await scene.turn(small)
    assert scene.fake.use(door).told == "up 25.0 10G"
    assert scene.fake.ask(door, "get_default_active_thread_percentage") == "25.0"
    assert scene.status().caps.memory_bytes == 10 * GIB


async def test_a_promised_share_counts_before_its_session_is_held(scene):
    await scene.share(sm_percent=75)
    await scene.turn(a_share(sm_percent=25))
    assert scene.status().caps.sm_percent == 75
    await scene.turn(a_share(sm_percent=25), after_s=61)
    assert scene.status().caps.sm_percent == 25


async def test_a_started_anew_server_finds_the_same_daemon(scene):
    door = await scene.share(sm_percent=75)
    program, pid = scene.fake.use(door), scene.fake.daemon_pid(door)
    await scene.mps.close()
    assert alive(pid)
    scene.mps = scene.another()
    assert await scene.turn(a_share(sm_percent=75)) == []
    status = scene.status()
    assert (status.daemon_pid, status.clients, status.since) == (pid, (program.pid,), NOW)


async def test_a_new_small_share_leaves_an_adopted_daemon_at_its_larger_caps(scene):
    door = await scene.share(sm_percent=75, gib=40)
    scene.mps = scene.another()
    await scene.share(sm_percent=25, gib=10)
    assert scene.fake.use(door).told == "up 75.0 41G"  # a little more until it is known who holds what
    await scene.turn(a_share(sm_percent=75, gib=40))
    assert scene.fake.use(door).told == "up 75.0 40G"


async def test_a_daemon_is_found_again_by_its_folder_when_the_note_is_half(scene):
    pid = scene.fake.daemon_pid(await scene.share())
    (scene.folder / GPU / "daemon.json").write_text('{"gpu": "GPU-1')
    scene.mps = scene.another()
    await scene.turn(a_share())
    assert scene.status().daemon_pid == pid


async def test_two_gpus_have_two_daemons(scene):
    first, second = await scene.share(GPU), await scene.share(OTHER, sm_percent=10)
    assert scene.fake.daemon_pid(first) != scene.fake.daemon_pid(second)
    assert scene.fake.use(first).told.startswith("up 50.0")
    assert scene.fake.use(second).told.startswith("up 10.0")
    assert {status.gpu for status in scene.mps.status()} == {GPU, OTHER}


async def test_a_daemon_ends_a_while_after_the_last_share(scene):
    pid = scene.fake.daemon_pid(await scene.share())
    await scene.turn(a_share(), after_s=100)
    assert await scene.turn() == []
    assert await scene.turn(after_s=59) == []
    assert events(await scene.turn(after_s=2)) == ["ended"]
    assert not alive(pid)
    assert scene.mps.status() == []
    assert scene.mode.orders == [(GPU, True), (GPU, False)]


async def test_a_daemon_with_programs_is_never_ended(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(after_s=100)
    assert events(await scene.turn(after_s=61)) == ["still_used"]
    assert events(await scene.turn(after_s=1000)) == []
    assert alive(scene.fake.daemon_pid(door))
    program.end()
    assert events(await scene.turn()) == ["ended"]


async def test_a_new_share_within_the_grace_keeps_the_daemon(scene):
    pid = scene.fake.daemon_pid(await scene.share())
    await scene.turn(after_s=100)
    await scene.turn(a_share(), after_s=50)
    assert await scene.turn(after_s=50) == []
    assert alive(pid)


async def test_a_gpu_is_given_up_at_once_for_a_session_that_takes_it_whole(scene):
    door = await scene.share()
    program = scene.fake.use(door)
    await scene.turn(after_s=61)
    with pytest.raises(EngineRefused, match=f"in use by program {program.pid}"):
        await scene.mps.give_up(GPU)
    program.end()
    until(lambda: str(program.pid) not in scene.fake.ask(door, f"get_client_list {scene.server()}"), "the program to be forgotten")
    await scene.mps.give_up(GPU)
    assert not (scene.fake.inside(door) / "nvidia-cuda-mps-control.pid").exists()
    assert scene.mode.orders[-1] == (GPU, False)
    await scene.mps.give_up(OTHER)


async def test_a_daemon_without_multiuser_is_started_the_old_way_and_says_so(scene):
    scene.fake.script(knows_multiuser=False)
    door = await scene.share()
    assert scene.fake.use(door).told == "up 50.0 20G"
    assert scene.status().one_user_at_a_time
    assert "wait until those of one have ended" in scene.status().trouble


async def test_a_mig_slice_and_a_strange_name_are_no_gpu_for_mps(scene):
    with pytest.raises(EngineRefused, match="is cut by MIG"):
        await scene.share("MIG-11111111-2222-3333-4444-555555555555")
    with pytest.raises(BadInput, match="is no UUID"):
        await scene.share("../../etc")
    with pytest.raises(BadInput, match="cannot be"):
        await scene.share(sm_percent=0)


async def test_programs_of_other_accounts_may_connect_and_may_not_write(scene):
    door = await scene.share()
    assert door.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in door.iterdir()] == ["control"]
    assert (door / "control").stat().st_mode & 0o666 == 0o666


async def test_root_in_a_session_cannot_change_the_caps_by_what_the_session_gets(scene):
    door = await scene.share()
    assert "Insufficient privileges" in scene.fake.run(door, "set_default_active_thread_percentage 100")
    assert scene.fake.ask(door, "get_default_active_thread_percentage") == "50.0"


async def test_a_session_that_has_the_folder_reaches_the_daemon_that_was_started_anew(scene):
    door = await scene.share()
    inode = (door / "control").stat().st_ino
    scene.fake.kill(scene.fake.daemon_pid(door))
    await scene.turn(a_share())
    assert (door / "control").stat().st_ino != inode
    assert scene.fake.use(door).told == "up 50.0 20G"


def test_a_folder_that_another_account_owns_or_may_write_is_refused(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(EngineRefused, match="is no folder"):
        make_folder(link)
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 65534, 65534)
        with pytest.raises(EngineRefused, match="owned by account 65534"):
            make_folder(theirs)


def test_a_long_data_folder_gets_a_short_pipe_folder_and_always_the_same():
    deep = Path("/data/" + "long/" * 20)
    short = Path("/run/short")
    pipe = pipe_folder(deep, GPU, short)
    assert pipe.parent.parent == short
    assert pipe == pipe_folder(deep, GPU, short) != pipe_folder(deep, OTHER, short)
    assert pipe_folder(Path("/var/lib/gpufairy/mps"), GPU) == Path("/var/lib/gpufairy/mps") / GPU / "pipe"


def test_a_pipe_folder_for_which_no_short_path_is_left_is_refused():
    with pytest.raises(EngineRefused, match=f"a socket may have \\({MOST_SOCKET_BYTES} bytes\\)"):
        pipe_folder(Path("/data/" + "long/" * 20), GPU, Path("/run/" + "x" * 100))
