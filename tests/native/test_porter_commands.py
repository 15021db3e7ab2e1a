"""Commands and connections through a porter's door, by the real program in real namespaces."""
import asyncio
import os
import signal
from dataclasses import replace

import pytest
from porter_scene import PATIENCE_S, UID, Porter, in_folder, read_to_end, until

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.contract import Command
from gpufairy.engines.porter import connect_in, open_in

pytestmark = pytest.mark.system
PORT = 7001  # in a network namespace of its own
ECHO = "import socket; s = socket.create_server(('127.0.0.1', {0})); print('up', flush=True); c = s.accept()[0]; c.sendall(c.recv(9))"
ECHO_UNIX = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('{0}'); s.listen(); print('up', flush=True); c = s.accept()[0]; c.sendall(c.recv(9))"
ECHO_SIX = "import socket; s = socket.create_server(('::1', {0}), family=socket.AF_INET6); print('up', flush=True); c = s.accept()[0]; c.sendall(c.recv(9))"


async def test_a_command_runs_with_its_exit_code_and_output(porter: Porter):
    assert await porter.run("sh", "-c", "echo hello; exit 3") == (3, b"hello\n")


async def test_death_by_a_signal_is_128_and_its_number(porter: Porter):
    assert await porter.run("sh", "-c", "kill -SEGV $$") == (128 + signal.SIGSEGV, b"")


async def test_the_three_streams_are_separate(porter: Porter):
    stream = await open_in(porter.door, Command(("sh", "-c", "read line; echo out $line; echo err >&2")))
    os.write(stream.stdin, b"given\n")
    assert (await read_to_end(stream.stdout), await read_to_end(stream.stderr)) == (b"out given\n", b"err\n")
    await stream.close()


async def test_the_end_of_input_is_seen_inside(porter: Porter):
    stream = await open_in(porter.door, Command(("cat",)))
    os.write(stream.stdin, b"all of it")
    os.close(stream.stdin)
    stream.stdin = -1
    assert await read_to_end(stream.stdout) == b"all of it"
    assert await stream.wait() == 0
    await stream.close()


async def test_it_runs_as_the_session_in_its_folder_and_inherits_only_three_descriptors(porter: Porter):
    code, out = await porter.run("sh", "-c", "id -u; pwd; ls /proc/$$/fd")
    uid, folder, *descriptors = out.decode().splitlines()
    assert (code, uid, folder) == (0, str(UID), str(porter.folder))
    assert descriptors == ["0", "1", "2"]


async def test_no_signal_is_blocked_or_ignored_in_it(porter: Porter):
    _, out = await porter.run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    assert {int(line.split()[1], 16) for line in out.splitlines()} == {0}


async def test_a_folder_that_is_not_there_means_the_root(porter: Porter):
    stream = await open_in(in_folder(porter.door, "/no/such/folder"), Command(("pwd",)))
    assert await read_to_end(stream.stdout) == b"/\n"
    await stream.close()


async def test_variables_are_added_to_the_porters_own_and_replace_them(start_porter):
    async with start_porter(env={"KEPT": "1", "REPLACED": "old"}) as porter:
        door = replace(porter.door, env=(("REPLACED", "new"), ("OF_DOOR", "2")))
        stream = await open_in(door, Command(("sh", "-c", "echo $KEPT $REPLACED $OF_DOOR $OF_COMMAND"), env=(("OF_COMMAND", "3=3"),)))
        assert await read_to_end(stream.stdout) == b"1 new 2 3=3\n"
        await stream.close()


async def test_path_is_searched_in_the_commands_own_environment(porter: Porter):
    program = porter.folder / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert await porter.run("only-here", env=(("PATH", f"{porter.folder}:/bin"),)) == (0, b"found\n")


@pytest.mark.parametrize("argv", [("no-such-command",), ("/etc/passwd",), ("/",)])
async def test_what_cannot_be_run_is_refused_in_words(porter: Porter, argv: tuple[str, ...]):
    with pytest.raises(EngineRefused, match="cannot be run in the session: "):
        await open_in(porter.door, Command(argv))
    assert await porter.run("true") == (0, b"")


async def test_a_terminal_is_a_real_one_with_the_size_asked_for(porter: Porter):
    command = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo yes; echo $TERM; : < /dev/tty && echo controlling"
    code, out = await porter.run("sh", "-c", command, terminal=True, columns=132, rows=43)
    name, *rest = out.decode().split("\r\n")
    assert (code, rest) == (0, ["43 132", "yes", "xterm-256color", "controlling", ""])
    assert name.startswith("/dev/pts/")


