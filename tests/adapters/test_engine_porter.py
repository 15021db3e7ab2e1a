"""A porter that lies, is silent or sends what it should not: what may be found where a user is root in the container."""
import asyncio
import fcntl
import os
import resource
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.engines import network_namespace, porter
from gpufairy.engines.contract import Command, Door, DoorKind
from gpufairy.engines.docker_door import still_there
from gpufairy.engines.network_namespace import NAME
from gpufairy.engines.porter import connect_in, open_in
from gpufairy.engines.proc import stat_of

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="entering a network needs root")]
STARTED = struct.pack("<Ici", 5, b"S", 7)
EXITED = struct.pack("<Ici", 5, b"X", 3)
TERMINAL, PLAIN = Command(("sh",), terminal=True), Command(("sh",))
Play = Callable[[socket.socket], None]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(porter, "LONGEST_ANSWER_S", 0.5)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(NAME)
        made.listen(1)
        yield made


@pytest.fixture
def door(listener: socket.socket) -> Door:
    """This process is the porter, in this machine's own network."""
    return Door(DoorKind.PORTER, "/", "/bin/sh", pid=os.getpid(), birth_ticks=stat_of(os.getpid()).start_ticks)


@pytest.fixture
def null() -> Iterator[int]:
    """What nobody asks a porter for."""
    with open(os.devnull, "rb") as file:
        yield file.fileno()


@pytest.fixture
def playing(listener: socket.socket) -> Iterator[Callable[[Play], None]]:
    """Answer one request by this play, on a thread: the host's event loop must not be needed for it."""
    threads = []

    def play(act: Play) -> None:
        def once() -> None:
            with listener.accept()[0] as peer:
                peer.recv(65536)
                act(peer)
                while peer.recv(65536):
                    pass

        threads.append(threading.Thread(target=once))
        threads[-1].start()

    yield play
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def sending(*what: bytes) -> Play:
    return lambda peer: [peer.sendall(piece) for piece in what]


def sending_descriptors(*descriptors: int) -> Play:
    return lambda peer: socket.send_fds(peer, [STARTED], list(descriptors))


BAD_ANSWERS = {
    "nothing": b"",
    "half a length": b"\5\0",
    "half an answer": STARTED[:-1],
    "a length of nothing": struct.pack("<I", 0),
    "four GiB": struct.pack("<I", 2**32 - 1) + b"S" * 100,
    "an unknown kind": struct.pack("<Ici", 5, b"?", 0),
    "an exit before the start": EXITED,
    "words that are no text": struct.pack("<Ici", 9, b"F", 99999) + b"\xff\xfe\0\x1b",
}


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
async def test_a_bad_answer_is_a_refusal_and_leaves_nothing_open(door: Door, playing: Callable[[Play], None], answer: bytes):
    before = count_descriptors()
    playing(sending(answer))
    with pytest.raises(EngineRefused):
        await open_in(door, PLAIN)
    await descriptors_are(before)


@pytest.mark.parametrize("open_or_connect", [lambda door: open_in(door, TERMINAL), lambda door: connect_in(door, 80), lambda door: connect_in(door, "/x")])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
async def test_a_wrong_descriptor_is_a_refusal_and_is_closed(door: Door, playing: Callable[[Play], None], open_or_connect, count: int, null: int):
    before = count_descriptors()
    playing(sending_descriptors(*[null] * count) if count else sending(STARTED))
    with pytest.raises(EngineRefused, match="did not send what it was asked for"):
        await open_or_connect(door)
    await descriptors_are(before)


async def test_descriptors_that_nobody_asked_for_are_closed_with_the_stream(door: Door, playing: Callable[[Play], None], null: int):
    before = count_descriptors()
    playing(lambda peer: (socket.send_fds(peer, [STARTED], [null]), peer.sendall(EXITED)))
    stream = await open_in(door, PLAIN)
    assert await stream.wait() == 3
    await stream.close()
    await descriptors_are(before)


