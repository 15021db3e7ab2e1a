"""What Docker and Podman say, in words of ours: answers to calls, and how a container ended."""
import re
from collections.abc import Mapping
from typing import Any

from gpufairy.core.amounts import show_size
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.run_folder import COULD_NOT_RUN, SIGNAL_NAMES

TOLD_TO_STOP = "ended by the engine, which was told to stop it"
BEGUN_AGAIN = (
    "the container engine was killed while it started this and forgot it: it was ended, and is not begun twice unless --retry says so"
)
FROM_OUTSIDE = (128 + 15, 128 + 9)
LONGEST_ANSWER = 400  # letters of a daemon's answer that are passed on
# Said by a daemon that is going, coming, or has lost its containerd: it has not refused anything.
NOT_ITSELF = re.compile(
    r"context canceled|transport is closing|connection refused|shutting down|error reading from server: EOF|ttrpc: closed", re.I
)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)
NOT_RUNNING = re.compile(r"is not running|state improper|can only kill running", re.I)  # the last two are Podman's
NAME_TAKEN = re.compile(r"name .{0,300}already in use|already in use by container|name is already in use", re.I | re.S)


class DaemonRefused(EngineRefused):
    """A clear no from the daemon, with its HTTP status."""

    def __init__(self, detail: str, next_step: str, status: int, answer: str) -> None:
        super().__init__(detail, next_step)
        self.status = status
        self.answer = answer

    @property
    def not_running(self) -> bool:
        return bool(NOT_RUNNING.search(self.answer))

    @property
    def name_taken(self) -> bool:
        return bool(NAME_TAKEN.search(self.answer))


def refusal(what: str, status: int, answer: str) -> DaemonRefused:
    said = " ".join(answer.split())[:LONGEST_ANSWER]
    if NO_SPACE.search(answer):
        next_step = "Free room there: `docker system df`."
        return DaemonRefused(f"{what}: the disk of the container engine is full ({said})", next_step, status, answer)
    if "could not select device driver" in answer:
        next_step = "Install NVIDIA's container toolkit, or make CDI files by `nvidia-ctk cdi generate`."
        return DaemonRefused(f"{what}: the container engine cannot give GPUs to containers ({said})", next_step, status, answer)
    if "argument list too long" in answer:
        return DaemonRefused(f"{what}: its command and variables are longer than Linux takes", "Put them into files.", status, answer)
    return DaemonRefused(f"{what}: the container engine said no: {said or status}", "", status, answer)


def why_over(state: Mapping[str, Any], *, stopped: bool, memory_bytes: int, rebooted: bool = False, again: bool = False) -> str:
    """In words, what is known of the end beside its exit code."""
    code, answer = state.get("ExitCode"), " ".join(str(state.get("Error") or "").split())[:LONGEST_ANSWER]
    if stopped:
        return TOLD_TO_STOP
    if state.get("OOMKilled") and code != 0:
        limit = f" than its {show_size(memory_bytes)}" if memory_bytes else ""
        return f"killed by the kernel, out of memory: it wanted more{limit}. Ask for more by --memory"
    if rebooted:
        return "the machine restarted while it ran"
    if again:
        return BEGUN_AGAIN
    if NO_SPACE.search(answer):
        return f"the disk of the container engine is full: {answer}"
    if answer:
        return f"the container engine says: {answer}"
    if code in COULD_NOT_RUN:
        return f"exit code {code}: {COULD_NOT_RUN[code]}; its log says more"
    if isinstance(code, int) and code in FROM_OUTSIDE:
        by = SIGNAL_NAMES[code - 128]
        return f"exit code {code}: ended by {by}, by itself or from outside (so does a container engine that is stopped)"
    if isinstance(code, int) and code - 128 in SIGNAL_NAMES:
        return f"exit code {code}: ended by {SIGNAL_NAMES[code - 128]}"
    return ""
