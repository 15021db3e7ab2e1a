"""Project quotas: how much a folder may hold, kept by the kernel on ext4 and XFS. Where it cannot be, why not and what to do.

Every file of a home bears a project's number, which new files inherit; the limit is the number's. It is the owner's uid.
"""
import ctypes
import errno
import fcntl
import gzip
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.disk_limit import DiskLimit
from gpufairy.engines.beneath import FILE, open_if_there, open_top

QUOTACTL_FD = 443  # the system call's number, the same on all of Linux's architectures but alpha
PROJECTS = 2  # of the three kinds of quota: users, groups, projects
GET_QUOTA, SET_QUOTA = 0x800007 << 8 | PROJECTS, 0x800008 << 8 | PROJECTS
GET_ATTRIBUTES, SET_ATTRIBUTES = 0x801C581F, 0x401C5820  # FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR
INHERIT = 0x200  # new files in this folder bear its project
LIMITS_OF_BLOCKS = 1  # which of the fields below are meant
# Blocks (of a KiB) at most, blocks told at, bytes used, inodes at most, told at, used, two times, which of the fields are meant.
QUOTA = struct.Struct("=8QI4x")
ATTRIBUTES = struct.Struct("=5I8x")  # flags, extent size, extents, project, extent size of copies
KIB = 1024
NEEDS = {"ext4": "CONFIG_QFMT_V2", "xfs": "CONFIG_XFS_QUOTA"}  # what the kernel must have been built with
DEEPEST = 500  # folders within folders: each has a descriptor while what is in it is gone through
ESCAPED = re.compile(r"\\([0-7]{3})")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class FileSystem:
    kind: str
    mounted_at: str
    device: str
    options: frozenset[str]


class ProjectQuotas:
    """`quota_call` and `attributes` speak to the kernel; all else is made of them."""

    def __init__(self, mounts: Callable[[], str] = lambda: Path("/proc/self/mountinfo").read_text(errors="replace")) -> None:
        self._mounts = mounts

    def set_limit(self, home: Path, project: int, limit_bytes: int | None) -> DiskLimit:
        """None: no limit any more. Takes a while for a home with many files, the first time: call it from a thread."""
        try:
            here = open_top(home)
        except OSError as error:
            found = f"{home} cannot be opened: {os.strerror(error.errno or 0).lower()}"
            return DiskLimit(limit_bytes, False, found, "It is made at their first session.")
        try:
            if self.project_of(here) != project:
                if limit_bytes is None:
                    return DiskLimit(None, False)
                self._mark(here, project)
            self.write_limit(here, project, limit_bytes)
            return self.read_limit(here, project)
        except OSError as error:
            return DiskLimit(limit_bytes, False, *self._why_not(home, error))
        finally:
            os.close(here)

    def used(self, home: Path, project: int) -> int | None:
        """As the kernel counts it, at this moment; None: it does not."""
        try:
            here = open_top(home)
        except OSError:
            return None
        try:
            return self.read_limit(here, project).used_bytes if self.project_of(here) == project else None
        except OSError:
            return None
        finally:
            os.close(here)

    def write_limit(self, here: int, project: int, limit_bytes: int | None) -> None:
        blocks = 0 if limit_bytes is None else max(1, limit_bytes // KIB)
        self.quota_call(here, SET_QUOTA, project, QUOTA.pack(blocks, 0, 0, 0, 0, 0, 0, 0, LIMITS_OF_BLOCKS))

    def read_limit(self, here: int, project: int) -> DiskLimit:
        blocks, _, used_bytes, *_ = QUOTA.unpack(self.quota_call(here, GET_QUOTA, project, bytes(QUOTA.size)))
        return DiskLimit(blocks * KIB if blocks else None, bool(blocks), used_bytes=used_bytes)

    def quota_call(self, here: int, command: int, project: int, body: bytes) -> bytes:
        buffer = ctypes.create_string_buffer(body, len(body))
        if _libc.syscall(QUOTACTL_FD, here, command, project, buffer) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return buffer.raw

    def attributes(self, here: int, command: int, body: bytes) -> bytes:
        return fcntl.ioctl(here, command, body)

    def project_of(self, here: int) -> int:
        return int(ATTRIBUTES.unpack(self.attributes(here, GET_ATTRIBUTES, bytes(ATTRIBUTES.size)))[3])

    def _mark(self, here: int, project: int) -> None:
        """What is below first, the home last: a server that dies in between finds it unmarked, and begins anew."""
        for below in opened_below(here):
            self._mark_one(below, project)
        self._mark_one(here, project)

    def _mark_one(self, one: int, project: int) -> None:
        flags, extent, _, _, copies = ATTRIBUTES.unpack(self.attributes(one, GET_ATTRIBUTES, bytes(ATTRIBUTES.size)))
        if stat.S_ISDIR(os.fstat(one).st_mode):
            flags |= INHERIT
        self.attributes(one, SET_ATTRIBUTES, ATTRIBUTES.pack(flags, extent, 0, project, copies))

    def _why_not(self, home: Path, error: OSError) -> tuple[str, str]:
        place = file_system_of(os.path.realpath(home), self._mounts())
        if place is None:
            return f"{home}: {os.strerror(error.errno or 0).lower()}", ""
        return why_not(os.fspath(home), place, error.errno or 0)


def opened_below(top: int) -> Iterator[int]:
    """Every file and folder, opened while it is its turn. Links, pipes and the like take no room; other disks are not ours."""
    device = os.fstat(top).st_dev
    waiting = [(os.dup(top), iter(os.listdir(top)))]
    try:
        while waiting:
            here, names = waiting[-1]
            name = next(names, None)
            if name is None:
                os.close(waiting.pop()[0])
                continue
            one = opened_plain(here, name, device)
            if one is None:
                continue
            yield one
            if stat.S_ISDIR(os.fstat(one).st_mode) and len(waiting) < DEEPEST:
                waiting.append((one, iter(os.listdir(one))))
            else:
                os.close(one)
    finally:
        for here, _ in waiting:
            os.close(here)


def opened_plain(here: int, name: str, device: int) -> int | None:
    try:
        kind = os.lstat(name, dir_fd=here).st_mode
    except OSError:  # gone meanwhile
        return None
    one = open_if_there(here, name, FILE) if stat.S_ISREG(kind) or stat.S_ISDIR(kind) else None
    if one is not None and os.fstat(one).st_dev != device:
        os.close(one)
        return None
    return one


def file_system_of(path: str, mountinfo: str) -> FileSystem | None:
    """Of the mount that is nearest above; of several at one place the last, which hides the others."""
    found: FileSystem | None = None
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        words, more = left.split(" "), right.split(" ")
        if not dash or len(words) < 6 or len(more) < 3:
            continue
        at = unescaped(words[4])
        within = path == at or path.startswith(at.rstrip("/") + "/")
        if within and (found is None or len(at) >= len(found.mounted_at)):
            found = FileSystem(more[0], at, unescaped(more[1]), frozenset(words[5].split(",")) | frozenset(more[2].split(",")))
    return found


def unescaped(word: str) -> str:
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)


