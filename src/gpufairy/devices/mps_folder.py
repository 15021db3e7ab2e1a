"""Where a daemon's pipes are, short enough for a socket, and the door: the folder with one socket in it that sessions get, read-only.

Whoever sees the pipe folder itself and is root, if only in a container, may change the daemon's caps by `control_privileged`.
"""
import hashlib
import os
import stat
from pathlib import Path

from gpufairy.devices.mps_words import folder_not_made, folder_unsafe, path_too_long

MOST_SOCKET_BYTES = 107  # Linux's sun_path has 108, one of them the end
SOCKET = "control"
LONGEST_SOCKET = "control_privileged"
SHORT_FOLDER = Path("/run/gpufairy-mps")  # for data folders with long paths


def pipe_folder(folder: Path, gpu: str, short_folder: Path = SHORT_FOLDER) -> Path:
    """Always the same for the same folder and GPU, so that a daemon is found again."""
    usual = folder / gpu / "pipe"
    if fits(usual):
        return usual
    short = short_folder / hashlib.sha256(f"{folder}\0{gpu}".encode()).hexdigest()[:12] / "pipe"
    if not fits(short):
        raise path_too_long(str(short), MOST_SOCKET_BYTES)
    return short


def fits(pipe: Path) -> bool:
    return len(os.fsencode(pipe / LONGEST_SOCKET)) <= MOST_SOCKET_BYTES


def open_door(pipe: Path, door: Path) -> None:
    """The daemon's socket under a second name. A mount of the socket alone would lead nowhere once a new daemon makes its own."""
    socket, name = pipe / SOCKET, door / SOCKET
    try:
        if name.exists() and name.samefile(socket):
            return
        beside = door / f"{SOCKET}.new"
        beside.unlink(missing_ok=True)
        os.link(socket, beside)
        beside.replace(name)
    except OSError as error:
        raise folder_not_made(str(door), str(error)) from error


def make_folder(path: Path) -> None:
    """Open to read for all, ours to write. Raises EngineRefused."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        seen = os.lstat(path)
        if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid():
            path.chmod(0o755)  # whatever our umask is: programs of other accounts connect here
            seen = os.lstat(path)
    except OSError as error:
        raise folder_not_made(str(path), str(error)) from error
    problem = _unsafe(seen)
    if problem is not None:
        raise folder_unsafe(str(path), problem)


def _unsafe(seen: os.stat_result) -> str | None:
    if not stat.S_ISDIR(seen.st_mode):
        return "no folder"
    if seen.st_uid != os.geteuid():
        return f"owned by account {seen.st_uid}"
    if seen.st_mode & 0o022:
        return f"open to write for others (mode {stat.S_IMODE(seen.st_mode):o})"
    return None
