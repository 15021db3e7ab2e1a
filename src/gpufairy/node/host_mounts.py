"""How full a host's file systems are. A file server that is dead never answers: it is asked aside, dropped and named."""
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.core.host_reading import DISK_KINDS_LEFT_OUT, MountReading
from gpufairy.node.aside import Aside
from gpufairy.node.host_files import read_text
from gpufairy.node.proc_text import printable

EVERY_S = 9.5  # ten, on a beat of seconds: file systems fill slowly
WAIT_S = 0.2  # healthy ones answer in microseconds, a busy file server in milliseconds
MOST_MOUNTS = 64  # by the length of their paths: those deep down are containers' and users' own
OTHERS_LEFT_OUT = (
    "devpts mqueue debugfs tracefs securityfs pstore bpf configfs fusectl hugetlbfs binfmt_misc rpc_pipefs efivarfs selinuxfs "
    "iso9660 erofs fuse.lxcfs fuse.gvfsd-fuse fuse.portal fuse.snapfuse"
).split()
LEFT_OUT = frozenset((*DISK_KINDS_LEFT_OUT, *OTHERS_LEFT_OUT))
ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    device: str
    path: str
    kind: str


class Mounts:
    def __init__(
        self, root: str, monotonic: Callable[[], float] = time.monotonic, statvfs: Callable[[str], os.statvfs_result] = os.statvfs
    ) -> None:
        self._root, self._monotonic, self._statvfs = root, monotonic, statvfs
        self._aside: Aside[Mount, MountReading | None] = Aside(self._measure, "file system")
        self._asked_s = float("-inf")
        self._mounts: tuple[Mount, ...] = ()
        self._known: dict[Mount, MountReading | None] = {}

    def read(self) -> tuple[MountReading, ...]:
        """As of the last seconds; without those that give no answer."""
        self._known |= self._aside.late()
        if self._monotonic() - self._asked_s >= EVERY_S:
            self._look()
        return tuple(found for mount in self._mounts if (found := self._known.get(mount)) is not None)

    @property
    def trouble(self) -> tuple[str, ...]:
        silent = [mount for mount in self._mounts if mount not in self._known]
        return tuple(printable(f"{mount.path} ({mount.kind} from {mount.device}) gives no answer", 300) for mount in silent)

    def _look(self) -> None:
        """What was asked a whole round ago and is still open is not known any more."""
        self._asked_s = self._monotonic()
        self._mounts = real_mounts(read_text(f"{self._root}/proc/1/mounts") or read_text(f"{self._root}/proc/self/mounts"))
        kept = {mount: found for mount, found in self._known.items() if mount in self._mounts and not self._aside.is_open(mount)}
        self._known = kept | self._aside.answers(self._mounts, WAIT_S)

    def _measure(self, mount: Mount) -> MountReading | None:
        try:
            found = self._statvfs(f"{self._root}{mount.path}")
        except OSError:  # unmounted in this moment, or closed to us
            return None
        if found.f_blocks == 0:  # the kernel's own, not on any disk
            return None
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        inodes, inodes_free = (found.f_files, found.f_favail) if found.f_files else (None, None)  # btrfs makes them as needed
        return MountReading(printable(mount.path, 200), printable(mount.device, 200), mount.kind, total, free, inodes, inodes_free)


def real_mounts(text: str) -> tuple[Mount, ...]:
    """One for each device, at its shortest path: all others are the same file system once more. What is mounted over hides what was."""
    by_path: dict[str, Mount] = {}
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) >= 4:
            by_path[words[1]] = Mount(unescaped(words[0]), unescaped(words[1]), words[2])
    real = sorted((mount for mount in by_path.values() if mount.kind not in LEFT_OUT), key=lambda mount: (len(mount.path), mount.path))
    by_device: dict[str, Mount] = {}
    for mount in real:
        by_device.setdefault(mount.device, mount)
    return tuple(by_device.values())[:MOST_MOUNTS]


def unescaped(word: str) -> str:
    """Blanks in paths are written as \\040."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)
