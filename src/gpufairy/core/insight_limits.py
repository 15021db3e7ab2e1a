"""Limits: from where on the rules of insight say something. Chosen on one half of the labelled set, judged on the other (tests/insight)."""
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Parts are 0 to 1."""

    most_of_the_time: float = 0.75  # a claim must hold for so much of the window: less is a phase, such as an evaluation
    gpu_low: float = 0.55  # below, the GPU waits for something
    works: float = 0.03  # of the GPU, from where on a program computes on it at all
    idle: float = 0.01  # of the GPU: the least that drivers tell apart from nothing
    cpu_full: float = 0.85  # of its CPUs
    cpu_calm: float = 0.6  # below, its CPUs are not what it waits for
    cpus_idle: float = 0.1  # of one CPU: a notebook that waits takes a hundredth
    cpus_busy: float = 0.5  # of one CPU
    one_cpu_least: float = 0.8  # what one thread takes that never rests
    one_cpu_most: float = 1.3
    waits: float = 0.35  # of the time its programs stand still for a disk
    disk_full: float = 0.9  # of the time the node's disk is at work
    disk_own: float = 0.5  # of what the node's disks move is this session's
    much_received: float = 50e6  # bytes per second, where nobody knows what the link carries
    received_even: float = 0.25  # unevenness: a full link is even
    link_full: float = 0.7  # of what the link carries
    little_moved: float = 1e6  # bytes per second: below, nothing to speak of is fetched or written
    memory_held: float = 0.1  # of its share of the GPU's memory: a bare context takes less
    memory_full: float = 0.92  # of its memory
    spare_busy: float = 0.2  # what the other GPUs do, where one does nothing
    kernels_small: float = 0.35  # of the multiprocessors that are at work while anything is
    power_small: float = 0.35  # of the GPU's power limit, where nobody counts multiprocessors
    memory_free: float = 0.35  # of its share of the GPU's memory is used at the most
    batch_busy: float = 0.2  # use of the GPU, where multiprocessors are counted
    batch_busy_by_power: float = 0.8
    throttled: float = 0.5  # of the time
    throttled_busy: float = 0.5  # use of the GPU while it is held back


LIMITS = Limits()
