"""Whose numbers PIDs are: those that the driver tells, and those of /proc here. In a container the two may be of different namespaces,
and then a number that exists here is another process than the one that is meant."""
import os
import re
from dataclasses import dataclass

from gpufairy.node.host_files import read_text

HOST_INODE = 0xEFFFFFFC  # of the namespace that the kernel begins with: fixed in its include/linux/proc_ns.h
# Older drivers tell everybody the host's numbers; from here on each is told those of its own namespace, and nothing of other processes.
# (os_find_ns_pid in the driver's open kernel modules; seen with 580.)
TRANSLATES_FROM = (535, 113)
VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class PidNamespace:
    """As this process finds it."""

    is_hosts: bool = True  # also in a container that was given the host's
    proc_is_ours: bool = True  # False: the /proc that is read here is of a namespace above, so the host's

    def names(self, driver: str | None) -> bool:
        """Whether a PID that this driver tells is that of a process in /proc here. A driver that is not known is taken for an old one."""
        told_hosts = self.is_hosts or not translates(driver)
        shown_hosts = self.is_hosts or not self.proc_is_ours
        return told_hosts is shown_hosts


def pid_namespace(proc: str = "/proc") -> PidNamespace:
    return PidNamespace(_inode(f"{proc}/self/ns/pid") in (None, HOST_INODE), _numbers(f"{proc}/self/status") <= 1)


def translates(driver: str | None) -> bool:
    found = VERSION.match(driver or "")
    return found is not None and (int(found[1]), int(found[2])) >= TRANSLATES_FROM


def _inode(path: str) -> int | None:
    """None: this kernel has no such namespaces."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _numbers(status: str) -> int:
    """How many numbers we have, from the namespace of that /proc down to our own."""
    line = next((line for line in read_text(status).split("\n") if line.startswith("NSpid:")), "")
    return len(line.split()) - 1
