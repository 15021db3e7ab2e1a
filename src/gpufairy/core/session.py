"""Session: what a user holds. Request: what they asked. Seat: what was set aside for it."""
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpufairy.core.lifecycle import HOLDS_GPUS, Phase, state_word
from gpufairy.core.node import Sharing
from gpufairy.core.share import NO_GPU, Share


class SessionKind(StrEnum):
    BATCH = "batch"
    INTERACTIVE = "interactive"


class Wanted(StrEnum):
    RUN = "run"
    STOP = "stop"


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    EXPIRED = "expired"
    EVICTED = "evicted"
    LOST = "lost"


class IdleStep(StrEnum):
    """The reclaim ladder (reclaim.py): what has been done about a session that holds GPUs and does not use them."""

    NONE = ""
    WARNED = "warned"
    LENT = "lent"  # its GPUs may be used by preemptible sessions while it idles
    SHRUNK = "shrunk"  # it has a fraction of what it had
    STOPPED = "stopped"  # kept as an image where the engine can, and told to stop


@dataclass(frozen=True, slots=True)
class Request:
    share: Share = NO_GPU
    command: tuple[str, ...] = ()  # empty only for an interactive session
    cpus_milli: int | None = None  # None: in proportion to the GPU share of the node it lands on
    memory_bytes: int | None = None  # None: likewise
    gpu_kind: str | None = None
    pool: str | None = None
    image: str | None = None  # None: the default image
    time_limit: timedelta | None = None
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    workdir: str | None = None
    retries: int = 0  # how often a failed attempt is tried again
    after: tuple[str, ...] = ()  # ids of sessions that must end well first
    gpu_memory_bytes: int | None = None  # of the one GPU that it gets a part of; None: the same part of its memory
    on_gpu: str | None = None  # UUID: on this GPU and no other. For self-tests: people name kinds
    preemptible: bool = False  # may use what is another's by right and not used now, and goes back into the queue when that is wanted
    gang: str | None = None  # the same for all that start together or not at all
    gang_size: int = 0  # how many they are


@dataclass(frozen=True, slots=True)
class GpuSeat:
    """One GPU's part of a seat."""

    index: int
    uuid: str  # of the GPU itself
    parts: int  # of PARTS, what share of the GPU; of a MIG instance its compute slices over all of them
    memory_bytes: int
    kind: str = ""
    simulated: bool = False
    profile: str = ""  # MIG alone, with the next three
    start: int = 0
    size: int = 0
    instance_uuid: str = ""  # a fixed MIG instance; empty when it is cut on demand
    enforced: tuple[str, ...] = ()
    accounted: tuple[str, ...] = ("memory", "sm")
    memory_parts: int | None = None  # of PARTS, what share of the GPU's memory, where it was asked for apart; None: as `parts`
    sharing: Sharing = Sharing.TIME  # by what it is held apart from others on the same GPU
    borrowed: bool = False  # it sits in what an idle session lends, and leaves when that one wants it back
    shrunk_from: int | None = None  # the parts it had before it was shrunk for being idle; None: it was not

    @property
    def device(self) -> str:
        """What CUDA_VISIBLE_DEVICES should say."""
        return self.instance_uuid or self.uuid


@dataclass(frozen=True, slots=True)
class Seat:
    node: str
    cpus_milli: int
    memory_bytes: int
    gpus: tuple[GpuSeat, ...] = ()
    charge_parts: int = 0  # what fair share counts a second of it as, in parts of a GPU (see turn.py)

    @property
    def gpu_parts(self) -> int:
        return sum(gpu.parts for gpu in self.gpus)

    @property
    def scarcest_gpu_parts(self) -> int:
        """What nobody else can use: of each GPU the larger of the two parts it takes."""
        return sum(max(gpu.parts, gpu.memory_parts or 0) for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    name: str
    owner: str
    kind: SessionKind
    request: Request
    submitted_at: datetime
    since: datetime  # when it came into its phase
    number: int = 0  # order of submission, given by the store
    team: str | None = None
    priority: int = 0
    wanted: Wanted = Wanted.RUN
    stop_outcome: Outcome = Outcome.STOPPED  # how it ends if `wanted` is STOP; who asked has set it
    stop_why: str = ""
    phase: Phase = Phase.QUEUED
    why: str = ""
    outcome: Outcome | None = None
    exit_code: int | None = None
    seat: Seat | None = None
    attempt: int = 1
    refusals: int = 0  # by the engine, in a row
    revision: int = 1
    placed_at: datetime | None = None  # since when the seat is held
    started_at: datetime | None = None
    ended_at: datetime | None = None
    swapped_from: str | None = None  # the image to go back to, until the one it was swapped for has started
    idle_step: IdleStep = IdleStep.NONE  # how far down the reclaim ladder it is
    idle_since: datetime | None = None  # when it came to that step
    kept_until: datetime | None = None  # its owner said keep: until then it is not asked to give anything back
    preempted: int = 0  # attempts that ended because others had the better right: they count as no failure

    @property
    def holds_gpus(self) -> bool:
        return self.phase in HOLDS_GPUS

    @property
    def is_lent(self) -> bool:
        return self.idle_step is IdleStep.LENT

    @property
    def comes_back(self) -> bool:
        """It was asked to leave, and starts again when it has: in the queue, or with another image in its seat."""
        return self.phase is Phase.STOPPING and self.wanted is Wanted.RUN

    @property
    def state(self) -> str:
        return state_word(self.phase)

    @property
    def expected_end(self) -> datetime | None:
        """The latest it may run to; None without a limit, or before it has started."""
        if self.request.time_limit is None or self.started_at is None:
            return None
        return self.started_at + self.request.time_limit
