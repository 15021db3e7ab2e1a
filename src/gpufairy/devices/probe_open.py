"""Run inside a session: whether the device files of its GPUs can be opened. Prints one line of JSON.

`true`: one can. `false`: none, because the kernel forbids it, which is how a cgroup says no. `null`: none is there, or another fault.
"""
import errno
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

GPU_FILE = re.compile(r"nvidia[0-9]{1,3}")


def gpu_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if GPU_FILE.fullmatch(path.name))


def opens_any(paths: Iterable[Path]) -> bool | None:
    found = [fault_of(path) for path in paths]
    if 0 in found:
        return True
    return False if found and set(found) == {errno.EPERM} else None


def fault_of(path: Path) -> int:
    """The number of the error; 0: it opens."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/dev")
    sys.stdout.write(json.dumps({"open": opens_any(gpu_files(folder))}) + "\n")
