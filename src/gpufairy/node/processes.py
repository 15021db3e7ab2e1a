"""What the host knows of a process, from /proc. A PID alone names nobody: numbers are reused, so a process is its PID and start time.

Command lines are read aside: the kernel reads them out of the process' own memory, and waits for a lock that a process stuck in a driver
holds. Its state does not tell (another of its threads may hold the lock), so all are. Nothing else read here can wait.
"""
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpufairy.core.cgroup import LONGEST_TEXT
from gpufairy.core.owner import RunningProcess
from gpufairy.node.aside import Aside
from gpufairy.node.pid_namespace import pid_namespace
from gpufairy.node.proc_text import printable

PROC = Path("/proc")
LONGEST_LINE_BYTES, LONGEST_LINE = 4096, 500  # read, and kept of it in characters: the rest is options that nobody reads in a table
LONGEST_COMMAND = 64  # characters; the kernel itself keeps 15 bytes, of its own threads 63
LINE_WAIT_S = 0.02  # a healthy process answers in a tenth of a millisecond
# At least, at most: as long as the process is old. Young ones end in an exec, become somebody else, are put into their container.
GOOD_S = 1.0, 30.0
MOST_KEPT = 4096  # processes; no host has more on its GPUs
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcStat:
    """What one line of /proc/PID/stat says that is used here."""

    command: bytes
    parent: int
    start_ticks: int  # since the host began
    cpu_ticks: int  # used so far
    memory_pages: int
    terminal: int = 0  # the device number of its controlling terminal; 0: none
    state: bytes = b""  # a letter: R, S, D, Z …


@dataclass(frozen=True, slots=True)
class _Kept:
    name: bytes  # as the kernel has it
    process: RunningProcess
    cgroup: str
    good_until_s: float = 0.0  # monotonic

    def is_still(self, stat: ProcStat, now_s: float) -> bool:
        return now_s < self.good_until_s and self.process.start_ticks == stat.start_ticks and self.name == stat.command


class Processes:
    """Processes as they are now: that they are there is seen each time, by (PID, start time); what hardly changes is kept for a while."""

    def __init__(self, proc: Path = PROC, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._monotonic = str(proc), monotonic
        self.namespace = pid_namespace(self._proc)
        self._kept: dict[int, _Kept] = {}
        self._lines: Aside[tuple[int, int], str] = Aside(lambda key: command_line(key[0], self._proc), "command line")

    def running(self, pid: int) -> RunningProcess | None:
        """None: no such process (any more)."""
        stat, now_s = stat_of(pid, self._proc), self._monotonic()
        kept = self._kept.pop(pid, None)
        if stat is None:
            return None
        if kept is None or not kept.is_still(stat, now_s):
            kept = self._look(pid, stat, kept, now_s)
        if kept is None:
            return None
        self._kept[pid] = kept
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        state = stat.state.decode("ascii", "replace")
        return kept.process if kept.process.state == state else replace(kept.process, state=state)

    def cgroup(self, pid: int) -> str:
        """Empty: it is gone."""
        kept = self._kept.get(pid)
        return cgroup_text(pid, self._proc) if kept is None else kept.cgroup

    def _look(self, pid: int, stat: ProcStat, before: _Kept | None, now_s: float) -> _Kept | None:
        process = made_of(pid, stat, self._proc)
        if process is None:
            return None
        if before is not None and before.process.start_ticks == process.start_ticks:
            process = replace(process, line=before.process.line, started_s=before.process.started_s)
        key = pid, process.start_ticks
        line, good_s = self._lines.answers([key], LINE_WAIT_S).get(key), 0.0
        if line is not None:
            age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / TICKS_PER_S
            process, good_s = replace(process, line=line), max(GOOD_S[0], min(GOOD_S[1], age_s))
        return _Kept(stat.command, process, cgroup_text(pid, self._proc), now_s + good_s)


def running(pid: int, proc: str = "/proc") -> RunningProcess | None:
    """Without its command line. None: no such process (any more)."""
    stat = stat_of(pid, proc)
    return None if stat is None else made_of(pid, stat, proc)


def made_of(pid: int, stat: ProcStat, proc: str) -> RunningProcess | None:
    try:
        uid = os.stat(f"{proc}/{pid}").st_uid  # the folder is always the effective user's, as the kernel promises to ps
    except OSError:
        return None
    started_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + stat.start_ticks / TICKS_PER_S
    state = stat.state.decode("ascii", "replace")
    return RunningProcess(pid, stat.start_ticks, uid, printable(stat.command, LONGEST_COMMAND), started_s=started_s, state=state)


def stat_of(pid: int, proc: str = "/proc") -> ProcStat | None:
    return parse_stat(_read(f"{proc}/{pid}/stat", 4096))


def parse_stat(line: bytes) -> ProcStat | None:
    """None for half a line. The name may hold blanks, brackets and line breaks, so it goes from the first bracket to the last."""
    opening, closing = line.find(b"("), line.rfind(b")")
    fields = line[closing + 1 :].split(None, 22)
    if opening < 0 or closing < opening or len(fields) < 22:
        return None
    try:
        parent, terminal, user, system, start, pages = (int(fields[place]) for place in (1, 4, 11, 12, 19, 21))
        return ProcStat(line[opening + 1 : closing], parent, start, user + system, pages, terminal & 0xFFFFFFFF, fields[0])
    except ValueError:
        return None


def command_line(pid: int, proc: str = "/proc") -> str:
    """Printable, cut; empty: it has none (a zombie, a thread of the kernel), or is gone."""
    return printable(_read(f"{proc}/{pid}/cmdline", LONGEST_LINE_BYTES).rstrip(b"\0").replace(b"\0", b" "), LONGEST_LINE)


def cgroup_text(pid: int, proc: str = "/proc") -> str:
    """Empty: it is gone."""
    return _read(f"{proc}/{pid}/cgroup", LONGEST_TEXT).decode("utf-8", "replace")


def _read(path: str, most: int) -> bytes:
    """The beginning of a file of /proc, in one call. Empty: the process has died, is dying, or is hidden from us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, most)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
