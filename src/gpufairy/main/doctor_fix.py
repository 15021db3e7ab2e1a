"""What `fairy doctor --fix` does: to our own files, and to CDI files by NVIDIA's tool. Nothing is restarted, no GPU is touched."""
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from gpufairy.core.doctor_facts import Facts
from gpufairy.core.errors import Conflict, EngineRefused
from gpufairy.devices.mps_folder import pipe_folder
from gpufairy.devices.mps_note import running_daemon
from gpufairy.engines.cdi import USUAL_FOLDERS
from gpufairy.engines.cdi_refresh import TOOL, refresh

Deed = Callable[[Facts], str]
PRIVATE = 0o600


def mended(check: str, facts: Facts) -> str:
    """What was done, in words. Raises EngineRefused, Conflict."""
    try:
        return DEEDS[check](facts)
    except OSError as error:
        raise EngineRefused(f"{check} could not be mended: {error}", "Do it by hand, by the lines that it names.") from error


def close_data_folder(facts: Facts) -> str:
    path = Path(facts.data.folder)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o007
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return f"closed {path} to others (mode {mode:o})"


def close_secrets(facts: Facts) -> str:
    """By descriptor, and no link followed: what lies there may have been changed since it was looked at."""
    paths = facts.data.open_files or ()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, PRIVATE)
        finally:
            os.close(descriptor)
    return f"closed {', '.join(paths)} to others (mode {PRIVATE:o})"


def write_cdi(facts: Facts) -> str:
    trouble = refresh(USUAL_FOLDERS, TOOL)
    if trouble:
        raise EngineRefused(trouble, "Run it by hand, as root.")
    return f"had {TOOL} write the CDI file anew"


def remove_pipes(facts: Facts) -> str:
    """Looked at again right before: a daemon that was started meanwhile keeps its pipes."""
    if facts.host.server_runs_here:
        raise Conflict("a server runs on this data folder and looks after its MPS daemons", "Leave it to the server.")
    removed = []
    for gpu in facts.mps.left_over:
        pipe = pipe_folder(Path(facts.data.folder) / "mps", gpu)
        if running_daemon(pipe) is None and not pipe.is_symlink():
            shutil.rmtree(pipe)
            removed.append(str(pipe))
    return f"removed {', '.join(removed) or 'nothing'}"


DEEDS: dict[str, Deed] = {
    "data-folder": close_data_folder, "secrets": close_secrets, "cdi": write_cdi, "mig-not-seen": write_cdi, "mps": remove_pipes,
}  # fmt: skip
