"""The docker engine on real daemons: what a session finds inside, and what is told of its end."""
import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from docker_scene import TOKEN, UIDS, Scene, limit_of, said, scene
from engine_waits import is_running, read_to_end, seen, started, stop_all, until_exited, until_running, whole_log

from builders import GIB, a_gpu_seat, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_spec import Folder
from images import BUSYBOX_IMAGE, SCRATCH_IMAGE, Layer, image_tar

pytestmark = pytest.mark.system
MIB = 2**20


@pytest.fixture(scope="module", params=["docker", "podman"])
def here(request: pytest.FixtureRequest, docker_tools: Path) -> Iterator[Scene]:
    with scene(request.getfixturevalue(f"{request.param}_daemon"), docker_tools) as made:
        yield made


@pytest.fixture
async def engine(here: Scene) -> AsyncIterator[DockerEngine]:
    async with started(here.engine()) as running:
        yield running
        await stop_all(running)
        for workload in await running.list_mine():
            await running.clear(workload.id)


async def test_a_session_has_no_rights_inside(engine: DockerEngine):
    text = await said(engine, a_session("cat", "/proc/self/status"))
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == [str(UIDS["student1"])] * 4
    assert set(status["Groups"].split()) <= {str(UIDS["student1"])}


async def test_limits_hold_inside(engine: DockerEngine):
    script = "cat /proc/self/limits; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; df -k /dev/shm; cat /proc/self/oom_score_adj"
    text = await said(engine, a_session("sh", "-c", script, seat=a_seat(memory_bytes=256 * MIB)))
    assert limit_of(text, "Max core file size") == "0"
    assert 1024 <= int(limit_of(text, "Max open files")) <= 65536
    assert str(256 * MIB) in text.splitlines()
    assert str(128 * 1024) in text
    assert text.splitlines()[-1] == "300"


async def test_a_fork_bomb_ends_at_the_limit_of_processes(here: Scene):
    async with started(here.engine(pids=20)) as engine:
        text = await said(engine, a_session("sh", "-c", "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; echo bombed"))
        assert "fork" in text


async def test_the_token_is_the_sessions_own_and_cannot_be_changed(engine: DockerEngine):
    text = await said(engine, a_session("sh", "-c", "stat -c %a:%u $FAIRY_TOKEN_FILE; cat $FAIRY_TOKEN_FILE; echo; echo x > $FAIRY_TOKEN_FILE; ls -A $HOME"))
    assert text.splitlines()[:2] == [f"600:{UIDS['student1']}", TOKEN]
    assert "Read-only" in text


async def test_no_secret_is_in_a_label_the_command_line_or_the_environment(engine: DockerEngine, here: Scene):
    session = a_session("sleep", "1000", env=(("API_KEY", "canary-1"),))
    await engine.launch(session)
    detail = here.inspect(session)
    assert "canary-1" not in str(detail["Config"]["Labels"])
    assert TOKEN not in str(detail)
    assert (await until_running(engine, session)).session == session


async def test_a_home_outlives_its_sessions_and_their_images(engine: DockerEngine):
    await said(engine, a_session("sh", "-c", "echo kept > ~/note; mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho mine' > ~/.local/bin/tool; chmod +x ~/.local/bin/tool"))
    session = a_session("sh", "-c", "cat ~/note; tool; stat -c %u ~")
    assert await said(engine, session) == f"kept\nmine\n{UIDS['student1']}\n"


async def test_one_user_sees_nothing_of_anothers(engine: DockerEngine):
    await said(engine, a_session("sh", "-c", "echo private > ~/note; chmod 644 ~/note", owner="student2"))
    text = await said(engine, a_session("sh", "-c", "ls /home; ls -R / 2>/dev/null | grep -c '^note$'; cat /home/student2/note"))
    assert text.splitlines()[0] == "student1"
    assert "private" not in text


async def test_an_image_without_anything_still_runs_our_tools(engine: DockerEngine, here: Scene):
    session = a_session()
    await engine.launch(replace(session, request=replace(session.request, image=SCRATCH_IMAGE)))
    await until_running(engine, session)
    assert "student1:x:20001:20001" in (here.places.run(str(workload_id(session))) / "passwd").read_text()


async def test_shared_and_tools_are_read_only(engine: DockerEngine, here: Scene):
    (here.folder / "shared" / "data").write_text("common")
    text = await said(engine, a_session("sh", "-c", "cat /shared/data; echo x > /shared/data; echo x > /opt/fairy/bin/x; echo x > /run/fairy/x"))
    assert text.startswith("common")
    assert text.count("Read-only file system") == 3


async def test_a_folder_of_the_admins_is_mounted_by_its_name(here: Scene):
    (here.folder / "datasets" / "mnist").mkdir(parents=True)
    (here.folder / "datasets" / "mnist" / "x").write_text("seven")
    folders = {"datasets": Folder(here.folder / "datasets")}
    async with started(here.engine(folders=folders)) as engine:
        session = a_session("sh", "-c", "cat /mnt/datasets/mnist/x; ls /mnt/datasets; echo y > /mnt/datasets/mnist/x")
        text = await said(engine, replace(session, request=replace(session.request, mounts=("datasets/mnist",))))
    assert text.startswith("sevenmnist")
    assert "Read-only" in text


