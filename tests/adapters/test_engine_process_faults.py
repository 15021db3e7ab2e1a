"""Servers killed at any point, numbers reused, machines restarted: nothing runs twice, nobody else is touched."""
# ruff: noqa: ASYNC220, ASYNC222, ASYNC240  (a test may block: it has its event loop to itself)
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import is_running, seen, started, stop_all, until, until_exited, until_running, whole_log

from builders import a_node, a_session
from gpufairy.core.plain import session_to_plain
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadState, workload_id
from gpufairy.engines.contract import Command, Credentials
from gpufairy.engines.process import ProcessEngine
from gpufairy.engines.shim import shim_argv, spawn

pytestmark = pytest.mark.slow

AT_ONCE = timedelta(0)
A_SERVER = """
import asyncio, json, sys
from pathlib import Path
from builders import a_node
from gpufairy.core.plain import session_from_plain
from gpufairy.engines.contract import Command, Credentials
from gpufairy.engines.process import ProcessEngine

async def serve():
    engine = ProcessEngine(Path(sys.argv[1]), a_node(), lambda _: Credentials("http://server", "t"))
    await engine.start(lambda: None)
    await engine.launch(session_from_plain(json.loads(sys.argv[2])))
    while (found := await engine.list_mine())[0].pid is None:
        await asyncio.sleep(0.005)
    print(found[0].pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(serve())
"""


@asynccontextmanager
async def an_engine(folder: Path) -> AsyncIterator[ProcessEngine]:
    engine = ProcessEngine(folder, a_node(), lambda _: Credentials("http://server", "t"))
    async with started(engine):
        yield engine
        await stop_all(engine)


def label_only(folder: Path, session: Session) -> Path:
    """As a server leaves it that is killed between writing the label and starting the shim."""
    run = folder / "run" / str(workload_id(session))
    run.mkdir(parents=True)
    (run / "session.json").write_text(json.dumps(session_to_plain(session)))
    return run


def claimed(folder: Path, session: Session, *, pid: int, start: int, boot: str | None = None) -> Path:
    run = label_only(folder, session)
    boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    fields = ["S", "1", str(pid), str(pid), *["0"] * 15, str(start), "0"]
    (run / "claim").write_text(f"{boot}\n{pid} (sh) {' '.join(fields)}\n")
    return run


