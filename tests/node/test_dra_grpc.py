"""Our gRPC server, asked by Google's own client, which the kubelet's is like; and by strangers."""
import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import EngineRefused
from gpufairy.node.dra.grpc_server import LARGEST, GrpcServer
from gpufairy.node.dra.messages import (
    Prepared,
    asked_claims,
    counted,
    plugin_info,
    prepared_answer,
    registration_trouble,
    unprepared_answer,
)
from gpufairy.node.pod_resources import counted_fields

NAME = "/a.B/Echo"


@asynccontextmanager
async def serving(**methods) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="grpc-") as folder:
        server = GrpcServer(Path(folder) / "s", {f"/a.B/{name}": of for name, of in methods.items()})
        await server.start()
        try:
            yield server.path
        finally:
            await server.close()
            assert not server.path.exists()


async def echo(message: bytes) -> bytes:
    return message


async def ask(path: Path, message: bytes, name: str = NAME, limit_s: float = 10.0) -> bytes:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        return await channel.unary_unary(name)(message, timeout=limit_s)


@pytest.mark.parametrize("size", [0, 1, 300, 70_000, 900_000])
async def test_messages_of_any_size_come_back_whole(size):
    async with serving(Echo=echo) as path:
        assert await ask(path, b"x" * size) == b"x" * size


async def test_many_questions_on_one_connection_are_answered_side_by_side():
    release = asyncio.Event()

    async def wait(message: bytes) -> bytes:
        await release.wait()
        return message

    async with serving(Echo=echo, Wait=wait) as path, grpc.aio.insecure_channel(f"unix:{path}") as channel:
        slow = [channel.unary_unary("/a.B/Wait")(bytes([number]), timeout=10) for number in range(20)]
        assert await channel.unary_unary(NAME)(b"quick", timeout=10) == b"quick"
        release.set()
        assert await asyncio.gather(*slow) == [bytes([number]) for number in range(20)]


async def test_what_went_wrong_is_told_in_words():
    async def refuse(message: bytes) -> bytes:
        raise EngineRefused("the GPU is gone: 서버", "Look for it.")

    async with serving(Echo=refuse) as path:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await ask(path, b"")
        assert (told.value.code(), told.value.details()) == (grpc.StatusCode.INTERNAL, "the GPU is gone: 서버 Look for it.")
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await ask(path, b"", "/a.B/Other")
        assert told.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_work_for_a_caller_who_no_longer_waits_is_given_up():
    given_up = asyncio.Event()

    async def wait(message: bytes) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return b""

    async with serving(Echo=wait) as path:
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(path, b"", limit_s=0.2)
        await asyncio.wait_for(given_up.wait(), 10)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", bytes(200), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\1" + bytes(7)])
async def test_who_speaks_something_else_is_hung_up_on_and_others_are_served(said):
    async with serving(Echo=echo) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(said)
        await asyncio.wait_for(reader.read(), 10)  # up to its end
        writer.close()
        assert await ask(path, b"x") == b"x"


async def test_a_question_has_a_limit_in_size():
    async with serving(Echo=echo) as path:
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(path, b"x" * (LARGEST + 1))
        assert await ask(path, b"x") == b"x"


async def test_a_socket_that_was_left_is_replaced_and_nobody_else_may_open_ours():
    with tempfile.TemporaryDirectory(prefix="grpc-") as folder:
        path = Path(folder) / "s"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        server = GrpcServer(path, {NAME: echo})
        await server.start()
        assert path.stat().st_mode & 0o777 == 0o600
        assert await ask(path, b"x") == b"x"
        await server.close()


async def test_a_path_too_long_for_a_socket_is_told_in_words(tmp_path):
    with pytest.raises(EngineRefused, match="longer than a socket's path may be"):
        await GrpcServer(tmp_path / ("x" * 120), {}).start()


def a_claim(namespace: str, uid: str, name: str) -> bytes:
    return counted(1, b"".join(counted(number, text.encode()) for number, text in enumerate((namespace, uid, name), 1)))


def test_claims_are_read_as_the_kubelet_writes_them():
    found = asked_claims(a_claim("ml", "4f7e-1", "train") + a_claim("ml", "4f7e-2", "x" * 200))
    assert [(one.namespace, one.uid, len(one.name)) for one in found] == [("ml", "4f7e-1", 5), ("ml", "4f7e-2", 200)]


@pytest.mark.parametrize("claim", [("ml", "../../etc", "a"), ("ml", "u", "a/b"), ("", "u", "a"), ("ml", "", "a"), ("ml", "u", "x" * 300)])
def test_a_claim_that_could_name_a_file_elsewhere_is_not_read(claim):
    with pytest.raises(ValueError, match="name"):
        asked_claims(a_claim(*claim))


@given(st.binary(max_size=200))
def test_any_bytes_are_claims_or_are_refused(message):
    with suppress(ValueError):
        asked_claims(message)


def test_answers_have_an_entry_for_each_claim():
    told = prepared_answer({"u1": [Prepared(("gpu-0",), "here", "gpu-1", ("nvidia.com/gpu=GPU-1", "gpu.fairy/claim=u1-0"))], "u2": "no room"})
    first, second = counted_fields(told, 1)
    assert list(counted_fields(first, 1)) == [b"u1"]
    device = next(counted_fields(next(counted_fields(first, 2)), 1))
    assert [list(counted_fields(device, number)) for number in (1, 2, 3, 4)] == [
        [b"gpu-0"], [b"here"], [b"gpu-1"], [b"nvidia.com/gpu=GPU-1", b"gpu.fairy/claim=u1-0"],
    ]
    assert list(counted_fields(next(counted_fields(second, 2)), 2)) == [b"no room"]
    assert [list(counted_fields(one, 1)) for one in counted_fields(unprepared_answer({"u1": "", "u2": "x"}), 1)] == [[b"u1"], [b"u2"]]


def test_the_kubelet_is_told_who_we_are_and_heard_whether_it_takes_us():
    info = plugin_info("gpu.fairy", "/x/dra.sock", ["v1.DRAPlugin"])
    assert [next(counted_fields(info, number)) for number in (1, 2, 3, 4)] == [b"DRAPlugin", b"gpu.fairy", b"/x/dra.sock", b"v1.DRAPlugin"]
    assert registration_trouble(b"\x08\x01") == ""
    assert registration_trouble(counted(2, b"wrong version")) == "wrong version"
    assert registration_trouble(b"") == "it did not say why"