async def test_out_of_memory_is_told_as_such(engine: DockerEngine):
    session = a_session("awk", 'BEGIN { x = "aaaaaaaa"; while (1) x = x x }', seat=a_seat(memory_bytes=64 * MIB))
    await engine.launch(session)
    over = await until_exited(engine, session)
    assert "out of memory" in over.why
    assert "64 MiB" in over.why
    assert over.exit_code == 137


async def test_a_child_that_was_killed_for_memory_is_told_too(engine: DockerEngine):
    script = """awk 'BEGIN { x = "aaaaaaaa"; while (1) x = x x }'; exit 1"""
    session = a_session("sh", "-c", script, seat=a_seat(memory_bytes=64 * MIB))
    await engine.launch(session)
    assert "out of memory" in (await until_exited(engine, session)).why


async def test_a_missing_command_is_told(engine: DockerEngine):
    session = a_session("no-such-command")
    text = await said(engine, session)
    over = await seen(engine, session)
    assert over.exit_code == 127
    assert "not found" in over.why
    assert "no command no-such-command" in text


async def test_a_missing_work_folder_is_told(engine: DockerEngine):
    session = a_session("true", workdir="nowhere")
    assert "no work folder" in await said(engine, session)
    assert (await seen(engine, session)).exit_code == 126


async def test_a_missing_image_is_refused_in_words_and_leaves_nothing(engine: DockerEngine, here: Scene):
    session = a_session("true")
    with pytest.raises(EngineRefused, match="is not on here") as refused:
        await engine.launch(replace(session, request=replace(session.request, image="no/such:1")))
    assert "image list" in refused.value.next_step
    assert await seen(engine, session) is None
    assert not here.places.run(str(workload_id(session))).exists()


async def test_a_failed_pull_is_refused_in_words(here: Scene):
    async with started(here.engine(pull=True)) as engine:
        session = a_session("true")
        with pytest.raises(EngineRefused, match="could not be pulled"):
            await engine.launch(replace(session, request=replace(session.request, image="localhost:9/no/such:1")))


async def test_users_whose_names_run_together_have_containers_of_their_own(engine: DockerEngine, here: Scene):
    sessions = [a_session(owner="kim-a", name="b", id="aaaaaaaa1"), a_session(owner="kim", name="a-b", id="bbbbbbbb1")]
    for session in sessions:
        await engine.launch(session)
    assert {here.inspect(session)["Name"].lstrip("/") for session in sessions} == {"fairy-kim-a-b", "fairy-kim-a-b-bbbbbb"}
    assert {workload.session.owner for workload in await engine.list_mine()} >= {"kim", "kim-a"}


