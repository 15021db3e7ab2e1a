"""Which gateway serves a data folder: the note it leaves, and how the next one takes over from it."""
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufairy.client.local_server import birth_of


@dataclass(frozen=True, slots=True)
class ProcessNote:
    pid: int
    birth: str
    port: int
    host_key: str = ""  # the public half, by which clients know it

    @property
    def alive(self) -> bool:
        return bool(self.birth) and birth_of(self.pid) == self.birth

    def write(self, path: Path) -> None:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)) + "\n")
        new.replace(path)


def this_process(port: int, host_key: str) -> ProcessNote:
    return ProcessNote(os.getpid(), birth_of(os.getpid()), port, host_key)


def read_note(path: Path) -> ProcessNote | None:
    """None: there is none, or it cannot be read."""
    try:
        noted = json.loads(path.read_text())
        return ProcessNote(int(noted["pid"]), str(noted["birth"]), int(noted["port"]), str(noted.get("host_key", "")))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def ask_to_drain(path: Path) -> bool:
    """Whether there was one. It stops listening at once, and ends with its last visitor."""
    noted = read_note(path)
    if noted is None or not noted.alive or noted.pid in (0, 1, os.getpid()):
        return False
    try:
        os.kill(noted.pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True
