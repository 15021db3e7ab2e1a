"""One agent in a folder: two that share a key and a spool would tell of the same host twice."""
import fcntl
import os
from pathlib import Path

from gpufairy.core.errors import BadInput, Conflict

LOCK_FILE = "agent.lock"


class FolderLock:
    """Held for the life of the process; the kernel frees it however that ends."""

    def __init__(self, folder: Path) -> None:
        file = folder / LOCK_FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise BadInput(f"the agent's lock {file} cannot be used: {error.strerror}", "Give a folder of its own: --data DIR.") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(self._descriptor, 100, 0).decode(errors="replace").strip() or "another process"
            os.close(self._descriptor)
            raise Conflict(f"the folder {folder} is in use by {found}", "Stop that agent first: one on each host is enough.") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"the agent with pid {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)
