"""Requests that are broken, too large, half or never sent: the porter drops them, and serves the next one as if nothing had been."""
import asyncio
import os
import socket
import struct

import pytest
from porter_scene import PATIENCE_S, Porter, framed, until

pytestmark = pytest.mark.system
TRUE = struct.pack("<cBHH", b"E", 0, 80, 24) + b"/\0" + struct.pack("<I", 0) + struct.pack("<I", 1) + b"true\0"


def command(*, flags: int = 0, env: bytes = struct.pack("<I", 0), argv: bytes = struct.pack("<I", 1) + b"true\0", more: bytes = b"") -> bytes:
    return framed(struct.pack("<cBHH", b"E", flags, 80, 24) + b"/\0" + env + argv + more)


BROKEN = {
    "an unknown kind": framed(b"Q"),
    "a kind of zero": framed(b"\0"),
    "garbage": framed(bytes(range(256)) * 8),
    "no body": framed(b""),
    "only a kind": framed(b"E"),
    "half a number": framed(b"E\0\1"),
    "a folder without an end": framed(struct.pack("<cBHH", b"E", 0, 80, 24) + b"/endless"),
    "no arguments": command(argv=struct.pack("<I", 0)),
    "fewer arguments than it says": command(argv=struct.pack("<I", 9) + b"true\0"),
    "four billion arguments": command(argv=struct.pack("<I", 2**32 - 1) + b"true\0"),
    "four billion variables": command(env=struct.pack("<I", 2**32 - 1)),
    "an argument without an end": command(argv=struct.pack("<I", 1) + b"true"),
    "a variable without a value": command(env=struct.pack("<I", 1) + b"NAME\0"),
    "a variable without a name": command(env=struct.pack("<I", 1) + b"=value\0"),
    "bytes after its end": command(more=b"x"),
    "more than one MiB": struct.pack("<I", 2**20 + 1) + b"E",
    "four GiB": struct.pack("<I", 2**32 - 1) + b"E",
    "a port of zero": framed(b"C\0\0"),
    "half a port": framed(b"C\1"),
    "a path without an end": framed(b"U/tmp/x"),
    "an empty path": framed(b"U\0"),
    "a path too long": framed(b"U/" + b"x" * 5000 + b"\0"),
    "a signal without a command": framed(b"G\x09"),
}


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("descriptors", [0, 3])
async def test_a_broken_request_is_answered_with_no_or_nothing_and_harms_nobody(porter: Porter, request_bytes: bytes, descriptors: int):
    before = porter.open_files()
    said = await told(porter, request_bytes, descriptors)
    assert said == b"" or said[4:5] == b"F"
    assert await porter.run("echo", "alive") == (0, b"alive\n")
    await until(lambda: porter.open_files() == before)


@pytest.mark.parametrize(("flags", "descriptors"), [(0, 0), (0, 1), (0, 2), (1, 1), (1, 3), (0, 4), (0, 200)])
async def test_the_wrong_number_of_descriptors_is_refused_and_none_is_kept(porter: Porter, flags: int, descriptors: int):
    before = porter.open_files()
    said = await told(porter, command(flags=flags), descriptors)
    assert said == b"" or said[4:5] == b"F"
    await until(lambda: porter.open_files() == before)


async def test_a_request_may_come_a_byte_at_a_time(porter: Porter):
    loop = asyncio.get_running_loop()
    read, write = os.pipe()
    with await porter.raw() as line:
        whole = command()
        socket.send_fds(line, [whole[:1]], [read, write, write])
        for byte in whole[1:]:
            await loop.sock_sendall(line, bytes([byte]))
        started = await loop.sock_recv(line, 9)
        assert started[4:5] == b"S"
        assert await loop.sock_recv(line, 9) == framed(b"X" + struct.pack("<i", 0))
    os.close(read)
    os.close(write)


async def test_a_request_of_one_mib_is_served(porter: Porter):
    large = tuple((f"V{number}", "x" * 1000) for number in range(900))
    assert await porter.run("sh", "-c", "echo ${#V7} ${#V899}", env=large) == (0, b"1000 1000\n")


async def test_many_silent_peers_keep_nobody_out_and_are_dropped(porter: Porter):
    before = porter.open_files()
    silent = [await porter.raw() for _ in range(300)]
    for line in silent[::2]:
        line.send(struct.pack("<I", 500) + b"E")
    assert await porter.run("echo", "served") == (0, b"served\n")
    async with asyncio.timeout(PATIENCE_S):
        for line in silent:
            assert await asyncio.get_running_loop().sock_recv(line, 10) == b""
            line.close()
    assert porter.open_files() == before


async def test_peers_that_leave_at_any_point_leave_nothing_behind(porter: Porter):
    before = porter.open_files()
    whole = framed(TRUE)
    for cut in (0, 1, 4, 5, 9, len(whole) - 1, len(whole)):
        for _ in range(20):
            read, write = os.pipe()
            with await porter.raw() as line:
                if cut:
                    socket.send_fds(line, [whole[:cut]], [read, write, write])
            os.close(read)
            os.close(write)
    assert await porter.run("echo", "served") == (0, b"served\n")
    await until(lambda: porter.open_files() == before and porter.inside() == [])


async def test_broken_words_to_a_running_command_are_the_same_as_hanging_up(porter: Porter):
    read, write = os.pipe()
    sleeping = framed(struct.pack("<cBHH", b"E", 0, 80, 24) + b"/\0" + struct.pack("<II", 0, 2) + b"sleep\0001000\0")
    with await porter.raw() as line:
        socket.send_fds(line, [sleeping], [read, write, write])
        await asyncio.get_running_loop().sock_recv(line, 9)
        await until(lambda: porter.inside() != [])
        line.send(framed(b"G\xff") + framed(b"?"))  # an impossible signal, an unknown word: not heard
        line.send(struct.pack("<I", 2**31))
        await until(lambda: porter.inside() == [])
    os.close(read)
    os.close(write)


async def test_a_thousand_commands_leave_the_porter_as_small_as_it_was(porter: Porter):
    await asyncio.gather(*(porter.run("true") for _ in range(100)))
    before = memory_bytes(porter), porter.open_files()
    for _ in range(9):
        await asyncio.gather(*(porter.run("true") for _ in range(100)))
    await until(lambda: porter.open_files() == before[1])
    assert memory_bytes(porter) <= before[0] + 64 * 2**10


async def told(porter: Porter, request_bytes: bytes, descriptors: int) -> bytes:
    pairs = [os.pipe() for _ in range((descriptors + 1) // 2)]
    given = [end for pair in pairs for end in pair][:descriptors]
    try:
        with await porter.raw() as line:
            socket.send_fds(line, [request_bytes], given)
            line.shutdown(socket.SHUT_WR)
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(line, 4096), PATIENCE_S)
    except (ConnectionResetError, BrokenPipeError):  # it was dropped with bytes of it unread
        return b""
    finally:
        for pair in pairs:
            for end in pair:
                os.close(end)


def memory_bytes(porter: Porter) -> int:
    with open(f"/proc/{porter.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
