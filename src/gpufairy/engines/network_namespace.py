"""Reaching a porter: a socket made in a container's network namespace is of that namespace for ever, whoever uses it later.

Only a thread of its own ever goes there, and it never waits there: it makes the socket, connects it, and comes back.
"""
import asyncio
import contextlib
import ctypes
import os
import socket
import struct
from concurrent.futures import Future, ThreadPoolExecutor

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.proc import stat_of

NAME = "\0gpufairy-porter"
CLONE_NEWNET = 0x40000000
AGAIN_S = 0.01  # when the porter's queue is full: it takes a few hundred a second even on a busy machine
CREDENTIALS = struct.Struct("3i")
NAMESPACE = "/proc/{}/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)
_traveller = ThreadPoolExecutor(1, thread_name_prefix="into-a-container")


async def connect_inside(pid: int, birth_ticks: int) -> socket.socket:
    """A socket connected to the porter that is process `pid` of this machine, not blocking. Raises EngineRefused, OSError."""
    while True:
        travel = _traveller.submit(_there_and_back, pid, birth_ticks)
        try:
            return await asyncio.wrap_future(travel)
        except BlockingIOError:
            await asyncio.sleep(AGAIN_S)
        except asyncio.CancelledError:
            # A thread that is on its way closes itself what it brings: this loop may be over by then.
            travel.add_done_callback(_close_unwanted)
            raise


def _close_unwanted(travel: Future[socket.socket]) -> None:
    if not travel.cancelled() and travel.exception() is None:
        travel.result().close()


def _there_and_back(pid: int, birth_ticks: int) -> socket.socket:
    home = os.open(NAMESPACE.format("self"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        away = _namespace(pid, birth_ticks)
        try:
            _enter(away)
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        finally:
            _enter(home)  # to stay would keep a dead container's network alive
            os.close(away)
    finally:
        os.close(home)
    try:
        made.connect(NAME)
        _check_peer(made, pid)
    except OSError:
        made.close()
        raise
    return made


def _namespace(pid: int, birth_ticks: int) -> int:
    """Opened first, looked at second: what is open can no longer come to mean another process's."""
    try:
        descriptor = os.open(NAMESPACE.format(pid), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _over(pid) from error
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(os.close, descriptor)
        found = stat_of(pid)
        if found is None or found.zombie or found.start_ticks != birth_ticks:
            raise _over(pid)
        on_failure.pop_all()
    return descriptor


def _over(pid: int) -> EngineRefused:
    return EngineRefused(f"the session's first process, {pid}, is no longer there", "See `fairy ps`.")


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"entering a session's network: {os.strerror(number)}")


def _check_peer(connected: socket.socket, pid: int) -> None:
    """Whoever listens there was asked of the kernel, not believed."""
    seen = CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[0]
    if seen != pid:
        raise ConnectionRefusedError(f"process {seen} answers in place of the porter {pid}")
