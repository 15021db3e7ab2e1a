"""The one way to files that users may change while the server looks at them: no link of theirs leads it anywhere.

By openat2 the kernel itself refuses links and ways out of the folder that the way begins at. Before Linux 5.6 there is none: then each
step is taken for itself, and none of them is a link.
"""
import ctypes
import errno
import os
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe put in a file's place must not hold us up
OPENAT2 = 437  # the system call's number, the same on all of Linux's architectures but alpha
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08

_libc = ctypes.CDLL(None, use_errno=True)


def open_top(path: Path) -> int:
    """A folder of the server's own, where a way begins: no user can rename it or put a link in its place."""
    return os.open(path, FOLDER)


def open_beneath(top: int, path: str, how: int = FOLDER) -> int:
    """A descriptor of what is there by that name. Raises OSError: ELOOP and EXDEV for a link or a way out."""
    if "\0" in path:  # C would take what stands before it for the whole name
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    asked = (ctypes.c_uint64 * 3)(how, 0, BENEATH | NO_SYMLINKS | NO_MAGICLINKS)
    descriptor = int(_libc.syscall(OPENAT2, top, os.fsencode(path), ctypes.byref(asked), ctypes.sizeof(asked)))
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return open_by_steps(top, path, how)
    raise OSError(number, os.strerror(number), path)


def open_by_steps(top: int, path: str, how: int) -> int:
    *folders, last = path.split("/")
    if any(part in ("", "..") for part in (*folders, last)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = os.dup(top)
    try:
        for name in folders:
            below = os.open(name, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return os.open(last, how, dir_fd=here)
    finally:
        os.close(here)


def open_if_there(top: int, name: str, how: int = FOLDER) -> int | None:
    """None: it is gone, has become a link or another thing, or is not ours to read."""
    try:
        return open_beneath(top, name, how)
    except OSError:
        return None
