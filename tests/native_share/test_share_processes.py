"""Many processes, one share: forked, killed in every phase, stopped, in crowds. What the driver handed out in all is told by its own accounts."""
import fcntl
import os
import signal
import struct
import sys
import time
from pathlib import Path

import pytest
from share_scene import CONTEXT_BYTES, MIB, WHOLE_BYTE, Box, Client

from waits import until

pytestmark = pytest.mark.slow  # each is quick; all of them are not

SHARE = 1024 * MIB


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def kill_when_stopped(client: Client) -> None:
    until(lambda: state(client.process.pid) == "T", "the program to stop inside the driver")
    client.process.kill()
    client.process.wait()


def nothing_is_left(box: Box) -> None:
    """A newcomer may have all but its context."""
    assert box.cuda.now() == 0
    with box.client() as client:
        client.do("begin 0", f"take plain {SHARE - CONTEXT_BYTES}", "give")
        assert client.info() == (SHARE - CONTEXT_BYTES, SHARE)
        assert (box.used(), box.asked()) == (CONTEXT_BYTES, 0)
    assert box.cuda.peak() <= SHARE


def test_two_processes_cannot_pass_the_check_together(box: Box) -> None:
    with box.client() as one, box.client() as two:
        one.do("begin 0")
        two.do("begin 0")
        for _ in range(50):
            for client in (one, two):
                client.send(f"take plain {600 * MIB}")
            said = sorted([one.hear(), two.hear()])
            assert said == ["0", "2"]
            for client in (one, two):
                client.do("give_all")
    assert box.cuda.peak() <= SHARE


def test_what_one_holds_the_other_sees_as_used(box: Box) -> None:
    with box.client() as one, box.client() as two:
        one.do("begin 0", f"take plain {300 * MIB}")
        two.do("begin 0")
        assert two.info() == (SHARE - 300 * MIB - 2 * CONTEXT_BYTES, SHARE)


@pytest.mark.parametrize("phase", ["cuMemAlloc_v2:before", "cuMemAlloc_v2:after", "cuMemFree_v2:before", "cuMemFree_v2:after"])
def test_killed_inside_an_allocation_or_a_free_it_leaves_nothing(box: Box, phase: str) -> None:
    with box.client(FAKE_CUDA_STOP=phase) as client:
        client.do("begin 0")
        client.send(f"take plain {700 * MIB}")
        if phase.startswith("cuMemFree"):
            assert client.hear() == "0"
            client.send("give")
        kill_when_stopped(client)
    nothing_is_left(box)


@pytest.mark.parametrize("kind", ["async", "pool", "create", "array", "node", "context"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_inside_any_kind_of_allocation_it_leaves_nothing(box: Box, kind: str, when: str) -> None:
    functions = {"async": "cuMemAllocAsync", "pool": "cuMemAllocFromPoolAsync", "create": "cuMemCreate", "array": "cuArrayCreate_v2", "node": "cuGraphLaunch", "context": "cuCtxCreate_v2"}
    with box.client(FAKE_CUDA_STOP=f"{functions[kind]}:{when}") as client:
        client.do("begin 0")
        client.send(f"take {kind} {512 * MIB}")
        kill_when_stopped(client)
    nothing_is_left(box)


def test_killed_while_others_allocate_it_is_reclaimed_by_them(box: Box) -> None:
    with box.client() as stays, box.client() as dies:
        stays.do("begin 0")
        dies.do("begin 0", f"take plain {900 * MIB}")
        assert stays.ask(f"take plain {500 * MIB}") == "2"
        dies.process.kill()
        dies.process.wait()
        stays.do(f"take plain {500 * MIB}")
    nothing_is_left(box)


def hold(file: int, byte: int) -> None:
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))


