"""Watching a process end, and signalling it, by a descriptor that can never come to mean another process."""
import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from gpufairy.engines.proc import stat_of


class Watched:
    """A live process. `on_gone` is called once, from the event loop, when it has ended."""

    def __init__(self, pid: int, descriptor: int, on_gone: Callable[["Watched"], None]) -> None:
        self.pid = pid
        self.status: int | None = None  # as waitpid gives it; None: not our child, or not over
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._ended)

    def signal_group(self, number: int) -> None:
        """To the process and its group, if it still lives: its group's number is then surely its own."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._descriptor, 0)
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Stop watching. The process goes on."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _ended(self) -> None:
        self.close()
        self.status = reap(self.pid)
        self._on_gone(self)


def watch_child(pid: int, on_gone: Callable[[Watched], None]) -> Watched:
    """Of a child of ours that nobody has waited for: its number cannot have been given away."""
    return Watched(pid, os.pidfd_open(pid), on_gone)


def watch_other(pid: int, start_ticks: int, on_gone: Callable[[Watched], None]) -> Watched | None:
    """Of a process started by an earlier server. None: it is over, or its number is somebody else's now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Opened first, looked at second: what the descriptor means can no longer change.
    stat = stat_of(pid)
    if stat is None or stat.start_ticks != start_ticks or stat.zombie:
        os.close(descriptor)
        return None
    return Watched(pid, descriptor, on_gone)


def kill_member(pid: int, sid: int) -> None:
    """SIGKILL to one process, if it still is of that session."""
    kill_if(pid, lambda: (stat := stat_of(pid)) is not None and stat.sid == sid)


def kill_if(pid: int, is_meant: Callable[[], bool]) -> None:
    """Looked at once the descriptor is open: from then on the number cannot come to mean another process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if is_meant():
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


def reap(pid: int) -> int | None:
    """Take the exit status of a child and of what its group left to us (as process 1 of a container we inherit orphans)."""
    status = None
    try:
        while (taken := os.waitpid(-pid, os.WNOHANG))[0] != 0:
            if taken[0] == pid:
                status = taken[1]
    except ChildProcessError:  # none left, or never ours
        return status
    return status


def exit_code(status: int) -> int:
    """As a shell says it: death by signal N is 128 + N."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
