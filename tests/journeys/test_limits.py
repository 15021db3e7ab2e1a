"""Limits of a server as it is shipped, made small by its settings: each is reached, told in words and counted, and nobody else notices."""
import contextlib
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import aiohttp
import asyncssh
import pytest
from bench.server import LiveServer
from test_ssh import Person, ssh_port
from web_terminal import a_terminal

from gpufairy.client.errors import Problem
from raw_http import ask
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
[node]
cpus = 64
memory = "256GiB"
name = "box"
[policy]
log_cap = "4MiB"
[limits]
request_time = "2s"
connections = 60
connections_per_source = 20
streams_per_user = 3
queued_per_user = 5
ssh_login_time = "3s"
ssh_waiting = 8
ssh_waiting_per_source = 4
ssh_connections_per_user = 2
ssh_channels = 2
"""


@pytest.fixture(scope="module")
def live():
    if shutil.which("ssh") is None:
        pytest.skip("no ssh on this machine: apt-get install openssh-client")
    folder = Path(tempfile.mkdtemp(prefix="fairy-j-"))
    with LiveServer(folder, SETTINGS, ("--simulate", "2xA100-40GB", "--listen", "0.0.0.0"), ssh=True) as started:
        yield started
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def kim(live):
    return Person(live, "kim")


@pytest.fixture(scope="module")
def kims_token(live, kim):
    with live.client() as admin:
        return admin.create_token({"user": "kim"})["token"]


def here(live) -> str:
    """By loopback, which no limit of one address is for."""
    return f"http://127.0.0.1:{live.port}"


def refused(live, limit: str) -> int:
    """As /metrics has it."""
    page = ask(here(live), "GET", "/metrics", token=live.token).body.decode()
    return int(re.search(rf'^fairy_refused_total{{limit="{limit}"}} (\d+)$', page, re.MULTILINE)[1])


@contextlib.contextmanager
def raw(live, said: bytes = b"", host: str = "127.0.0.1", port: int | None = None):
    with contextlib.closing(socket.create_connection((host, port or live.port), timeout=20)) as made:
        made.sendall(said)
        yield made


def to_the_end(link: socket.socket) -> bytes:
    seen = b""
    with contextlib.suppress(ConnectionResetError):
        while more := link.recv(65536):
            seen += more
    return seen


@pytest.mark.parametrize("said", [b"GET /healthz HTTP/1.1\r\nx-never: ", b"POST /api/v1/sessions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"])
def test_a_request_that_does_not_come_whole_in_time_is_told_so(live, said):
    said = said.replace(b"HTTP/1.1\r\n", f"HTTP/1.1\r\nAuthorization: Bearer {live.token}\r\n".encode())
    before, began = refused(live, "request_time"), time.monotonic()
    with raw(live, said) as slow:
        answer = to_the_end(slow)
    assert 1.5 < time.monotonic() - began < 10
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["next"] == "Send it again, all at once."
    assert refused(live, "request_time") == before + 1


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_or_a_head_that_is_too_large_is_told_so(live, chunked):
    before = refused(live, "body_size"), refused(live, "head_size")
    piece = b"x" * 2**16
    size, body = (b"Transfer-Encoding: chunked", b"10000\r\n" + piece + b"\r\n") if chunked else (b"Content-Length: 1310720", piece)
    head = b"POST /api/v1/sessions HTTP/1.1\r\nAuthorization: Bearer " + live.token.encode() + b"\r\n" + size + b"\r\n\r\n"
    with raw(live, head) as large, contextlib.suppress(ConnectionError):
        for _ in range(20):
            large.sendall(body)
        answer = large.recv(65536)
        while b"}" not in answer:
            answer += large.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"larger than 1 MiB" in answer
    assert ask(here(live), "GET", "/healthz", headers={"x-large": "x" * 70_000}).status == 431
    assert (refused(live, "body_size"), refused(live, "head_size")) == (before[0] + 1, before[1] + 1)


def test_silent_connections_make_room_for_those_who_ask(live):
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(raw(live)) for _ in range(100)]
        assert ask(here(live), "GET", "/healthz").status == 200
        cut = sum(is_cut(link) for link in links)
    assert cut >= 40


def is_cut(link: socket.socket) -> bool:
    link.setblocking(False)
    try:
        return not link.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.fixture(scope="module")
def own():
    """An address of this machine that is not loopback: for the server a stranger's."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but its own loopback")
        return probe.getsockname()[0]


def test_one_address_has_so_many_connections_and_this_machine_as_many_as_it_likes(live, own):
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(raw(live, b"GET /healthz HTTP/1.1\r\n\r\n", host=own)) for _ in range(20)]
        assert all(link.recv(65536).startswith(b"HTTP/1.1 200") for link in links)
        answer = to_the_end(stack.enter_context(raw(live, b"GET /healthz HTTP/1.1\r\n\r\n", host=own)))
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"\r\nretry-after: 5\r\n" in answer
        assert b"limits.trusted" in answer
        assert ask(here(live), "GET", "/healthz").status == 200
    assert refused(live, "connections_per_source") >= 1