def holder_of_the_whole(box: Box) -> int:
    """A process that has locked the ledger and does no more."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        hold(os.open(box.ledger, os.O_RDWR), WHOLE_BYTE)
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return child


def test_a_dead_holders_lock_is_not_waited_for(box: Box) -> None:
    child = holder_of_the_whole(box)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with box.client() as client:
        client.do("begin 0")
        began = time.monotonic()
        assert client.ask(f"fill plain {64 * MIB}") == "15 2"
        assert time.monotonic() - began < 1  # what it waits for a living one


def test_a_stopped_holders_lock_is_waited_for_a_second_and_what_fits_is_granted_meanwhile(box: Box) -> None:
    child = holder_of_the_whole(box)
    os.kill(child, signal.SIGSTOP)
    try:
        with box.client() as client:
            client.do("begin 0", f"take plain {512 * MIB}")
            began = time.monotonic()
            assert client.ask(f"take plain {512 * MIB}") == "2"
            assert time.monotonic() - began < 3
            client.do(f"take plain {256 * MIB}")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    nothing_is_left(box)


def test_a_stopped_process_keeps_what_it_holds_and_hinders_nobody(box: Box) -> None:
    with box.client() as stopped, box.client() as other:
        stopped.do("begin 0", f"take plain {512 * MIB}")
        other.do("begin 0")
        stopped.process.send_signal(signal.SIGSTOP)
        assert other.ask(f"take plain {512 * MIB}") == "2"
        other.do(f"take plain {256 * MIB}")
        stopped.process.send_signal(signal.SIGCONT)
        stopped.do("give")
        other.do(f"take plain {512 * MIB}")


def test_stopped_in_the_driver_its_reservation_counts_and_ends_with_it(box: Box) -> None:
    with box.client(FAKE_CUDA_STOP="cuMemAlloc_v2:before") as stopped, box.client() as other:
        stopped.do("begin 0")
        other.do("begin 0")
        stopped.send(f"take plain {600 * MIB}")
        until(lambda: state(stopped.process.pid) == "T", "the program to stop inside the driver")
        assert other.ask(f"take plain {600 * MIB}") == "2"
        stopped.process.kill()
        stopped.process.wait()
        other.do(f"take plain {600 * MIB}")


def test_a_forked_child_holds_nothing_of_its_parents_and_takes_nothing_away(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take plain {512 * MIB}")
        # The driver does not serve a child of a process that has begun; its exit must not give the parent's memory away.
        assert client.ask(f"fork take plain {64 * MIB};give") == "3"
        assert client.hear() == "3"
        assert client.info() == (SHARE - 512 * MIB - CONTEXT_BYTES, SHARE)
        client.do("give")
    nothing_is_left(box)


def test_forked_workers_share_the_share(box: Box) -> None:
    """As data loaders and test runners do: a parent without CUDA forks, each child begins by itself."""
    with box.client() as client:
        assert client.ask(f"fork begin 0;take plain {512 * MIB};take plain {512 * MIB};info") == "0"
        assert [client.hear() for _ in range(3)] == ["0", "2", f"0 {SHARE - 512 * MIB - CONTEXT_BYTES} {SHARE}"]
        client.do("begin 0", f"take plain {900 * MIB}")  # the child is gone, with all it had
    nothing_is_left(box)


def test_a_child_that_outlives_its_parent_keeps_the_parents_memory_counted(box: Box) -> None:
    """The driver's descriptors live on in it, and so may the memory."""
    script = (
        "import ctypes, os, signal\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\ncontext = ctypes.c_void_p()\n"
        "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\n    os.close(1)\n    os.close(2)\n    signal.pause()\n"
    )
    done = box.run(sys.executable, "-c", script)
    child = int(done.stdout)
    try:
        with box.client() as client:
            assert client.ask("begin 0") == "0"
            assert client.info() == (SHARE - 2 * CONTEXT_BYTES, SHARE)
            os.kill(child, signal.SIGKILL)
            until(lambda: client.info() == (SHARE - CONTEXT_BYTES, SHARE), "the child's end to be seen")
    finally:
        if Path(f"/proc/{child}").exists():
            os.kill(child, signal.SIGKILL)


def test_exec_gives_back_what_the_program_before_held(box: Box) -> None:
    script = (
        "import ctypes, os\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\ncontext = ctypes.c_void_p()\n"
        "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\ncuda.cuCtxSetCurrent(context)\npointer = ctypes.c_ulonglong()\n"
        "assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(900 << 20)) == 0\nos.execvp('sleep', ['sleep', '60'])\n"
    )
    with Client([sys.executable, "-c", script], box.folder, box.env()) as client:
        until(lambda: Path(f"/proc/{client.process.pid}/comm").read_text() == "sleep\n", "the exec")
        with box.client() as other:
            other.do("begin 0")
            assert other.info() == (SHARE - CONTEXT_BYTES, SHARE)


def test_threads_of_one_process_keep_the_books_together(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0")
        assert client.ask("threads 8") == "fine"
        assert client.info() == (SHARE - CONTEXT_BYTES, SHARE)
    assert box.cuda.peak() <= SHARE


def test_a_child_forked_while_other_threads_allocate_does_not_wait_for_them(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0")
        assert client.ask("storm 100") == "fine"
        assert client.info() == (SHARE - CONTEXT_BYTES, SHARE)


@pytest.mark.parametrize("kind", ["plain", "create"])
def test_sixteen_processes_never_hold_more_than_the_share(box: Box, kind: str) -> None:
    with box.crowd(16) as clients:
        for client in clients:
            client.do("begin 0")
        for number, client in enumerate(clients):
            client.send(f"hammer {kind} 300 {256 * MIB} {number}")
        answers = [list(map(int, client.hear().split())) for client in clients]
        assert [code for code, _, _ in answers] == [0] * 16
        assert sum(refused for _, _, refused in answers) > 0  # it was short
        assert [client.end() for client in clients] == [0] * 16
    assert box.cuda.peak() > SHARE // 2
    nothing_is_left(box)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_sixty_four_processes_hammering_the_ledger_some_killed_stay_within_the_share(box: Box, kind: str) -> None:
    box.write_limits(f"gpu {box.cuda.cards[0].uuid} memory_bytes={SHARE} context_bytes={MIB}")
    with box.crowd(64, FAKE_CUDA_CONTEXT_BYTES=str(MIB)) as clients:
        for client in clients:
            client.do("begin 0")
        for number, client in enumerate(clients):
            client.send(f"hammer {kind} 200 {128 * MIB} {number}")
        for client in clients[::4]:
            client.process.kill()  # somewhere in the middle
        for client in (client for number, client in enumerate(clients) if number % 4):
            code, _, _ = map(int, client.hear().split())
            assert code == 0
            assert client.end() == 0
    assert SHARE // 2 < box.cuda.peak() <= SHARE
    assert box.cuda.now() == 0
    with box.client(FAKE_CUDA_CONTEXT_BYTES=str(MIB)) as client:
        client.do("begin 0")
        assert client.info() == (SHARE - MIB, SHARE)
