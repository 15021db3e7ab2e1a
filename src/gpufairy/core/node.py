"""Node and Gpu: what a machine has. What of it is free is computed from the seats, in room.py, never stored."""
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.share import PARTS


class NodeState(StrEnum):
    READY = "ready"
    DRAINED = "drained"  # by an admin: what runs goes on, nothing new starts
    FAULTY = "faulty"  # its driver does not answer: what runs goes on, nothing new starts
    SILENT = "silent"  # gave no answer for a while; nothing is known of what runs there


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    uuid: str
    kind: str  # "A100-40GB"
    memory_bytes: int
    simulated: bool = False
    fgpu_parts: int = PARTS  # how many fGPU this GPU is, in parts of one fGPU: 5 fGPU is 5 * PARTS
    mig: MigTable | None = None  # None: not in MIG mode, so whole or in fractions
    instances: tuple[MigInstance, ...] | None = None  # None: cut on demand; else the cut is fixed

    @property
    def shares_enforced(self) -> tuple[str, ...]:
        """What of a share the hardware or driver holds the user to. Shown wherever a share is."""
        return ("memory", "sm") if self.mig is not None and not self.simulated else ()


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpus_milli: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    state: NodeState = NodeState.READY
    state_why: str = ""
    pool: str | None = None
    seen_at: datetime | None = None  # the last answer; None: never
    driver_cuda: str | None = None  # the highest CUDA version its driver takes; None: not known
