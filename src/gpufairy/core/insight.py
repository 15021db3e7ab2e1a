"""Insight: what a session's readings say of how it uses what it holds, as advice. A reading that is missing makes a rule silent."""
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from gpufairy.core.series import Floats

FINE_S, COARSE_S = 10, 60  # steps in which readings are kept
COARSE_FROM = timedelta(minutes=15)  # a window of so long is looked at by the minute
LOOKS_BACK = 6  # windows: whether a job that rests has worked before


class Code(StrEnum):
    HOST_MEMORY = "host_memory"
    FINISHED = "finished"
    MEMORY_HELD = "memory_held"
    GPU_UNUSED = "gpu_unused"
    SPARE_GPU = "spare_gpu"
    LOADER = "loader_starves"
    STORAGE = "storage_bound"
    NETWORK = "network_bound"
    BATCH = "batch_too_small"
    ONE_THREAD = "one_thread"
    HEAT = "throttled_heat"
    POWER = "throttled_power"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long is looked before anything is said. All other times follow from the window."""

    window: timedelta = timedelta(minutes=30)

    @property
    def step_s(self) -> int:
        return COARSE_S if self.window >= COARSE_FROM else FINE_S

    @property
    def steps(self) -> int:
        return max(6, round(self.window.total_seconds() / self.step_s))

    @property
    def back(self) -> int:
        """Steps that are read at all."""
        return LOOKS_BACK * self.steps

    @property
    def warm_up(self) -> int:
        """Steps from the start that say nothing: programs load, compile, fill their caches."""
        return math.ceil(self.steps / 10)

    @property
    def least(self) -> int:
        """Steps that must be known before anything is said: a shorter job is over before it is read."""
        return self.steps // 3

    @property
    def idle_least(self) -> int:
        """The same for saying that nothing happens: a pause to think is none."""
        return 2 * self.steps // 3

    @property
    def recent(self) -> int:
        """The newest steps: what was mended is not said any more."""
        return max(2, self.steps // 6)

    def length(self, steps: float) -> timedelta:
        return timedelta(seconds=steps * self.step_s)


@dataclass(frozen=True, slots=True)
class GpuLook:
    """One GPU of a seat. Columns as in the history of a GPU, one value for each step."""

    index: int
    columns: Mapping[str, Floats]
    whole: bool = True  # nobody else is on it: its readings are the session's own
    power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class SessionLook:
    """All that is known of one session over `pace.back` steps up to now, or to its end. Columns: NaN is not known."""

    name: str
    is_batch: bool
    gpus: float  # held, in GPU-equivalents
    gpu_memory_bytes: int
    cpus: float
    memory_bytes: int
    age_steps: int  # since it started
    own: Mapping[str, Floats]  # as in the history of a session
    node: Mapping[str, Floats] = field(default_factory=dict)  # of its node
    gpus_of: tuple[GpuLook, ...] = ()
    node_cpus: float | None = None
    link_bytes_per_s: float | None = None  # what the node's network can carry


@dataclass(frozen=True, slots=True)
class Evidence:
    what: str  # gpu, cpus, memory …
    value: float
    unit: str  # ratio, cpus, bytes, bytes_per_s, watts, celsius, gpus, seconds
    of: float | None = None  # the limit, in the same unit


@dataclass(frozen=True, slots=True)
class Advice:
    code: Code
    sentence: str
    next_step: str
    evidence: tuple[Evidence, ...]
    confidence: float  # 0 to 1
    window: timedelta  # over which the figures are
    saves_gpus: float  # GPUs that do nothing because of it, on average: what it would save, and its rank


def ranked(found: Sequence[Advice]) -> list[Advice]:
    """What would save the most first. Of the causes of one effect the surest is told, and what it explains is left out."""
    told = {one.code for one in found}
    hidden = {code for cause, effects in EXPLAINS.items() if cause in told for code in effects}
    return sorted((one for one in found if one.code not in hidden), key=lambda one: (-one.saves_gpus, -one.confidence, one.code))


EXPLAINS: Mapping[Code, tuple[Code, ...]] = {
    Code.FINISHED: (Code.MEMORY_HELD,),
    Code.SPARE_GPU: (Code.ONE_THREAD,),
    Code.LOADER: (Code.ONE_THREAD,),
    Code.STORAGE: (Code.ONE_THREAD, Code.NETWORK),
    Code.NETWORK: (Code.ONE_THREAD,),
    Code.BATCH: (Code.ONE_THREAD,),
}