def built_with(option: str) -> bool | None:
    """Of the kernel that runs; None: nobody wrote down how it was built."""
    for path in (f"/boot/config-{os.uname().release}", "/proc/config.gz"):
        try:
            text = Path(path).read_bytes()
        except OSError:
            continue
        lines = (gzip.decompress(text) if path.endswith(".gz") else text).decode(errors="replace").splitlines()
        return any(line.startswith(f"{option}=") for line in lines)
    return None


def kernel_counts(kind: str) -> bool | None:
    """By project, on file systems of this kind."""
    return built_with(NEEDS[kind]) if kind in NEEDS else False


def why_not(path: str, place: FileSystem, number: int, has: Callable[[str], bool | None] = built_with) -> tuple[str, str]:
    """What was found, and what an admin could do about it. `has`: whether the kernel was built with an option."""
    counts = bool(place.options & {"prjquota", "pquota"})
    if place.kind not in NEEDS:
        return f"{path} is on {place.kind}, which has no project quotas", "Put homes on ext4 or XFS mounted with prjquota ([docker] homes)."
    # First of all: a disk that was prepared for quotas cannot be mounted by a kernel that has none.
    if number == errno.ENOSYS or has(NEEDS[place.kind]) is False:
        return f"this kernel has no quotas for {place.kind}", f"Start one that was built with them ({NEEDS[place.kind]})."
    if number in (errno.EPERM, errno.EACCES):
        return f"the server may not set quotas on {place.mounted_at}", "Start it as root."
    if not counts and place.kind == "ext4":
        how = f"Unmount it, `tune2fs -O project,quota {place.device}`, and mount it with prjquota (in /etc/fstab)."
        return f"{path} is on ext4 without project quotas", how
    if not counts:
        how = f"Mount {place.mounted_at} with prjquota (in /etc/fstab; / by the kernel's rootflags=prjquota)."
        return f"{path} is on XFS without project quotas", how
    return f"{place.mounted_at} refused the quota: {os.strerror(number).lower()}", "Look into the kernel's log: dmesg."
