"""Forwards into the own session, and nowhere else."""
import asyncio
import socket
import subprocess
import threading

import asyncssh
import pytest
from bench.ports import free_port
from ssh_scene import LIMIT_S, waiting

from waits import until

pytestmark = pytest.mark.system


@pytest.fixture
def echo():
    """Something that listens in the session: it sends back what it gets, then the count of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]


def answer(listener):
    while True:
        try:
            link, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=echo_back, args=(link,), daemon=True).start()


def echo_back(link):
    count = 0
    with link:
        while data := link.recv(65536):
            count += len(data)
            link.sendall(data)
        link.sendall(b"%d" % count)


def spoken_to(port: int, data: bytes) -> bytes:
    """All that comes back: both directions at once, each ended on its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as link:
        sender = threading.Thread(target=lambda: (link.sendall(data), link.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b"".join(iter(lambda: link.recv(65536), b""))
        sender.join()
    return got


@pytest.mark.parametrize("target", ["localhost", "127.0.0.1", "train"])
def test_ssh_forwards_a_port_of_the_own_session(scene, echo, target):
    port = free_port()
    with scene.popen("echo ready; cat", user="kim+train", options=("-L", f"{port}:{target}:{echo}")) as process:
        process.stdout.readline()
        data = bytes(range(256)) * 20_000
        assert spoken_to(port, data) == data + b"%d" % len(data)
        process.stdin.close()


def test_a_forward_needs_no_shell(scene, echo):
    port = free_port()
    with scene.popen(options=("-N", "-L", f"{port}:localhost:{echo}")) as process:
        until(lambda: is_listening(port), "ssh to listen")
        assert spoken_to(port, b"abc") == b"abc3"
        process.terminate()


def is_listening(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def test_a_socks_proxy_leads_into_the_session_alone(scene, echo):
    port = free_port()
    with scene.popen("echo ready; cat", options=("-D", str(port))) as process:
        process.stdout.readline()
        for target, code in (("127.0.0.1", b"\x00"), ("10.0.0.1", b"\x02"), ("example.org", b"\x02")):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as link:
                link.sendall(b"\x05\x01\x00")
                assert link.recv(2) == b"\x05\x00"
                link.sendall(b"\x05\x01\x00\x03" + bytes([len(target)]) + target.encode() + echo.to_bytes(2, "big"))
                seen = link.recv(10)
                assert (seen[1:2] == b"\x00") == (code == b"\x00"), (target, seen)
        process.stdin.close()


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "example.org", "0.0.0.0", "127.0.0.2", "::", "localhost.", "LOCALHOST\0", "", "trainer", "127.1", "2130706433"])
async def test_foreign_targets_are_refused_in_words_and_logged_once(scene, host):
    before = scene.log.count("refused a forward")
    async with await scene.connect("kim+train") as connection:
        for _ in range(3):
            with pytest.raises(asyncssh.ChannelOpenError, match="your own session alone"):
                await connection.open_connection(host, 80)
    assert scene.log.count("refused a forward") == before + 1
    assert scene.house.asked == []


@pytest.mark.parametrize("port", [0, 65536, 2**32 - 1])
async def test_a_port_that_is_none_is_refused(scene, port):
    async with await scene.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("localhost", port)


async def test_a_port_where_nobody_listens_is_refused_in_words(scene):
    async with await scene.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="cannot be reached"):
            await connection.open_connection("localhost", free_port())


async def test_a_socket_file_of_the_session_is_reached(scene):
    path = scene.folder / "sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        async with await scene.connect() as connection:
            reader, writer = await connection.open_unix_connection(str(path))
            writer.write(b"hello")
            writer.write_eof()
            assert await reader.read() == b"hello5"
    path.unlink()


@pytest.mark.parametrize("path", ["", "relative", "/x\0y", "/" + "x" * 200, "@abstract"])
async def test_what_names_no_socket_file_is_refused(scene, path):
    async with await scene.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_unix_connection(path)


async def test_many_forwards_at_once_ask_for_the_door_once(scene, echo):
    async with await scene.connect() as connection:
        links = await asyncio.gather(*(connection.open_connection("localhost", echo) for _ in range(20)))
        for _, writer in links:
            writer.close()
    assert len(scene.house.asked) == 1


async def test_a_forward_waits_for_a_session_that_starts(scene, echo):
    answers = [waiting("STARTING"), scene.house.answer({})]
    scene.house.answer = lambda _: answers.pop(0) if len(answers) > 1 else answers[0]
    async with await scene.connect() as connection:
        reader, writer = await connection.open_connection("localhost", echo)
        writer.write_eof()
        assert await reader.read() == b"0"


def test_remote_forwards_are_refused_in_words(scene):
    done = scene.ssh("true", options=("-R", f"{free_port()}:localhost:22", "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO"))
    assert done.returncode == 255
    assert b"remote port forwarding failed" in done.stderr


async def test_remote_socket_files_are_refused(scene):
    async with await scene.connect() as connection:
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_path(str(scene.folder / "r"), str(scene.folder / "l"))
    assert not (scene.folder / "r").exists()


async def test_a_tunnel_is_refused_in_words(scene):
    async with await scene.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="tunnels are off"):
            await connection.create_tun(asyncssh.SSHTunTapSession)


def test_an_agent_is_never_forwarded(scene):
    agent = scene.folder / "agent"
    started = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    try:
        until(agent.exists, "the agent to listen")
        done = scene.ssh("echo [$SSH_AUTH_SOCK]", options=("-A", "-o", f"IdentityAgent={agent}"))
        assert done.stdout == b"[]\n"
    finally:
        started.terminate()
        started.wait()
        agent.unlink(missing_ok=True)


async def test_x11_is_refused(scene):
    async with await scene.connect() as connection:
        shown = await connection.run("echo [$DISPLAY]", x11_forwarding="ignore_failure", x11_display="127.0.0.1:99")
    assert shown.stdout == "[]\n"


def test_what_was_refused_is_told_in_the_next_terminal(scene):
    done = scene.ssh(input=b"exit\n", options=("-tt", "-R", f"{free_port()}:localhost:22"))
    assert b"-R is off here" in done.stderr + done.stdout
