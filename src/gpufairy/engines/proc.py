"""What /proc says of processes. A PID alone names nobody: numbers are reused, so a process is its PID and start time."""
import os
from dataclasses import dataclass

from gpufairy.core.errors import EngineSilent

ZOMBIE_STATES = "ZXx"


@dataclass(frozen=True, slots=True)
class ProcStat:
    pid: int
    state: str
    sid: int  # of the session (setsid), not one of ours
    start_ticks: int  # since boot

    @property
    def zombie(self) -> bool:
        return self.state in ZOMBIE_STATES


def parse_stat(line: bytes) -> ProcStat | None:
    """One line of /proc/PID/stat; None for half a line. The name in it may hold blanks and brackets, so it is cut at the last one."""
    pid, _, rest = line.partition(b" ")
    fields = rest[rest.rfind(b")") + 1 :].split()
    if len(fields) < 20:
        return None
    try:
        return ProcStat(int(pid), fields[0].decode("ascii"), sid=int(fields[3]), start_ticks=int(fields[19]))
    except ValueError:
        return None


def stat_of(pid: int) -> ProcStat | None:
    """None: no such process (any more)."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone, or hidden from us, so not ours
        return None
    try:
        return parse_stat(os.read(descriptor, 4096))
    except ProcessLookupError:  # gone between open and read
        return None
    finally:
        os.close(descriptor)


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.readline().strip()
    except OSError as error:
        raise EngineSilent(f"the boot id of this machine cannot be read: {error}", "Mount /proc.") from error


def pids_by_sid() -> dict[int, list[int]]:
    """Every process of this machine that is not a zombie, by its session: one pass over /proc."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (stat := stat_of(int(name))) is not None and not stat.zombie:
            found.setdefault(stat.sid, []).append(stat.pid)
    return found


def sids_by_variable(name: bytes) -> dict[bytes, set[int]]:
    """Sessions by the value that a variable had when their processes began. One pass over /proc, slower than the other."""
    found: dict[bytes, set[int]] = {}
    for sid, pids in pids_by_sid().items():
        for value in {value for pid in pids for value in values_of(pid, name)}:
            found.setdefault(value, set()).add(sid)
    return found


def pids_with_variable(name: bytes, wanted: frozenset[bytes]) -> list[int]:
    """Processes that began with one of these values."""
    return [pid for pids in pids_by_sid().values() for pid in pids if has_variable(pid, name, wanted)]


def has_variable(pid: int, name: bytes, wanted: frozenset[bytes]) -> bool:
    return not wanted.isdisjoint(values_of(pid, name))


def values_of(pid: int, name: bytes) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return [entry.partition(b"=")[2] for entry in file.read().split(b"\0") if entry.startswith(name + b"=")]
    except OSError:  # gone, or somebody else's
        return []


def group_exists(pgid: int) -> bool:
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody is there, and not ours to signal
        return True
    return True


def left_behind(pid: int, start_ticks: int) -> bool:
    """Whether a dead leader's group still has members that run.

    The kernel gives a number to nobody else while a group or session bears it, so another process with this PID means: nobody is left.
    """
    if not group_exists(pid):
        return False
    leader = stat_of(pid)
    if leader is not None and leader.start_ticks != start_ticks:
        return False
    return pid in pids_by_sid()


def working_in(folder: str) -> bool:
    """Whether any process has this folder as its current one: a shim that has not got as far as its claim."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.readlink(f"/proc/{name}/cwd") == folder:
                    return True
            except OSError:  # gone, a zombie, or somebody else's
                continue
    return False
