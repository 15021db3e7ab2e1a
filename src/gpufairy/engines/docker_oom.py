"""Whether the kernel has killed a process of a container for want of memory: its own log says so.

Asked because daemons do not always know: the container's cgroup, where they look, is often gone before they come.
"""
import os

MOST_RECORDS = 100_000  # far more than the kernel's log holds: an end, should one of its records never be the last
LONGEST_RECORD = 8192  # bytes; the kernel hands out one a read


def killed_for_memory(container_id: str, log: str = "/dev/kmsg") -> bool:
    """False as well where the log may not be read."""
    wanted = container_id.encode()
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for _ in range(MOST_RECORDS):
            try:
                record = os.read(descriptor, LONGEST_RECORD)
            except BrokenPipeError:  # overwritten under our hands: the next read goes on with what is there
                continue
            if not record:
                return False
            if b"oom-kill:" in record and wanted in record:
                return True
    except OSError:  # nothing more for now
        return False
    finally:
        os.close(descriptor)
    return False