async def test_labels_that_cannot_be_read_are_shown_all_the_same(engine: DockerEngine, here: Scene):
    labels = {"gpufairy.role": "session", "gpufairy.server": here.server_id, "gpufairy.session": "lost1", "gpufairy.attempt": "1", "gpufairy.launch": "{"}
    host = {"NetworkMode": "none", "Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 1024}, {"Name": "nproc", "Soft": 1024, "Hard": 1024}]}
    made = here.daemon.ask("POST", "/containers/create", {"Image": BUSYBOX_IMAGE, "Cmd": ["sleep", "1000"], "Labels": labels, "HostConfig": host})
    here.daemon.ask("POST", f"/containers/{made['Id']}/start")
    (found,) = [workload for workload in await engine.list_mine() if workload.id.session_id == "lost1"]
    assert found.session is None
    assert found.alive
    await engine.stop(found.id, timedelta(0))


async def test_containers_of_others_are_not_ours(engine: DockerEngine, here: Scene):
    labels = {"gpufairy.role": "session", "gpufairy.server": here.server_id + "0", "gpufairy.session": "x", "gpufairy.attempt": "1"}
    made = here.daemon.ask("POST", "/containers/create", {"Image": BUSYBOX_IMAGE, "Labels": labels, "HostConfig": {"NetworkMode": "none"}})
    assert "x" not in [workload.id.session_id for workload in await engine.list_mine()]
    here.daemon.ask("DELETE", f"/containers/{made['Id']}")


async def test_a_session_that_ignores_its_end_is_killed_after_the_grace(engine: DockerEngine):
    session = a_session("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    await engine.launch(session)
    assert await anext(engine.logs(workload_id(session), follow=True)) == b"ready\n"
    await engine.stop(workload_id(session), timedelta(seconds=1))
    assert "told to stop" in (await until_exited(engine, session)).why


async def test_every_process_of_a_session_is_counted_as_its_own(engine: DockerEngine):
    session = a_session("sh", "-c", "sleep 1000 & sleep 1000; true")
    await engine.launch(session)
    workload = await until_running(engine, session)
    pids: list[int] = []
    async with asyncio.timeout(10):
        while len(pids) < 4:
            pids = await engine.pids(workload.id)
    assert workload.pid in pids
    assert all(is_running(pid) for pid in pids)


async def test_a_flood_is_cut_and_a_log_is_no_longer_than_its_cap(here: Scene):
    engine = here.engine()
    engine._log_cap_bytes = 4 * MIB
    async with started(engine):
        session = a_session("sh", "-c", "yes flood | head -c 30000000; sleep 3; echo end")
        await engine.launch(session)
        await until_exited(engine, session)
        assert os.stat(here.places.log(str(workload_id(session)))).st_blocks * 512 < 8 * MIB
        assert (await whole_log(engine, session)).endswith(b"end\n")


async def test_simulated_gpus_are_told_and_not_passed(engine: DockerEngine, here: Scene):
    session = a_session("sh", "-c", "echo $FAIRY_GPUS $FAIRY_SIMULATED $CUDA_VISIBLE_DEVICES", seat=a_seat("here", a_gpu_seat(1)))
    assert await said(engine, session) == "1:1 1 GPU-simulated-1\n"
    assert not here.inspect(session)["HostConfig"].get("DeviceRequests")


async def test_an_image_cannot_bring_its_own_rules(engine: DockerEngine, here: Scene):
    layer = Layer()
    for folder in ("bin", "etc", "evil"):
        layer.folder(folder)
    layer.link("home", "/etc")
    config = {
        "Env": ["PATH=/evil", "LD_PRELOAD=/evil/x.so", "NVIDIA_VISIBLE_DEVICES=all", "BASH_ENV=/evil/x", "FAIRY_URL=http://evil"],
        "User": "root", "Entrypoint": ["/evil/entry"], "WorkingDir": "/evil", "Volumes": {"/opt/fairy": {}, "/run/fairy": {}},
        "Labels": {"gpufairy.root": "1", "gpufairy.session": "other", "gpufairy.role": "files", "gpufairy.server": "other"},
        "Healthcheck": {"Test": ["CMD", "/evil/health"]},
    }  # fmt: skip
    here.daemon.load(image_tar("evil/image:1", layer, config))
    session = a_session()
    await engine.launch(replace(session, request=replace(session.request, image="evil/image:1")))
    detail = here.inspect(session)
    env = dict(variable.split("=", 1) for variable in detail["Config"]["Env"])
    assert (env["LD_PRELOAD"], env["BASH_ENV"], env["NVIDIA_VISIBLE_DEVICES"], env["FAIRY_URL"]) == ("", "", "void", "http://127.0.0.1:8420")
    assert detail["Config"]["Labels"]["gpufairy.root"] == "0"
    assert detail["Config"]["User"] == "20001:20001"
    assert detail["Config"]["Entrypoint"][0] == "/opt/fairy/bin/porter"
    assert (await until_running(engine, session)).session.id == session.id


async def test_root_inside_is_root_with_few_rights_and_says_so(here: Scene):
    async with started(here.engine(root_images=("fairy-test/*",))) as engine:
        session = a_session("sh", "-c", "id -u; touch /etc/x && echo wrote; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo mine > ~/by-root; cat $FAIRY_TOKEN_FILE")
        text = await said(engine, session)
    assert text.startswith("0\nwrote\n")
    rights = int(next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff")), 16)
    assert not rights & (1 << 21 | 1 << 12 | 1 << 13 | 1 << 27)  # SYS_ADMIN, NET_ADMIN, NET_RAW, MKNOD
    assert TOKEN in text
    assert here.inspect(session)["Config"]["Labels"]["gpufairy.root"] == "1"


async def test_a_door_leads_into_the_session_and_no_further(engine: DockerEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "id -u; pwd; grep CapEff /proc/self/status; cat /proc/1/cmdline")))
    text = (await read_to_end(stream.stdout)).decode()
    await stream.close()
    assert text.startswith(f"{UIDS['student1']}\n/home/student1\nCapEff:\t{'0' * 16}\n")
    assert "porter" in text


async def test_folders_on_the_host_belong_to_the_user_inside_and_to_us_above(engine: DockerEngine, here: Scene):
    await said(engine, a_session("true"))
    home = here.places.home("student1").stat()
    assert (home.st_uid, stat.S_IMODE(home.st_mode)) == (UIDS["student1"], 0o700)
    for above in (here.places.homes, here.places.all_results, here.places.logs, here.places.runs):
        assert (above.stat().st_uid, stat.S_IMODE(above.stat().st_mode)) == (0, 0o700)


async def test_a_session_reaches_the_server_by_its_own_loopback(engine: DockerEngine, here: Scene):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello from the server")
        await writer.drain()
        writer.close()

    path = here.folder / "api" / "api.sock"
    server = await asyncio.start_unix_server(answer, path)
    path.chmod(0o666)
    try:
        assert "hello from the server" in await said(engine, a_session("sh", "-c", "wget -q -O - $FAIRY_URL/healthz"))
    finally:
        server.close()
        await server.wait_closed()
        path.unlink(missing_ok=True)


async def test_memory_of_a_seat_is_never_without_a_limit(engine: DockerEngine, here: Scene):
    session = a_session("sleep", "1000", seat=a_seat(memory_bytes=GIB))
    await engine.launch(session)
    host = here.inspect(session)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"], host["NanoCpus"]) == (GIB, GIB, 4096, 500_000_000)
