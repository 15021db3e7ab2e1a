"""How many descriptors a process of ours may have."""
import contextlib
import logging
import resource

log = logging.getLogger("gpufairy.open_files")

OWN_FILES = 512  # a process needs for itself and its workloads, whoever comes


def raise_open_files() -> int:
    """As many as the system lets us: one a workload, and up to five a login. The usual soft limit of 1024 is soon reached, and then all
    are locked out. Returns how many there are now."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # an unlimited hard limit may be refused: then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else most


def connections_that_fit(wanted: int, setting: str, open_files: int) -> int:
    """No more than there are descriptors for, and said so where that is less than was set: strangers must never take the last one."""
    room = max(OWN_FILES // 8, open_files - max(OWN_FILES, open_files // 4))
    if wanted <= room:
        return wanted
    log.warning(
        "%s is %d, but this process may have only %d open files, so it takes %d connections. Raise the limit of open files to %d or more: "
        "LimitNOFILE= of the systemd unit, or `ulimit -Hn` of the shell that starts it.",
        setting, wanted, open_files, room, max(wanted + OWN_FILES, wanted * 4 // 3 + 1),
    )  # fmt: skip
    return room
