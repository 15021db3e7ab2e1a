"""What a process session gets and how it ends, beyond what every engine promises."""
# ruff: noqa: ASYNC240  (a test may block: it has its event loop to itself)
import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import PATIENCE_S, is_running, read_to_end, started, stop_all, until, until_exited, until_running, whole_log

from builders import a_gpu_seat, a_node, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.share import PARTS
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command, Credentials
from gpufairy.engines.process import ProcessEngine

TOKEN = "canary-token-5d1f"
SOON, LATER = timedelta(seconds=0.05), timedelta(seconds=60)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ProcessEngine]:
    made = ProcessEngine(tmp_path / "sessions", a_node(), lambda _: Credentials("http://server", TOKEN), path_prepend="/opt/fairy/bin")
    async with started(made):
        yield made
        await stop_all(made)


async def outcome(engine: ProcessEngine, *command: str, **fields) -> tuple[int | None, str]:
    session = a_session(*command, **fields)
    await engine.launch(session)
    workload = await until_exited(engine, session)
    return workload.exit_code, (await whole_log(engine, session)).decode()


async def test_the_environment_is_built_and_not_inherited(engine: ProcessEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SERVER_SECRET", "canary")
    seat = a_seat("here", a_gpu_seat(0, PARTS // 2), a_gpu_seat(1, profile="1g.5gb", instance_uuid="MIG-simulated-1"))
    _, text = await outcome(engine, "env", env=(("SEED", "7"),), seat=seat)
    env = dict(line.split("=", 1) for line in text.splitlines())
    assert "SERVER_SECRET" not in env
    assert env["SEED"] == "7"
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == "GPU-simulated-0,MIG-simulated-1"
    assert env["FAIRY_GPUS"] == "0:0.5,1:1g.5gb"
    assert env["FAIRY_SIMULATED"] == "1"
    assert env["FAIRY_URL"] == "http://server"
    assert env["PATH"].split(":")[0] == "/opt/fairy/bin"
    assert env["HOME"].endswith("/home/student1")


async def test_without_a_gpu_none_is_visible(engine: ProcessEngine):
    _, text = await outcome(engine, "env")
    assert "CUDA_VISIBLE_DEVICES=\n" in text
    assert "NVIDIA_VISIBLE_DEVICES=void\n" in text
    assert "FAIRY_SIMULATED" not in text


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "FAIRY_URL", "NVIDIA_VISIBLE_DEVICES", "SHELLOPTS", "BASH_FUNC_printf%%"])
async def test_names_that_are_ours_are_left_out_and_the_log_says_so(engine: ProcessEngine, name: str):
    _, text = await outcome(engine, "env", env=((name, "/evil.so"),))
    assert f"not passed on, since sessions may not set them: {name}\n" in text
    assert "/evil.so" not in text


async def test_the_token_is_in_a_private_file_and_nowhere_else(engine: ProcessEngine):
    session = a_session("sh", "-c", 'cat "$FAIRY_TOKEN_FILE"; stat -c %a "$FAIRY_TOKEN_FILE"; exec sleep 1000')
    await engine.launch(session)
    workload = await until_running(engine, session)
    printed = b""
    async for chunk in engine.logs(workload_id(session), follow=True):
        printed += chunk
        if printed.endswith(b"600\n"):
            break
    for pid in await engine.pids(workload.id):
        for file in ("environ", "cmdline"):
            assert TOKEN.encode() not in Path(f"/proc/{pid}/{file}").read_bytes()
    await engine.stop(workload.id, timedelta(0))
    assert (await whole_log(engine, session)).startswith(f"{TOKEN}600\n".encode())


async def test_arguments_reach_the_command_as_they_are(engine: ProcessEngine):
    strange = ("a b", "$(touch /tmp/x)", "`id`", "; exit 9", "*", "'", '"', "", "-n", "한글")
    code, text = await outcome(engine, "printf", "%s|", *strange)
    assert code == 0
    assert text == "".join(f"{word}|" for word in strange)


async def test_a_command_named_like_a_builtin_is_no_order_to_the_shim(engine: ProcessEngine):
    code, text = await outcome(engine, "exit", "0")
    assert code == 127
    assert "not found" in text


async def test_a_command_that_is_not_there_says_so(engine: ProcessEngine):
    code, text = await outcome(engine, "no-such-command")
    assert code == 127
    assert "no-such-command" in text


async def test_a_work_folder_that_is_not_there_says_so(engine: ProcessEngine):
    code, text = await outcome(engine, "true", workdir="/no/such/folder")
    assert code == 126
    assert "there is no work folder /no/such/folder" in text


async def test_a_session_begins_at_home(engine: ProcessEngine):
    code, text = await outcome(engine, "pwd")
    assert text.endswith("/home/student1\n")
    home = Path(text.strip())
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (home / "project").mkdir()
    assert await outcome(engine, "pwd", workdir="project") == (0, f"{home}/project\n")
    assert code == 0


async def test_death_by_a_signal_is_told_as_a_shell_does(engine: ProcessEngine):
    session = a_session("sh", "-c", "kill -9 $$")
    await engine.launch(session)
    workload = await until_exited(engine, session)
    assert workload.exit_code == 137
    assert "SIGKILL" in workload.why


async def test_signals_that_python_ignores_have_their_usual_effect(engine: ProcessEngine):
    session = a_session("sh", "-c", "kill -PIPE $$; exit 0")
    await engine.launch(session)
    assert (await until_exited(engine, session)).exit_code == 128 + signal.SIGPIPE


async def test_one_told_to_stop_may_say_goodbye(engine: ProcessEngine):
    session = a_session("sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    await engine.launch(session)
    await anext(engine.logs(workload_id(session), follow=True))
    await engine.stop(workload_id(session), LATER)
    assert (await until_exited(engine, session)).exit_code == 7
    assert (await whole_log(engine, session)).splitlines()[-1] == b"bye"


async def test_one_that_does_not_listen_is_killed_after_its_grace(engine: ProcessEngine):
    session = a_session("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await engine.launch(session)
    await anext(engine.logs(workload_id(session), follow=True))
    await engine.stop(workload_id(session), SOON)
    workload = await until_exited(engine, session)
    assert workload.exit_code is None
    assert "told to stop" in workload.why


async def test_what_is_left_of_the_group_ends_with_the_command(engine: ProcessEngine):
    session = a_session("sh", "-c", "sleep 1000 & echo $!")
    await engine.launch(session)
    await until_exited(engine, session)
    orphan = int(await whole_log(engine, session))
    await until(lambda: not is_running(orphan))


async def test_a_group_of_its_own_does_not_outlive_the_session(engine: ProcessEngine):
    session = a_session("bash", "-c", "set -m; sleep 1000 & echo $!")
    await engine.launch(session)
    await until_exited(engine, session)
    orphan = int(await whole_log(engine, session))
    await until(lambda: not is_running(orphan))


async def test_all_processes_of_a_session_are_known(engine: ProcessEngine):
    session = a_session("sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait")
    await engine.launch(session)
    workload = await until_running(engine, session)
    await anext(engine.logs(workload.id, follow=True))
    stream = await engine.open(workload.id, Command(("sleep", "1000")))
    pids = (await engine.pids_of_all())[workload.id]
    assert len(pids) == 5  # the shim, sh, two sleeps, and the one beside it
    assert {workload.pid, stream.pid} <= set(pids)
    await stream.close()


async def test_a_terminal_is_a_real_one_and_can_be_resized(engine: ProcessEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    script = "stty size; trap 'stty size; exit 0' WINCH; tty; while :; do sleep 0.01; done"
    stream = await engine.open(workload_id(session), Command(("sh", "-c", script), terminal=True, columns=100, rows=30))
    said = b""
    while b"/dev/" not in said:
        said += await asyncio.to_thread(os.read, stream.stdout, 1000)
    stream.resize(120, 40)
    said += await read_to_end(stream.stdout)
    assert said.startswith(b"30 100\r\n")
    assert said.endswith(b"40 120\r\n")
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 0
    await stream.close()


async def test_an_interrupt_from_the_keyboard_reaches_the_command(engine: ProcessEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "echo ready; sleep 1000"), terminal=True))
    await asyncio.to_thread(os.read, stream.stdout, 1000)
    ended = asyncio.create_task(stream.wait())
    for _ in range(PATIENCE_S * 5):  # a shell that is just forking lets one pass: people press it again too
        os.write(stream.stdin, b"\x03")
        if (await asyncio.wait([ended], timeout=0.2))[0]:
            break
    assert await ended == 128 + signal.SIGINT
    await stream.close()


async def test_closing_a_stream_ends_its_command(engine: ProcessEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "trap '' HUP; echo ready; sleep 1000")))
    assert await asyncio.to_thread(os.read, stream.stdout, 100) == b"ready\n"
    await stream.close()
    await until(lambda: not is_running(stream.pid))


