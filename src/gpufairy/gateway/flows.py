"""Bytes between a channel and a descriptor, at the speed of the slower one. No task and no buffer of ours for a channel that rests."""
import asyncio
import os
import signal
from collections.abc import Callable
from typing import Protocol

READ_BYTES = 64 * 2**10  # what a pipe holds, and two packets of the usual size


# A terminal or socket that was made in a container may be held there too, and be set back to waiting by whoever is root in it. So every
# call on one is bounded: it takes microseconds, or was made to hang, and then it fails like one whose other side is gone.
LONGEST_CALL_S = 1.0


def bound_calls() -> None:
    """Once in a process, in its main thread, before there are flows."""
    signal.signal(signal.SIGALRM, _too_long)


def _too_long(*_: object) -> None:
    raise TimeoutError("a call on a session's descriptor did not return")


class Sink(Protocol):
    """The side of a channel that flows need."""

    def write(self, data: bytes, datatype: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Outflow:
    """From a descriptor to the channel, until its end or an error, which is told once."""

    def __init__(
        self, descriptor: int, channel: Sink, on_end: Callable[[], None], *, datatype: int | None = None, shared: bool = False
    ) -> None:
        """`shared`: the descriptor may be held by the session too."""
        self._descriptor, self._channel, self._datatype, self._on_end = descriptor, channel, datatype, on_end
        self._read = _read_bounded if shared else os.read
        self._loop = asyncio.get_running_loop()
        self._held: set[str] = set()  # by whom: the channel's window, the connection's buffer
        self.ended = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._readable)

    @property
    def held(self) -> bool:
        return bool(self._held)

    def hold(self, who: str) -> None:
        if not self._held and not self.ended:
            self._loop.remove_reader(self._descriptor)
        self._held.add(who)

    def release(self, who: str) -> None:
        if who not in self._held:
            return
        self._held.discard(who)
        if not self._held and not self.ended:
            self._loop.add_reader(self._descriptor, self._readable)

    def stop(self) -> None:
        """Before the descriptor is closed."""
        if not self.ended:
            self.ended = True
            if not self._held:
                self._loop.remove_reader(self._descriptor)

    def _readable(self) -> None:
        try:
            data = self._read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more; ECONNRESET: the peer of a forward is gone
            data = b""
        if not data:
            self.stop()
            self._on_end()
            return
        try:
            self._channel.write(data, self._datatype)
        except BrokenPipeError:  # the client has closed the channel, of which we are told in a moment
            self.stop()


class Inflow:
    """From the channel to a descriptor. `finish` is called when the client has ended its side and all is written."""

    def __init__(self, descriptor: int, channel: Sink, finish: Callable[[], None], *, shared: bool = False) -> None:
        self._descriptor, self._channel, self._finish = descriptor, channel, finish
        self._write = _write_bounded if shared else os.write
        self._loop = asyncio.get_running_loop()
        self._left: list[memoryview] = []
        self._ending = self._broken = False
        os.set_blocking(descriptor, False)

    @property
    def full(self) -> bool:
        return bool(self._left)

    def feed(self, data: bytes) -> None:
        if self._broken:  # nobody reads it any more; the client is not to blame, and may go on
            return
        self._left.append(memoryview(data))
        if len(self._left) == 1 and not self._drained():
            self._channel.pause_reading()
            self._loop.add_writer(self._descriptor, self._writable)

    def end(self) -> None:
        self._ending = True
        if not self._left and not self._broken:
            self._broken = True
            self._finish()

    def stop(self) -> None:
        """Before the descriptor is closed."""
        if self._left:
            self._loop.remove_writer(self._descriptor)
            self._left.clear()
        self._broken = True

    def _writable(self) -> None:
        if not self._drained():
            return
        self._loop.remove_writer(self._descriptor)
        self._channel.resume_reading()
        if self._ending:
            self.end()

    def _drained(self) -> bool:
        try:
            while self._left:
                written = self._write(self._descriptor, self._left[0])
                if written < len(self._left[0]):
                    self._left[0] = self._left[0][written:]
                    return False
                del self._left[0]
        except BlockingIOError:
            return False
        except OSError:  # the command has closed its input, or is gone
            self._left.clear()
            self._broken = True
        return True


def _read_bounded(descriptor: int, size: int) -> bytes:
    signal.setitimer(signal.ITIMER_REAL, LONGEST_CALL_S)
    try:
        return os.read(descriptor, size)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _write_bounded(descriptor: int, data: memoryview) -> int:
    signal.setitimer(signal.ITIMER_REAL, LONGEST_CALL_S)
    try:
        return os.write(descriptor, data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
