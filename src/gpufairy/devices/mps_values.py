"""What is said of MPS, as values: what sessions hold, what a look at a daemon found, and what befell it."""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one program may take which goes round the share library."""

    sm_percent: int
    memory_bytes: int

    @property
    def memory_text(self) -> str:
        """As MPS reads it: whole MiB, so that a larger share is never cut below what was promised."""
        return f"{-(-self.memory_bytes // MIB)}M"


@dataclass(frozen=True, slots=True)
class HeldShare:
    session_id: str
    sm_percent: int
    memory_bytes: int

    @property
    def caps(self) -> Caps:
        return Caps(self.sm_percent, self.memory_bytes)


def largest(caps: Iterable[Caps]) -> Caps | None:
    """Of each kind apart: MPS knows one cap a GPU, and nobody's may fall below what was promised. None: nobody holds anything."""
    all_caps = list(caps)
    if not all_caps:
        return None
    return Caps(max(one.sm_percent for one in all_caps), max(one.memory_bytes for one in all_caps))


class Heard(StrEnum):
    ANSWER = "answer"
    SILENCE = "silence"  # it may well live: a process is there, or the program that asks did not come back
    NOBODY = "nobody"  # no daemon is in that folder


@dataclass(frozen=True, slots=True)
class MpsServer:
    pid: int
    state: str  # MPS's own word: INITIALIZING, ACTIVE, FAULT
    clients: tuple[int, ...] = ()  # process numbers as this machine sees them, those in containers too
    sm_percent: str = ""  # as MPS tells it, to be compared and not read
    memory_limit: str = ""

    @property
    def at_fault(self) -> bool:
        return self.state == "FAULT"


@dataclass(frozen=True, slots=True)
class MpsLook:
    heard: Heard
    servers: tuple[MpsServer, ...] = ()
    sm_percent: str = ""  # the daemon's default, for servers to come
    memory_limit: str = ""
    why: str = ""  # of silence

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(sorted({pid for server in self.servers for pid in server.clients}))


class MpsEvent(StrEnum):
    RESTARTED = "mps_restarted"
    NOT_RESTARTED = "mps_not_restarted"
    SILENT = "mps_silent"
    ANSWERS_AGAIN = "mps_answers_again"
    SERVER_LOST = "mps_server_lost"
    FAULT = "mps_fault"
    FAULT_OVER = "mps_fault_over"
    CLIENTS_NEAR_LIMIT = "mps_clients_near_limit"
    CLIENTS_AT_LIMIT = "mps_clients_at_limit"
    CAPS_CHANGED = "mps_caps_changed"
    WENT_ROUND = "mps_went_round"
    STILL_USED = "mps_still_used"
    ENDED = "mps_ended"
    NOT_ENDED = "mps_not_ended"


@dataclass(frozen=True, slots=True)
class MpsNews:
    gpu: str
    event: MpsEvent
    words: str
    sessions: tuple[str, ...] = ()  # those on that GPU, who are to be told


@dataclass(frozen=True, slots=True)
class MpsStatus:
    gpu: str
    door: str  # the folder that sessions get
    daemon_pid: int | None  # None: none runs, or it is not known
    servers: tuple[MpsServer, ...]
    clients: tuple[int, ...]
    client_limit: int
    caps: Caps | None
    since: datetime | None
    one_user_at_a_time: bool  # an older driver: programs of other accounts wait until those of one have ended
    trouble: str  # empty: none
    closed: str = ""  # why a newcomer would be refused now; empty: it would not. The same words as long as it is the same trouble
    stays: str = ""  # why it cannot be given up, though nobody holds a share; empty: it can