async def test_a_terminal_can_be_resized_and_the_command_is_told(porter: Porter):
    stream = await open_in(porter.door, Command(("bash", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.1; done"), terminal=True))
    assert os.read(stream.stdin, 100).startswith(b"ready")
    stream.resize(101, 51)
    assert b"51 101" in await read_to_end(stream.stdin)
    await stream.close()


async def test_control_c_interrupts_in_a_terminal(porter: Porter):
    stream = await open_in(porter.door, Command(("sh", "-c", "echo ready; exec sleep 1000"), terminal=True))
    assert os.read(stream.stdin, 100).startswith(b"ready")
    os.write(stream.stdin, b"\x03")
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 128 + signal.SIGINT
    await stream.close()


async def test_a_signal_reaches_the_whole_group(porter: Porter):
    stream = await open_in(porter.door, Command(("sh", "-c", "sleep 1000 & echo ready; wait")))
    assert os.read(stream.stdout, 100) == b"ready\n"
    stream.signal(signal.SIGTERM)
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 128 + signal.SIGTERM
    await until(lambda: porter.inside() == [])
    await stream.close()


async def test_hanging_up_ends_the_command_and_what_it_has_in_its_group(porter: Porter):
    stream = await open_in(porter.door, Command(("sh", "-c", "sleep 1000 & echo ready; wait")))
    assert os.read(stream.stdout, 100) == b"ready\n"
    await stream.close()
    assert await stream.wait() == 128 + signal.SIGHUP
    await until(lambda: porter.inside() == [])


async def test_what_ignores_the_hanging_up_goes_on_but_for_the_command_itself(porter: Porter):
    deaf = "trap '' HUP; setsid sleep 1001 & nohup sleep 1002 > /dev/null & echo ready; while :; do sleep 0.2; done"
    stream = await open_in(porter.door, Command(("bash", "-c", deaf)))
    assert os.read(stream.stdout, 100) == b"ready\n"
    await stream.close()
    await until(lambda: b"while" not in commands_in(porter))
    assert b"1001" in commands_in(porter)
    assert b"1002" in commands_in(porter)


async def test_hanging_up_reaches_a_stopped_command(porter: Porter):
    stream = await open_in(porter.door, Command(("sh", "-c", "echo ready; kill -STOP $$")))
    assert os.read(stream.stdout, 100) == b"ready\n"
    await until(lambda: porter.inside() == ["T"])
    await stream.close()
    await until(lambda: porter.inside() == [])


async def test_a_port_of_the_sessions_own_loopback_is_reached(porter: Porter):
    assert await echoed(porter, ECHO.format(PORT), PORT) == b"hello"


async def test_a_port_on_the_other_loopback_is_reached(porter: Porter):
    assert await echoed(porter, ECHO_SIX.format(PORT), PORT) == b"hello"


async def test_a_unix_socket_in_the_session_is_reached(porter: Porter):
    path = f"{porter.folder}/socket"
    assert await echoed(porter, ECHO_UNIX.format(path), path) == b"hello"


@pytest.mark.parametrize("where", [PORT, 0, 70000, -1, "", "/no/such/socket", "/etc/passwd", "relative", "/" + "x" * 200, "/a\0b"])
async def test_where_nobody_listens_is_refused_in_words(porter: Porter, where: int | str):
    with pytest.raises(EngineRefused):
        await connect_in(porter.door, where)
    assert await porter.run("true") == (0, b"")


async def test_a_unix_socket_is_opened_with_the_sessions_own_rights(porter: Porter):
    shut = porter.folder / "shut"
    shut.mkdir(mode=0o700)
    server = await asyncio.start_unix_server(lambda *_: None, shut / "socket")
    with pytest.raises(EngineRefused, match="Permission denied"):
        await connect_in(porter.door, str(shut / "socket"))
    server.close()


async def test_a_session_that_is_over_is_refused(start_porter):
    async with start_porter() as porter:
        os.kill(porter.pid, signal.SIGTERM)
        assert await porter.ended() == 128 + signal.SIGTERM
        with pytest.raises(EngineRefused, match="no longer there"):
            await open_in(porter.door, Command(("true",)))


async def test_a_number_given_to_another_process_since_is_not_taken_for_it(porter: Porter):
    with pytest.raises(EngineRefused, match="no longer there"):
        await open_in(replace(porter.door, birth_ticks=porter.door.birth_ticks - 1), Command(("true",)))


async def test_a_stream_of_a_session_that_is_killed_ends_as_killed(porter: Porter):
    stream = await open_in(porter.door, Command(("sleep", "1000")))
    os.kill(porter.pid, signal.SIGKILL)
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 128 + signal.SIGKILL
    await stream.close()


async def test_two_hundred_are_opened_at_once(porter: Porter):
    before = porter.open_files()
    done = await asyncio.gather(*(porter.run("sh", "-c", f"echo {number}; exit {number % 100}") for number in range(200)))
    assert done == [(number % 100, f"{number}\n".encode()) for number in range(200)]
    await until(lambda: porter.open_files() == before and porter.inside() == [])


async def echoed(porter: Porter, server: str, where: int | str) -> bytes:
    stream = await open_in(porter.door, Command(("python3", "-c", server)))
    assert os.read(stream.stdout, 100) == b"up\n"
    with await connect_in(porter.door, where) as connected:
        assert connected.getblocking()
        connected.sendall(b"hello")
        said = connected.recv(100)
    await stream.close()
    return said


def commands_in(porter: Porter) -> bytes:
    return b"\n".join(porter.command_lines())
