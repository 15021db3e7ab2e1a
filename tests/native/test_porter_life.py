"""What a porter is as the first process: the session's command and its log, signals, orphans, the relay, its end."""
import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from porter_scene import PATIENCE_S, Porter, until

from gpufairy.engines.contract import Command
from gpufairy.engines.porter import connect_in, open_in

pytestmark = pytest.mark.system
TERMINATED = 128 + signal.SIGTERM
RELAY_PORT = 7002


async def test_a_batch_command_writes_to_its_log_and_its_exit_code_is_the_sessions(start_porter, tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("before\n")
    log.chmod(0o666)
    async with start_porter("--log", str(log), "--workdir", str(tmp_path), "--", "sh", "-c", "sleep 0.3; pwd; echo err >&2; cat; exit 7") as porter:
        assert await porter.ended() == 7
    assert log.read_text() == f"before\n{tmp_path}\nerr\n"


async def test_a_batch_command_killed_by_a_signal_is_128_and_its_number(start_porter):
    async with start_porter("--", "sh", "-c", "sleep 0.3; kill -KILL $$") as porter:
        assert await porter.ended() == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--workdir", "/no/such", "--", "true"), 126, "fairy: there is no work folder /no/such"),
        (("--", "no-such-command"), 127, "fairy: there is no command no-such-command in the session"),
        (("--", "/etc/passwd"), 126, "fairy: the command /etc/passwd cannot be run: Permission denied"),
    ],
)
async def test_a_batch_command_that_cannot_be_run_says_why_in_its_log(native, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str):
    log = tmp_path / "log"
    assert await over_at_once(native, tmp_path, "--log", str(log), *arguments) == code
    assert log.read_text().startswith(words)


async def test_a_log_that_is_a_link_is_not_followed(native, tmp_path: Path):
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    assert await over_at_once(native, tmp_path, "--log", str(tmp_path / "log"), "--", "true") == 125
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("kept", "code", "ran", "left"),
    [("new\n", 7, True, "007\n"), ("", 7, True, "007\n"), ("ran\n", 125, False, "two\n"), ("two\n", 125, False, "two\n"), ("003\n", 3, False, "003\n"), ("999\n", 7, True, "007\n")],
)
async def test_a_command_begins_once_however_often_its_container_is_started(native, tmp_path: Path, kept: str, code: int, ran: bool, left: str):
    once, log = tmp_path / "began", tmp_path / "log"
    once.write_text(kept)
    once.chmod(0o666)
    assert await over_at_once(native, tmp_path, "--log", str(log), "--once", str(once), "--", "sh", "-c", "echo ran; exit 7") == code
    assert log.exists() == ran
    assert once.read_text() == left


async def test_two_porters_with_one_file_begin_one_command(native, start_porter, tmp_path: Path):
    once = tmp_path / "began"
    once.write_text("new\n")
    once.chmod(0o666)
    async with start_porter("--once", str(once), "--", "sleep", "1000") as porter:
        await until(porter.inside)
        assert await over_at_once(native, tmp_path, "--once", str(once), "--", "touch", str(tmp_path / "second")) == 125
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("kept", ["new\n", "ran\n"])
async def test_without_a_command_it_begins_as_often_as_it_is_started(start_porter, tmp_path: Path, kept: str):
    once = tmp_path / "began"
    once.write_text(kept)
    once.chmod(0o666)
    async with start_porter("--once", str(once)) as porter:
        assert await porter.run("echo", "alive") == (0, b"alive\n")
    assert once.read_text() == "ran\n"


async def test_a_file_that_cannot_be_kept_is_told(native, tmp_path: Path):
    assert await over_at_once(native, tmp_path, "--once", str(tmp_path / "none"), "--", "true") == 125


@pytest.mark.parametrize("arguments", [("--wrong",), ("--idle-exit", "soon"), ("--relay", "80"), ("--relay", "0:/x"), ("--relay", "70000:/x"), ("--relay", "80:x")])
async def test_wrong_options_are_refused(native, tmp_path: Path, arguments: tuple[str, ...]):
    assert await over_at_once(native, tmp_path, *arguments) == 125


async def test_it_refuses_to_be_any_process_but_the_first(native, tmp_path: Path):
    alone = await asyncio.create_subprocess_exec(native.porter, stderr=asyncio.subprocess.PIPE)
    _, err = await alone.communicate()
    assert (alone.returncode, err) == (125, b"fairy: the porter runs only as the first process of a container\n")


async def test_being_told_to_end_is_passed_on_to_the_batch_command(start_porter, tmp_path: Path):
    log = tmp_path / "log"
    async with start_porter("--log", str(log), "--", "bash", "-c", "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done") as porter:
        await until(lambda: log.exists() and log.read_text() == "ready\n")
        os.kill(porter.pid, signal.SIGTERM)
        assert await porter.ended() == 9
    assert log.read_text().endswith("told\n")


async def test_being_told_to_end_ends_everybody_in_an_interactive_session(start_porter):
    async with start_porter() as porter:
        stream = await open_in(porter.door, Command(("sh", "-c", "setsid sleep 1000 & nohup sleep 1000 & echo ready; sleep 1000")))
        assert os.read(stream.stdout, 100) == b"ready\n"
        os.kill(porter.pid, signal.SIGTERM)
        assert await porter.ended() == TERMINATED
        await stream.close()


