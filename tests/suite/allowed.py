"""What a run on a machine that is there for testing (CI=true) may leave untested, and what may be unsteady. Anything else is a failure."""
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lack:
    """A part that not every such machine has."""

    words: str  # what the reason of the skip begins with
    most: int  # so many tests at most: one more is a test that has come to be left out by mistake
    how: str  # to have it


LACKS = (
    Lack("no NVIDIA GPU on this machine", 25, "run ./test on a machine with an NVIDIA GPU that nobody uses, Podman or Docker, and root"),
    Lack("no Python 3.", 3, "install that Python, by pyenv or from your distribution"),
    Lack("docker takes CDI devices from version 25 on", 1, "install Docker 25 or newer instead of Debian 12's"),
    Lack("this kernel mounts no disk with project quotas", 4, "take a kernel with CONFIG_QUOTA and ext4's prjquota"),
    Lack("this kernel counts no bytes of processes", 1, "take a kernel with CONFIG_TASK_IO_ACCOUNTING"),
    Lack("this machine lets no process look on at another (ptrace)", 1, "sysctl kernel.yama.ptrace_scope=0, and CAP_SYS_PTRACE"),
    Lack("no cgroup can be made here", 1, "run as root with a cgroup file system that may be written"),
)

# Tests that fail beside others and pass alone, by their ids, each with why it may and since when. Meant to be empty.
UNSTEADY: dict[str, str] = {}


def lack_of(reason: str) -> Lack | None:
    return next((lack for lack in LACKS if reason.startswith(lack.words)), None)
