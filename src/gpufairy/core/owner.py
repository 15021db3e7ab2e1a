"""Whose a process on a GPU is, and how we know."""
from dataclasses import dataclass
from enum import StrEnum


class KnownBy(StrEnum):
    """How the user was found out. The order is the order of trust."""

    SESSION = "session"  # one of ours
    POD = "pod"  # a pod of Kubernetes
    LABEL = "label"  # a label of a container that somebody started by hand
    RULE = "rule"  # the name of such a container, by the lab's naming rule: USER_…
    MPS = "mps"  # NVIDIA's server of a shared GPU: it computes for others, and those are listed for themselves
    ACCOUNT = "account"  # the account that the process runs under, outside any container
    NOTHING = "nothing"  # in a container that nothing says the owner of


@dataclass(frozen=True, slots=True)
class Owner:
    user: str | None = None  # None: not known
    known_by: KnownBy = KnownBy.NOTHING
    session_id: str | None = None
    session: str | None = None  # its name
    container: str = ""  # its name; empty outside containers
    container_id: str | None = None
    pod: str = ""
    namespace: str = ""

    @property
    def outside(self) -> bool:
        """It uses a GPU that nobody handed out to it."""
        return self.session_id is None and self.known_by not in (KnownBy.POD, KnownBy.MPS)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """What the host knows of a process. `start_ticks` with the PID names it for good: PIDs come again."""

    pid: int
    start_ticks: int
    uid: int | None
    command: str  # printable and short: its program's name
    line: str = ""  # its command line, printable, cut
    started_s: float | None = None  # since 1970
    state: str = ""  # a letter, as /proc has it: R, S, D, Z …; empty: not known


def serves_mps(process: RunningProcess) -> bool:
    """Root's: anybody may take its name."""
    return process.uid == 0 and process.command.startswith("nvidia-cuda-mps")