async def test_input_and_both_outputs_are_kept_apart(engine: ProcessEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "cat; echo error >&2"), env=(("A", "b"),)))
    os.write(stream.stdin, b"typed")
    os.close(stream.stdin)
    stream.stdin = -1
    assert await read_to_end(stream.stdout) == b"typed"
    assert await read_to_end(stream.stderr) == b"error\n"
    await stream.close()


needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="pinning needs two CPUs")


@needs_two_cpus
async def test_the_command_itself_runs_on_the_cpus_of_its_seat(engine: ProcessEngine):
    """Not only its shim: many times over, since one that is pinned too late is so by chance alone."""
    for _ in range(25):
        session = a_session("grep", "Cpus_allowed_list", "/proc/self/status", seat=a_seat(cpus_milli=1000))
        await engine.launch(session)
        await until_exited(engine, session)
        said = b"".join([chunk async for chunk in engine.logs(workload_id(session), False)]).decode()
        assert said.split()[1].isdecimal(), said  # one CPU, neither a range nor a list
        await engine.clear(workload_id(session))


@needs_two_cpus
async def test_seats_of_whole_cpus_are_pinned_apart(engine: ProcessEngine):
    before = os.sched_getaffinity(0)
    pinned_to = []
    for _ in range(2):
        session = a_session("sleep", "1000", seat=a_seat(cpus_milli=1000))
        await engine.launch(session)
        pinned_to.append(os.sched_getaffinity((await until_running(engine, session)).pid))
    assert [len(cpus) for cpus in pinned_to] == [1, 1]
    assert pinned_to[0] != pinned_to[1]
    assert os.sched_getaffinity(0) == before


async def test_there_are_no_images(engine: ProcessEngine):
    assert engine.shelf is None


@pytest.mark.parametrize("owner", ["../student2", "..", ".", "", "a/b", "a\0b", ".ssh"])
async def test_an_owner_that_is_no_folder_name_is_refused(engine: ProcessEngine, owner: str):
    with pytest.raises(EngineRefused):
        await engine.launch(a_session("true", owner=owner))
    assert await engine.list_mine() == []


async def test_a_command_too_long_for_the_machine_is_refused_and_leaves_nothing(engine: ProcessEngine):
    with pytest.raises(EngineRefused, match="could not start"):
        await engine.launch(a_session("echo", "x" * 10_000_000))
    assert await engine.list_mine() == []


async def test_a_session_can_be_interrupted_even_if_its_server_ignores_that(engine: ProcessEngine):
    """As one does that a script started in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        session = a_session("sleep", "1000")
        await engine.launch(session)
    finally:
        signal.signal(signal.SIGINT, before)
    pid = (await until_running(engine, session)).pid
    ignored = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGINT - 1))
