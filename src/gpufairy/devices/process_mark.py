"""A process of this machine for good: its number and when it began. A number alone comes to mean another process."""
import contextlib
import os
import signal
from dataclasses import dataclass

DEAD_STATES = "ZXx"


@dataclass(frozen=True, slots=True)
class ProcessMark:
    pid: int
    start_ticks: int  # since boot


def mark_of(pid: int) -> ProcessMark | None:
    """None: no such process, or one that is over and waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = line[line.rfind(b")") + 1 :].split()  # the name before it may hold blanks and brackets
    if len(fields) < 20 or fields[0].decode() in DEAD_STATES:
        return None
    return ProcessMark(pid, int(fields[19]))


def lives(mark: ProcessMark) -> bool:
    return mark_of(mark.pid) == mark


def command_line(pid: int) -> str:
    """Empty: gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def kill(mark: ProcessMark) -> None:
    """Looked at once the descriptor is open: from then on the number cannot come to mean another process."""
    try:
        descriptor = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return
    try:
        if lives(mark):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
