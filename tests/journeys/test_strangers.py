"""Connections of those who have not signed in: what they may cost is bounded, in bytes and in seconds; others notice nothing."""
import asyncio
import http.client
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import pytest
import uvicorn

from gpufairy.core.limits import Limit
from gpufairy.main.crowd import Crowd, CrowdLimits
from gpufairy.main.http import Door, GuardedHttp, Limits
from waits import wait_for_state

pytestmark = pytest.mark.slow  # servers of their own

ENDS_S = 20  # a test that waits in vain fails then


class Impatient(GuardedHttp):
    limits = Limits(head_bytes=8192, request_s=0.3, flush_s=0.4, requests_ahead=4, of_one_uid=3)
    door = Door()


async def echo_later(scope, receive, send):
    """Answers when the body is whole; at /slow much later than any deadline."""
    seen = b""
    while (message := await receive())["type"] == "http.request":
        seen += message["body"]
        if not message["more_body"]:
            break
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(seen)).encode())]})
    await send({"type": "http.response.body", "body": seen})


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(listener):
            yield listener.getsockname()[1]


@asynccontextmanager
async def serving(listener: socket.socket, idle_s: int = 1, made_by: type[GuardedHttp] = Impatient) -> AsyncIterator[None]:
    settings = uvicorn.Config(
        echo_later, http=made_by, ws="none", log_config=None, access_log=False, lifespan="off", timeout_keep_alive=idle_s
    )
    server = uvicorn.Server(settings)
    settings.load()
    server.lifespan = settings.lifespan_class(settings)
    await server.startup([listener])
    yield
    await server.shutdown([listener])


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with listening() as port, asyncio.timeout(ENDS_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:  # cut with bytes of ours unread
        return b""


async def test_a_connection_that_says_nothing_is_dropped():
    async with connection() as (reader, _):
        assert await to_the_end(reader) == b""


async def test_a_head_that_comes_a_byte_at_a_time_is_told_so_and_dropped():
    async with connection() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx-slow: ")
        dropped = asyncio.create_task(to_the_end(reader))
        while not dropped.done():
            writer.write(b"x")
            await asyncio.wait([dropped], timeout=0.02)
        assert_too_slow(dropped.result())


async def test_a_second_head_that_never_ends_is_dropped_too():
    async with connection() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n\r\nGET / HT")
        assert b"200" in await to_the_end(reader)


async def test_a_body_that_never_ends_is_told_so_and_dropped():
    async with connection() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        dropped = asyncio.create_task(to_the_end(reader))
        while not dropped.done():
            writer.write(b"x")
            await asyncio.wait([dropped], timeout=0.02)
        assert_too_slow(dropped.result())


def assert_too_slow(answer: bytes) -> None:
    """What was sent meanwhile may undo the answer on its way, which is the sender's own doing."""
    assert answer[:12] in (b"HTTP/1.1 408", b"")
    assert not answer or b'"next":"Send it again, all at once."' in answer


async def test_a_large_body_that_keeps_coming_may_take_longer_than_a_request():
    async with connection() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 40000\r\n\r\n")
        answer = asyncio.create_task(to_the_end(reader))
        for _ in range(10):
            writer.write(b"x" * 4000)
            await asyncio.wait([answer], timeout=0.06)
        assert (await answer).startswith(b"HTTP/1.1 200")


async def test_those_turned_away_are_counted():
    class Counting(Impatient):
        door = Door()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(listener, made_by=Counting), asyncio.timeout(ENDS_S):
            for said in (b"", b"GET / HTTP/1.1\r\nx-large: " + b"x" * 10_000 + b"\r\n\r\n"):
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                writer.write(said)
                await to_the_end(reader)
                writer.close()
    totals = Counting.door.refusals.totals()
    assert (totals[Limit.REQUEST_TIME], totals[Limit.HEAD_SIZE]) == (1, 1)


@pytest.mark.parametrize("endless", [b"x-filler: ", b"x: y\r\n", b"\r\n"])
async def test_a_head_without_end_is_refused_before_it_fills_memory(endless: bytes):
    async with connection() as (reader, writer):
        writer.write(b"" if endless == b"\r\n" else b"GET / HTTP/1.1\r\n")
        answer = asyncio.create_task(to_the_end(reader))
        sent = 0
        while not answer.done() and sent < 2**20:
            writer.write(endless * 100)
            sent += len(endless) * 100
            await asyncio.wait([answer], timeout=0.001)
        assert sent < 2**20
        assert answer.result()[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400", b"")


async def test_a_large_head_that_comes_at_once_is_told_what_is_wrong():
    async with connection() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx-large: " + b"x" * 10_000 + b"\r\n\r\n")
        answer = await to_the_end(reader)
    assert answer.startswith(b"HTTP/1.1 431")
    assert b"application/problem+json" in answer


async def test_fields_after_the_body_are_bounded_too():
    async with connection() as (reader, writer):
        writer.write(b"POST /slow HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
        answer = asyncio.create_task(to_the_end(reader))
        sent = 0
        while not answer.done() and sent < 2**20:
            writer.write(b"x-trailer: y\r\n" * 100)
            sent += 1400
            await asyncio.wait([answer], timeout=0.001)
        assert sent < 2**20


async def test_more_requests_ahead_than_anybody_needs_are_refused():
    async with connection() as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n" * 1000)
        assert (await to_the_end(reader)).count(b"200 OK") < 10


async def test_what_is_no_http_is_told_so():
    async with connection() as (reader, writer):
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await to_the_end(reader)).startswith(b"HTTP/1.1 400")


async def test_an_answer_may_take_longer_than_every_deadline_and_the_connection_serves_on():
    async with connection() as (reader, writer):
        for _ in range(2):
            writer.write(b"POST /slow HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(4) == b"body"
        assert await to_the_end(reader) == b""  # and in the end the idle connection is closed


async def test_one_uid_has_so_many_connections_by_a_unix_socket_and_those_that_end_make_room(tmp_path):
    path = str(tmp_path / "api.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        async with serving(listener, idle_s=60), asyncio.timeout(ENDS_S):
            for _ in range(2):
                writers = [await answered(path) for _ in range(3)]
                assert not await is_answered(path)
                for writer in writers:
                    writer.close()
                    await writer.wait_closed()
                while not await is_answered(path):
                    pass


def crowded(**limits: int) -> type[GuardedHttp]:
    """With a door that takes few, and thinks of this machine as of any other."""

    class Strangers(Crowd):
        def come(self, line, host):
            return super().come(line, "203.0.113.7")

    class Crowded(GuardedHttp):
        door = Door(Strangers(CrowdLimits(**limits)))

    return Crowded


async def kept(listener: socket.socket) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """The answer of a connection that stays open, if it is let in."""
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


async def test_one_address_has_so_many_connections_and_those_that_end_make_room():
    made_by = crowded(per_source=3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(listener, idle_s=60, made_by=made_by), asyncio.timeout(ENDS_S):
            held = [await kept(listener) for _ in range(3)]
            assert [one[0][:12] for one in held] == [b"HTTP/1.1 200"] * 3
            refused, reader, writer = await kept(listener)
            assert refused.startswith(b"HTTP/1.1 429")
            assert b"retry-after: 5" in refused
            assert b"limits.trusted" in await to_the_end(reader)
            writer.close()
            held[0][2].close()
            while not (again := await kept(listener))[0].startswith(b"HTTP/1.1 200"):
                again[2].close()
            for _, _, writer in (*held, again):
                writer.close()
    assert made_by.door.refusals.totals()[Limit.CONNECTIONS_PER_SOURCE] >= 1


async def test_when_all_places_are_taken_the_longest_silent_makes_room_and_those_who_are_answered_stay():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(listener, idle_s=60, made_by=crowded(connections=2)), asyncio.timeout(ENDS_S):
            busy_reader, busy = await asyncio.open_connection(*listener.getsockname())
            busy.write(b"GET /slow HTTP/1.1\r\n\r\n")
            _, silent_reader, silent = await kept(listener)
            newer = await kept(listener)
            assert newer[0].startswith(b"HTTP/1.1 200")
            assert await to_the_end(silent_reader) == b""
            assert (await busy_reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            for writer in (busy, silent, newer[2]):
                writer.close()


async def test_when_all_who_are_in_wait_for_an_answer_one_more_is_told_to_come_again():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(listener, idle_s=60, made_by=crowded(connections=1)), asyncio.timeout(ENDS_S):
            reader, busy = await asyncio.open_connection(*listener.getsockname())
            busy.write(b"GET /slow HTTP/1.1\r\n\r\n")
            refused, _, writer = await kept(listener)
            assert refused.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 5" in refused
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            busy.close()
            writer.close()


async def answered(path: str) -> asyncio.StreamWriter:
    """A connection that is answered, and stays."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
    assert (await reader.readuntil(b"body")).startswith(b"HTTP/1.1 200")
    return writer


async def is_answered(path: str) -> bool:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    seen = await to_the_end(reader)
    writer.close()
    return seen.startswith(b"HTTP/1.1 200")


@contextmanager
def raw(server) -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=40)) as made:
        yield made


def is_dropped(held: socket.socket) -> bool:
    try:
        while held.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.slow
def test_strangers_are_dropped_by_the_real_server_and_those_who_follow_and_wait_are_not(server, fairy):
    fairy.submit({"name": "long", "gpus": "0", "command": ["sh", "-c", "echo begun; exec sleep 600"]})
    session = wait_for_state(fairy, "long", "RUNNING")
    poll, answers = fairy.again(), []
    waiter = threading.Thread(target=lambda: answers.append(poll.wait("long", session["revision"], 60)))
    waiter.start()
    followed = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    followed.request("GET", "/api/v1/sessions/long/logs?follow=1", headers={"Authorization": f"Bearer {server.token}"})
    log = followed.getresponse()
    assert log.readline() == b"begun\n"
    with raw(server) as silent, raw(server) as slow, raw(server) as idle:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nx-never: ")
        idle.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert all(is_dropped(held) for held in (silent, slow, idle))
        assert time.monotonic() - began < 20
    assert answers == []
    fairy.stop("long")
    waiter.join(ENDS_S)
    assert answers[0]["revision"] > session["revision"]
    log.read()
    wait_for_state(fairy, "long", "ENDED")
    followed.close()
    poll.close()