async def test_a_killed_server_leaves_its_workloads_running_and_the_next_one_adopts_them(tmp_path: Path):
    session = a_session("sh", "-c", "until test -e go; do sleep 0.01; done; exit 6")
    path = os.pathsep.join(sys.path)
    server = subprocess.Popen(
        [sys.executable, "-c", A_SERVER, str(tmp_path), json.dumps(session_to_plain(session))],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    with server:
        pid = int(await asyncio.to_thread(server.stdout.readline))
        server.kill()
    changed = asyncio.Event()
    engine = ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"))
    await engine.start(changed.set)
    workload = await seen(engine, session)
    assert workload.state is WorkloadState.RUNNING
    assert workload.pid == pid
    assert workload.session == session
    await engine.launch(session)
    (tmp_path / "home" / "student1" / "go").touch()
    await asyncio.wait_for(changed.wait(), 20)
    assert (await until_exited(engine, session)).exit_code == 6
    await engine.close()


async def test_a_launch_that_was_written_and_not_done_is_done_once(tmp_path: Path):
    session = a_session("echo", "once")
    label_only(tmp_path, session)
    async with an_engine(tmp_path) as engine:
        assert await engine.list_mine() == []
        await engine.launch(session)
        await until_exited(engine, session)
        assert await whole_log(engine, session) == b"once\n"


async def test_a_shim_that_comes_too_late_runs_nothing(tmp_path: Path):
    run = label_only(tmp_path, a_session("true"))
    (run / "claim").write_text("void\n")
    null = os.open(os.devnull, os.O_RDWR)
    pid = spawn(shim_argv(run, str(tmp_path), 1024, ("touch", "ran")), dict(os.environ), stdin=null, stdout=null, stderr=null)
    os.close(null)
    assert os.waitpid(pid, 0)[1] == 0
    assert not (tmp_path / "ran").exists()
    assert not (run / "exit").exists()


async def test_of_many_shims_for_one_run_only_one_runs(tmp_path: Path):
    run = label_only(tmp_path, a_session("true"))
    out = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    argv = shim_argv(run, str(tmp_path), 1024, ("echo", "ran"))
    pids = [spawn(argv, dict(os.environ), stdin=out, stdout=out, stderr=out) for _ in range(20)]
    os.close(out)
    for pid in pids:
        os.waitpid(pid, 0)
    assert (tmp_path / "log").read_text() == "ran\n"


async def test_a_reused_process_number_is_never_touched(tmp_path: Path):
    session = a_session("sleep", "1000")
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        claimed(tmp_path, session, pid=stranger.pid, start=1)
        async with an_engine(tmp_path) as engine:
            workload = await seen(engine, session)
            assert workload.state is WorkloadState.EXITED
            assert "vanished" in workload.why
            await engine.stop(workload.id, AT_ONCE)
            await engine.clear(workload.id)
        assert stranger.poll() is None
        stranger.kill()


async def test_a_machine_that_restarted_says_so(tmp_path: Path):
    session = a_session("sleep", "1000")
    claimed(tmp_path, session, pid=os.getpid(), start=1, boot="another-boot")
    async with an_engine(tmp_path) as engine:
        workload = await seen(engine, session)
    assert workload.exit_code is None
    assert workload.why == "the machine restarted while it ran"


async def test_an_exit_code_is_believed_only_when_it_is_whole(tmp_path: Path):
    session = a_session("true")
    run = claimed(tmp_path, session, pid=2**22 - 1, start=1)
    (run / "exit").write_text("1")
    async with an_engine(tmp_path) as engine:
        workload = await seen(engine, session)
    assert workload.exit_code is None
    assert "disk full" in workload.why


async def test_a_claim_cut_short_never_began(tmp_path: Path):
    session = a_session("true")
    (label_only(tmp_path, session) / "claim").write_text("")
    async with an_engine(tmp_path) as engine:
        workload = await seen(engine, session)
    assert workload.state is WorkloadState.EXITED
    assert "never began" in workload.why


async def test_an_unreadable_label_hides_nothing(tmp_path: Path):
    session = a_session("sleep", "1000")
    async with started(ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"))) as engine:
        await engine.launch(session)
        await until_running(engine, session)
        (tmp_path / "run" / str(workload_id(session)) / "session.json").write_text('{"id": 1}')
    async with an_engine(tmp_path) as engine:
        workload = await seen(engine, session)
        assert workload.state is WorkloadState.RUNNING
        assert workload.session is None


async def test_what_a_killed_shim_leaves_behind_is_ended_before_it_counts_as_gone(tmp_path: Path):
    session = a_session("sh", "-c", "echo $$; exec sleep 1000")
    async with an_engine(tmp_path) as engine:
        await engine.launch(session)
        workload = await until_running(engine, session)
        child = int(await anext(engine.logs(workload.id, follow=True)))
        os.kill(workload.pid, signal.SIGKILL)
        ended = await until_exited(engine, session)
        assert "vanished without an exit code" in ended.why
        await until(lambda: not is_running(child))


async def test_what_a_login_left_running_goes_on_and_ends_with_its_session_even_after_a_restart(tmp_path: Path):
    session, left = a_session(), Command(("sh", "-c", "nohup sleep 1000 >/dev/null 2>&1 & echo $!"))
    async with started(ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"))) as engine:
        await engine.launch(session)
        workload = await until_running(engine, session)
        stream = await engine.open(workload.id, left)
        training = int(await asyncio.to_thread(os.read, stream.stdout, 100))
        await stream.wait()
        await stream.close()
        assert training in await engine.pids(workload.id)
        # While a process becomes another program it tells nobody whose it is; a server that starts just then finds it a round later.
        await until(lambda: Path(f"/proc/{training}/comm").read_text() == "sleep\n")
    async with an_engine(tmp_path) as engine:
        assert training in await engine.pids(workload.id)
        await engine.stop(workload.id, AT_ONCE)
        await until(lambda: not is_running(training))


async def an_app(engine: ProcessEngine, session: Session) -> int:
    """As a notebook starts its kernel: in a session of its own, in the background of one that was opened and closed again."""
    await engine.door(workload_id(session))
    start = "setsid sh -c 'trap \"\" HUP; sleep 1000 & echo $!; wait' </dev/null 2>/dev/null &"
    stream = await engine.open(workload_id(session), Command(("sh", "-c", start)))
    pid = int(await asyncio.to_thread(os.read, stream.stdout, 100))
    await stream.wait()
    await stream.close()
    assert is_running(pid)
    return pid


async def test_what_an_app_started_ends_with_its_session_even_if_the_server_leaves_at_that_moment(tmp_path: Path):
    session = a_session("sleep", "1000")
    async with started(ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"))) as engine:
        await engine.launch(session)
        await until_running(engine, session)
        app = await an_app(engine, session)
        await engine.stop(workload_id(session), AT_ONCE)
        await until_exited(engine, session)
    await until(lambda: not is_running(app))


@pytest.mark.parametrize("kill", [os.killpg, os.kill], ids=["all of it is gone", "its command is still there"])
async def test_what_an_app_started_is_ended_by_the_next_server_if_its_session_ended_without_one(tmp_path: Path, kill):
    session = a_session("sleep", "1000")
    async with started(ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"))) as engine:
        await engine.launch(session)
        found = await until_running(engine, session)
        app = await an_app(engine, session)
    kill(found.pid, signal.SIGKILL)
    await until(lambda: not is_running(found.pid))
    assert is_running(app)
    async with an_engine(tmp_path):
        await until(lambda: not is_running(app))


async def test_the_reason_of_a_stop_is_known_after_a_restart(tmp_path: Path):
    session = a_session("sleep", "1000")
    async with an_engine(tmp_path) as engine:
        await engine.launch(session)
        await until_running(engine, session)
        await engine.stop(workload_id(session), AT_ONCE)
        await until_exited(engine, session)
    async with an_engine(tmp_path) as engine:
        assert "told to stop" in (await seen(engine, session)).why


async def test_a_hundred_runs_leave_no_descriptor_and_no_zombie(tmp_path: Path):
    async with an_engine(tmp_path) as engine:
        sessions = [a_session("true") for _ in range(101)]
        await engine.launch(sessions[0])
        await until_exited(engine, sessions[0])
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        before = len(os.listdir("/proc/self/fd")), children.read_text()
        for session in sessions[1:]:
            await engine.launch(session)
        for session in sessions[1:]:
            assert (await until_exited(engine, session)).exit_code == 0
            await engine.clear(workload_id(session))
        assert (len(os.listdir("/proc/self/fd")), children.read_text()) == before
        assert [path.name for path in (tmp_path / "run").iterdir()] == [str(workload_id(sessions[0]))]


async def test_strangers_in_the_run_folder_are_passed_over(tmp_path: Path):
    (tmp_path / "run" / "lost+found").mkdir(parents=True)
    (tmp_path / "run" / "notes.txt").touch()
    (tmp_path / "run" / "a.1").touch()
    async with an_engine(tmp_path) as engine:
        assert await engine.list_mine() == []
    assert (tmp_path / "run" / "lost+found").is_dir()