async def test_it_waits_for_those_who_take_their_time_to_leave(start_porter, tmp_path: Path):
    async with start_porter() as porter:
        command = "trap 'sleep 0.3; echo saved > saved; exit' TERM; trap '' HUP; echo ready; while :; do sleep 0.05; done"
        stream = await open_in(porter.door, Command(("bash", "-c", command)))
        assert os.read(stream.stdout, 100) == b"ready\n"
        os.kill(porter.pid, signal.SIGTERM)
        assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 0
        assert await porter.ended() == TERMINATED
        await stream.close()
    assert (tmp_path / "saved").read_text() == "saved\n"


@pytest.mark.parametrize("end", ["kill -9 -1", "kill -9 1", "kill 1", "kill -STOP 1", "pkill -9 -u $(id -u)", "pkill -u $(id -u)", "kill -INT 1; kill -HUP 1; kill -QUIT 1"])
async def test_no_signal_from_inside_ends_or_stops_the_session(porter: Porter, end: str):
    await porter.run("sh", "-c", end)
    assert await porter.run("echo", "alive") == (0, b"alive\n")


async def test_a_session_cannot_trace_or_look_into_its_porter(porter: Porter):
    look = "import ctypes; print(ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0), ctypes.get_errno())"
    assert await porter.run("python3", "-c", look) == (0, b"-1 1\n")
    code, _ = await porter.run("sh", "-c", "cat /proc/1/environ || ls /proc/1/fd || head -c 1 /proc/1/mem")
    assert code != 0


async def test_a_session_cannot_come_in_by_its_own_door(porter: Porter):
    ask = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0gpufairy-porter'); s.sendall(b'\\3\\0\\0\\0C\\1\\0'); print(s.recv(10))"
    code, out = await porter.run("python3", "-c", f"try:\n {ask}\nexcept OSError as error: print('shut')")
    assert (code, out) in [(0, b"b''\n"), (0, b"shut\n")]


async def test_a_session_cannot_take_the_doors_name(porter: Porter):
    take = "import socket; socket.socket(socket.AF_UNIX).bind('\\0gpufairy-porter')"
    code, _ = await porter.run("python3", "-W", "ignore", "-c", take)
    assert code == 1
    assert await porter.run("true") == (0, b"")


async def test_orphans_leave_no_zombies(porter: Porter):
    await porter.run("bash", "-c", "for i in $(seq 100); do (setsid true & setsid true &) ; done")
    await until(lambda: porter.inside() == [])


async def test_it_ends_by_itself_when_nobody_came_for_so_long(start_porter):
    async with start_porter("--idle-exit", "1") as porter:
        stream = await open_in(porter.door, Command(("sleep", "1.5")))
        assert await stream.wait() == 0
        await stream.close()
        assert await porter.ended() == 0


async def test_the_relay_joins_a_port_of_the_session_to_a_socket(start_porter, tmp_path: Path):
    async def backwards(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])  # after the end of input: half of a connection must be able to end
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(backwards, tmp_path / "server")
    (tmp_path / "server").chmod(0o666)
    async with start_porter("--relay", f"{RELAY_PORT}:{tmp_path}/server") as porter:
        many = [porter.run("python3", "-c", CLIENT, env=(("SENT_BYTES", "3000000"),)) for _ in range(8)]
        assert await asyncio.gather(*many) == [(0, b"True\n")] * 8
    server.close()


CLIENT = f"""
import os, socket, threading
s = socket.create_connection(("127.0.0.1", {RELAY_PORT}))
sent = os.urandom(int(os.environ["SENT_BYTES"]))
s.sendall(sent)
s.shutdown(socket.SHUT_WR)
got = b"".join(iter(lambda: s.recv(65536), b""))
print(got == sent[::-1])
"""


async def test_a_relay_without_a_socket_closes_the_connection(start_porter, tmp_path: Path):
    async with start_porter("--relay", f"{RELAY_PORT}:{tmp_path}/none") as porter:
        for _ in range(3):
            with await connect_in(porter.door, RELAY_PORT) as connected:
                assert await asyncio.to_thread(connected.recv, 10) == b""


async def test_a_relay_has_so_many_connections_and_no_more(start_porter, tmp_path: Path):
    arrived = asyncio.Semaphore(0)

    async def held_until_its_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.release()
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(held_until_its_end, tmp_path / "server")
    (tmp_path / "server").chmod(0o666)
    async with start_porter("--relay", f"{RELAY_PORT}:{tmp_path}/server") as porter:
        with contextlib.ExitStack() as closing:
            held = [closing.enter_context(await connect_in(porter.door, RELAY_PORT)) for _ in range(70)]
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(64):
                    await arrived.acquire()
                assert len(porter.inside()) == 64
                for connected in held[:6]:
                    connected.close()
                for _ in range(6):
                    await arrived.acquire()
        await until(lambda: porter.inside() == [])
    server.close()


async def over_at_once(native, folder: Path, *arguments: str) -> int:
    """For what ends before it could be found."""
    words = ["unshare", "-f", "-p", "-n", "--mount-proc", "setpriv", "--reuid", "12345", "--clear-groups", str(native.porter), *arguments]
    process = await asyncio.create_subprocess_exec(*words, cwd=folder, stderr=asyncio.subprocess.PIPE)
    await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode
