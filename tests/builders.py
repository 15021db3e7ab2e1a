"""Values for tests, with everything that a test does not care about filled in."""
import itertools
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpufairy.core.node import Gpu, Node
from gpufairy.core.session import GpuSeat, Request, Seat, Session, SessionKind
from gpufairy.core.share import PARTS

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
GIB = 2**30
_numbers = itertools.count(1)


def a_gpu(index: int = 0, **fields: Any) -> Gpu:
    made = Gpu(index, f"GPU-simulated-{index}", "A100-40GB", 40 * GIB, simulated=True)
    return replace(made, **fields)


def a_node(name: str = "here", gpus: int = 2, **fields: Any) -> Node:
    return replace(Node(name, 4000, 16 * GIB, tuple(a_gpu(index) for index in range(gpus))), **fields)


def a_seat(node: str = "here", *gpus: GpuSeat, **fields: Any) -> Seat:
    return replace(Seat(node, 500, GIB, gpus), **fields)


def a_gpu_seat(index: int = 0, parts: int = PARTS, **fields: Any) -> GpuSeat:
    return replace(GpuSeat(index, f"GPU-simulated-{index}", parts, 40 * GIB * parts // PARTS, "A100-40GB", simulated=True), **fields)


def a_session(*command: str, **fields: Any) -> Session:
    """A seated batch session that runs `command`; without one, an interactive session."""
    number = next(_numbers)
    kind = SessionKind.BATCH if command else SessionKind.INTERACTIVE
    request = Request(command=command)
    for name in fields.keys() & {"env", "workdir", "ports"}:
        request = replace(request, **{name: fields.pop(name)})
    made = Session(f"id{number}", f"brave-otter-{number}", "student1", kind, request, NOW, NOW, seat=a_seat())
    return replace(made, **fields)