async def test_start_and_exit_may_come_in_one_piece(door: Door, playing: Callable[[Play], None]):
    playing(sending(STARTED + EXITED))
    stream = await open_in(door, PLAIN)
    assert await asyncio.wait_for(stream.wait(), 10) == 3
    assert await stream.wait() == 3
    await stream.close()


async def test_input_that_nobody_reads_takes_little_of_this_machines_memory(door: Door, playing: Callable[[Play], None]):
    playing(sending(STARTED + EXITED))
    stream = await open_in(door, PLAIN)
    assert fcntl.fcntl(stream.stdin, fcntl.F_GETPIPE_SZ) <= 65536 < fcntl.fcntl(stream.stdout, fcntl.F_GETPIPE_SZ)
    await stream.close()


async def test_nonsense_in_place_of_an_exit_code_is_taken_for_the_end(door: Door, playing: Callable[[Play], None]):
    playing(sending(STARTED, struct.pack("<I", 2**31) + b"x" * 50))
    stream = await open_in(door, PLAIN)
    assert await asyncio.wait_for(stream.wait(), 10) == 137
    await stream.close()


async def test_a_silent_porter_is_given_up_and_never_holds_up_others(door: Door, listener: socket.socket):
    """Nobody accepts: some wait in the queue, the others for a place in it."""
    many = [asyncio.create_task(open_in(door, PLAIN)) for _ in range(10)]
    started_s = asyncio.get_running_loop().time()
    for _ in range(20):
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() - started_s < 0.4
    for refused in await asyncio.wait_for(asyncio.gather(*many, return_exceptions=True), 10):
        assert isinstance(refused, EngineRefused)
        assert "in time" in str(refused)


async def test_an_open_that_is_cancelled_leaves_nothing_open(door: Door, listener: socket.socket):
    before = count_descriptors()
    for pause_s in (0, 0.001, 0.05):
        opening = asyncio.create_task(open_in(door, PLAIN))
        await asyncio.sleep(pause_s)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
    await descriptors_are(before)


async def test_somebody_else_at_the_door_is_not_spoken_to(listener: socket.socket):
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    its_door = Door(DoorKind.PORTER, "/", "/bin/sh", pid=other.pid, birth_ticks=stat_of(other.pid).start_ticks)
    with pytest.raises(EngineRefused, match="answers in place of the porter"):
        await open_in(its_door, PLAIN)
    other.kill()
    await other.communicate()


@pytest.mark.parametrize("command", [
    Command(("a\0b",)), Command(("sh",), env=(("NAME", "a\0b"),)), Command(("x" * 2**20,)), Command(("sh",), env=(("BIG", "x" * 2**20),)), Command(()),
])  # fmt: skip
async def test_what_cannot_be_asked_is_refused_before_it_is(door: Door, command: Command):
    with pytest.raises(EngineRefused):
        await open_in(door, command)


def count_descriptors() -> int:
    """Once nobody is on the way into a container any more: whoever is has some open."""
    network_namespace._traveller.submit(lambda: None).result()
    return len(os.listdir("/proc/self/fd"))


async def descriptors_are(count: int) -> None:
    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) != count:  # noqa: ASYNC110 (the other side closes its own when it likes)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("spare", range(3))
async def test_without_descriptors_all_is_refused_and_nothing_is_left_open(door: Door, spare: int):
    for ask in (lambda: open_in(door, PLAIN), lambda: open_in(door, TERMINAL), lambda: connect_in(door, 80)):
        with few_descriptors(spare), pytest.raises(EngineRefused, match="Too many open files"):
            await ask()
    with few_descriptors(0), pytest.raises(EngineRefused, match="Too many open files"):
        still_there(door)


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """So many are left to this process; and as many again at the end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.dup(0)
    os.close(first)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    again = os.dup(0)
    os.close(again)
    assert again == first


def test_the_limits_here_are_those_of_the_porter():
    source = Path(__file__).parents[2] / "native" / "door.c"
    assert "MOST_REQUEST_BYTES = 1 << 20" in source.read_text()
    assert porter.MOST_REQUEST_BYTES == 1 << 20
