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


class Sharing(StrEnum):
    """By what means fractions of a GPU are held apart."""

    MPS = "mps"  # NVIDIA's: each its part of the multiprocessors and of the memory, at the same time
    TIME = "time"  # one after the other, as the driver pleases: accounted only
    MIG = "mig"  # cut in hardware


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
    mig_auto: bool = False  # its cut follows what waits in the queue
    sharing: Sharing = Sharing.MPS  # of fractions, where it is not in MIG mode
    held_to: tuple[str, ...] = ()  # what of a share the last self-test found enforced: "memory", "sm"
    alone: bool = False  # the same: whoever has a whole GPU here can reach no other
    closed: str = ""  # why MPS lets nobody new in on it now, in words; empty: it does
    mps_stays: str = ""  # why MPS cannot be given up on it now, so that it is neither whole nor shared by time; empty: it can


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
    coming_s: int | None = None  # it comes in about so many seconds once somebody is given a seat on it; None: it is there
    came_at: datetime | None = None  # when its machine joined; None: not known
    # What others than sessions hold of it, where nobody tells which: so many GPUs (under no name), or MIG instances by profile.
    of_others: tuple[tuple[str, int], ...] = ()
    others_cpus_milli: int = 0  # which may be given back: what stays for good is not among its CPUs at all
    others_memory_bytes: int = 0
    without_others: "Node | None" = None  # as it will be when they have left; None: nobody else is there
