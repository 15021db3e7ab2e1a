"""How GPUs are shared: how many fGPU each is and by what means fractions are held, as the admin said; and what a self-test found held.

What is `enforced` comes from a test on that very GPU, never from belief: without one, a share is only accounted.
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from gpufairy.core.node import Gpu, Node, Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS

MEMORY, SM, DEVICES = "memory", "sm", "devices"  # the things a share may be held to
EVASION = "evasion"  # programs made to get round it on purpose: without the share library, and with false words to MPS
SHARED_FAULTS = (
    "A fraction shares one GPU by NVIDIA MPS, and with it faults: when one program on that GPU crashes in GPU code (such as an illegal "
    "memory access), CUDA fails in every other program that shares the GPU, and each has to start anew. "
    "Ask for a whole GPU or a MIG instance if yours must not."
)


class Verdict(StrEnum):
    ENFORCED = "enforced"  # it was tried, and refused
    ACCOUNTED = "accounted"  # nothing holds it, by choice: it is counted, and watched
    FAILED = "failed"  # it should hold, and did not
    UNTRIED = "untried"  # could not be tried here; `found` says why


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to get more than one's share, and what came of it."""

    way: str  # "cuMemAlloc", "a second process", "a static binary", …
    of: str  # MEMORY, SM, DEVICES or EVASION
    verdict: Verdict
    found: str  # in words, with figures


@dataclass(frozen=True, slots=True)
class IsolationTest:
    """What one run of the self-test found on one GPU, in one way of sharing it."""

    node: str
    gpu: str  # UUID
    sharing: Sharing
    at: datetime
    attempts: tuple[Attempt, ...]
    driver: str | None = None

    def can_hold(self, what: str) -> bool:
        """In turns everybody has all of the GPU: the share library may refuse a program, but a program without it is held by nobody."""
        return self.sharing is not Sharing.TIME or what not in (MEMORY, SM)

    def holds(self, what: str) -> bool:
        tried = [attempt.verdict for attempt in self.attempts if attempt.of == what and attempt.verdict is not Verdict.UNTRIED]
        return self.can_hold(what) and bool(tried) and all(verdict is Verdict.ENFORCED for verdict in tried)


@dataclass(frozen=True, slots=True)
class ShareRule:
    """Of one GPU (its UUID), one kind, or all (`*`). None: what a more general rule says."""

    of: str
    fgpu_parts: int | None = None
    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """What of MPS stands in the way of newcomers to a GPU: see Gpu.closed and Gpu.mps_stays."""

    why: str = ""
    mps_stays: str = ""


ALL = "*"
ALL_OPEN: Mapping[str, Closed] = MappingProxyType({})
OPEN = Closed()


def ruled(
    node: Node, rules: Mapping[str, ShareRule], tests: Mapping[tuple[str, Sharing], IsolationTest],
    closed: Mapping[str, Closed] = ALL_OPEN,
) -> Node:  # fmt: skip
    """The node's GPUs as the admin wants them shared, with what was found to hold, and which of them are closed."""
    return replace(node, gpus=tuple(_closed(_ruled(gpu, rules, tests), closed.get(gpu.uuid, OPEN)) for gpu in node.gpus))


def _closed(gpu: Gpu, found: Closed) -> Gpu:
    """Beside what the engine itself has said of it."""
    return replace(gpu, closed=found.why or gpu.closed, mps_stays=found.mps_stays or gpu.mps_stays)


def opened(node: Node) -> Node:
    """For those who ask what could ever fit: what stands in the way today goes by itself, or an admin mends it."""
    alone = node.without_others or node
    return replace(alone, gpus=tuple(replace(gpu, closed="", mps_stays="") if gpu.closed or gpu.mps_stays else gpu for gpu in alone.gpus))


def _ruled(gpu: Gpu, rules: Mapping[str, ShareRule], tests: Mapping[tuple[str, Sharing], IsolationTest]) -> Gpu:
    for rule in (rules.get(ALL), rules.get(gpu.kind), rules.get(gpu.uuid)):
        if rule is not None:
            fgpu_parts = gpu.fgpu_parts if rule.fgpu_parts is None else rule.fgpu_parts
            gpu = replace(gpu, fgpu_parts=fgpu_parts, sharing=gpu.sharing if rule.sharing is None else rule.sharing)
    test = tests.get((gpu.uuid, sharing_of(gpu)))
    held = () if test is None or gpu.simulated else tuple(what for what in (MEMORY, SM) if test.holds(what))
    return replace(gpu, held_to=held, alone=test is not None and not gpu.simulated and test.holds(DEVICES))


def sharing_of(gpu: Gpu) -> Sharing:
    """What it is cut into counts before how fractions of it would be held."""
    return Sharing.MIG if gpu.mig is not None else gpu.sharing


def seat_words(gpu: Gpu, parts: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a seat on it is held to, and what is only counted. Of a whole GPU all is one's own, if no other can be reached."""
    if parts >= PARTS and gpu.mig is None:
        held: tuple[str, ...] = (MEMORY, SM) if gpu.alone else ()
    else:
        held = gpu.held_to
    return held, tuple(what for what in (MEMORY, SM) if what not in held)


def sm_percent(seat: GpuSeat) -> int:
    """Of the multiprocessors, as MPS is told: whole percents, never none."""
    return max(1, round(seat.parts * 100 / PARTS))


def is_fraction(seat: GpuSeat) -> bool:
    return not seat.profile and (seat.parts < PARTS or (seat.memory_parts or PARTS) < PARTS)


def by_mps(seat: GpuSeat) -> bool:
    """A part of a real GPU, beside others' at the same time: with them it shares its faults."""
    return not seat.simulated and seat.sharing is Sharing.MPS and is_fraction(seat)


def latest(tests: Iterable[IsolationTest]) -> dict[tuple[str, Sharing], IsolationTest]:
    found: dict[tuple[str, Sharing], IsolationTest] = {}
    for test in sorted(tests, key=lambda test: test.at):
        found[test.gpu, test.sharing] = test
    return found