async def test_a_user_has_so_many_streams_and_one_that_ends_makes_room(live, kim, kims_token):
    kim.client.submit({"name": "shell", "kind": "interactive", "gpus": "0"})
    wait_for_state(kim.client, "shell", "RUNNING")
    follow, headers = f"{here(live)}/api/v1/events?follow=1", {"Authorization": f"Bearer {kims_token}"}
    async with aiohttp.ClientSession(headers=headers) as client:
        held = [await client.get(follow) for _ in range(3)]
        assert [one.status for one in held] == [200] * 3
        for path in ("events?follow=1", "sessions/shell/logs?follow=1"):
            async with client.get(f"{here(live)}/api/v1/{path}") as one_more:
                told = await one_more.json(content_type=None)
                assert (one_more.status, one_more.headers["Retry-After"]) == (429, "5")
                assert told["detail"] == "kim has 3 streams open: pages, followed logs and terminals together"
        with pytest.raises(aiohttp.WSServerHandshakeError) as denied:
            async with a_terminal(live, "shell", Authorization=f"Bearer {kims_token}"):
                pass
        assert denied.value.status == 429
        assert ask(here(live), "GET", "/api/v1/sessions/shell", token=kims_token).status == 200
        held[0].close()
        deadline = time.monotonic() + 10
        while (again := await client.get(follow)).status != 200:
            assert time.monotonic() < deadline
        for one in (*held[1:], again):
            one.close()
    assert refused(live, "streams_per_user") >= 3


def test_a_user_has_so_many_sessions_in_the_queue_and_others_are_let_in(live, kim):
    with live.client() as admin:
        admin.submit({"name": "hog", "gpus": "2", "command": ["sleep", "600"]})
        wait_for_state(admin, "hog", "RUNNING")
        waits = {"gpus": "1", "command": ["true"]}
        kim.client.submit({**waits, "name": "sweep"}, count=4)
        with pytest.raises(Problem) as answer:
            kim.client.submit(waits, count=2)
        assert answer.value.status == 429
        assert "kim has 4 sessions that wait, and 5 is the most; 2 more asked" in str(answer.value)
        kim.client.submit({**waits, "name": "last", "after": ["sweep-1"]})
        with pytest.raises(Problem, match="kim has 5 sessions that wait"):
            kim.client.submit(waits)
        assert admin.submit({"gpus": "0", "command": ["true"]})["name"]
        for name in ("last", *(f"sweep-{number}" for number in range(1, 5))):
            kim.client.stop(name)
        admin.stop("hog")
    until(lambda: kim.client.submit({**waits, "gpus": "0"}), "room in the line")
    assert refused(live, "queued_per_user") == 2


def test_a_log_without_end_keeps_its_beginning_and_its_end(live, kim, kims_token):
    flood = "echo the first; head -c 40000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the last"
    kim.client.submit({"name": "flood", "gpus": "0", "command": ["sh", "-c", flood]})
    wait_for_state(kim.client, "flood", "ENDED", limit_s=60)
    log = ask(here(live), "GET", "/api/v1/sessions/flood/logs", token=kims_token).body
    assert len(log) < 8 * 2**20
    assert log.startswith(b"the first\n")
    assert log.rstrip().endswith(b"the last")


def test_who_does_not_sign_in_by_ssh_in_time_is_dropped_and_counted_by_the_server(live, kim):
    before, began = refused(live, "ssh_login_time"), time.monotonic()
    with raw(live, port=ssh_port(live)) as silent, raw(live, b"SSH-2.0-slow\r\n", port=ssh_port(live)) as halfway:
        to_the_end(silent)
        to_the_end(halfway)
    assert 2 < time.monotonic() - began < 10
    until(lambda: refused(live, "ssh_login_time") == before + 2, "the gateway to tell the server", limit_s=10)


def test_too_many_who_wait_by_ssh_make_room_for_those_who_come(live, kim):
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(raw(live, port=ssh_port(live))) for _ in range(20)]
        assert kim.ssh("true", session="shell").returncode == 0
        assert sum(is_cut_after_hello(link) for link in links) >= 12
    until(lambda: refused(live, "ssh_waiting") >= 12, "the gateway to tell the server", limit_s=10)


def test_one_address_has_only_so_many_who_wait_by_ssh(live, kim, own):
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(raw(live, host=own, port=ssh_port(live))) for _ in range(8)]
        until(lambda: refused(live, "ssh_waiting_per_source") >= 4, "the gateway to tell the server", limit_s=10)
        assert sum(is_cut_after_hello(link) for link in links) >= 4
        assert kim.ssh("true", session="shell").returncode == 0


async def test_a_connection_has_so_many_channels(live, kim):
    signed_in = {"username": "kim+shell", "client_keys": [str(kim.key)], "known_hosts": None, "config": None, "agent_path": None}
    async with asyncssh.connect("127.0.0.1", ssh_port(live), **signed_in) as connection:
        held = [await connection.create_process("sleep 600") for _ in range(2)]
        with pytest.raises(asyncssh.ChannelOpenError, match="2 channels are open here, close some first"):
            await connection.create_process("true")
        for process in held:
            process.close()
    until(lambda: refused(live, "ssh_channels") >= 1, "the gateway to tell the server", limit_s=10)


def is_cut_after_hello(link: socket.socket) -> bool:
    link.setblocking(False)
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        link.recv(100)
    return is_cut(link)


def test_a_user_has_so_many_connections_by_ssh(live, kim):
    lines = [subprocess.Popen(kim.line("echo in; exec sleep 600", session="shell"), stdout=subprocess.PIPE) for _ in range(2)]
    try:
        assert [line.stdout.readline() for line in lines] == [b"in\n"] * 2
        refused_one = kim.ssh("true", session="shell")
        assert (refused_one.returncode, b"kim has 2 connections open, close some first" in refused_one.stderr) == (255, True)
    finally:
        for line in lines:
            line.kill()
            line.communicate()
    until(lambda: refused(live, "ssh_connections_per_user") >= 1, "the gateway to tell the server", limit_s=10)
    until(lambda: kim.ssh("true", session="shell").returncode == 0, "room again")
