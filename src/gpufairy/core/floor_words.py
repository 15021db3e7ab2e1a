"""Why a request sits nowhere: of which nodes that is told in words, and how the others are counted. Ten thousand refusals nobody reads."""
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.fit import Refusal

NAMED = 10  # nodes told of in words
# By the first thing that a node lacks, as floor_wish tells it; 0: nothing that arrays know of.
LACKS = (
    "with GPUs that are kept for others or closed now", "not ready", "in another pool", "without such a GPU", "with too little GPU room",
    "with too few CPUs free", "with too little memory free",
)  # fmt: skip


TOO_FEW_GPUS = 4
OUT = 127
NONE = np.empty(0, dtype=np.intp)


def promising(lacks: NDArray[np.int8], free_parts: NDArray[np.int64], leave_out: Iterable[int], most: int) -> list[int]:
    """Those that lack the last thing asked for; of these those with the most GPU free, and of equals the first."""
    lacks = lacks.copy()
    lacks[list(leave_out)] = OUT
    found: list[int] = []
    for lack in (0, *range(len(LACKS) - 1, 0, -1)):
        wanted = most - len(found)
        nodes = np.flatnonzero(lacks == lack) if wanted else NONE
        found += most_free(nodes, free_parts[nodes], wanted) if len(nodes) > wanted else nodes.tolist()
    return found


def most_free(nodes: NDArray[np.intp], free_parts: NDArray[np.int64], wanted: int) -> list[int]:
    """Of equals the first."""
    best = np.flatnonzero(free_parts == free_parts.max())
    if len(best) < wanted:
        best = np.argsort(-free_parts, kind="stable")
    found: list[int] = nodes[best[:wanted]].tolist()
    return found


def others(lacks: NDArray[np.int8], named: Iterable[int]) -> tuple[Refusal, ...]:
    """One for all that are not named; none, if all are."""
    counts = np.bincount(lacks, minlength=len(LACKS)) - np.bincount(lacks[list(named)], minlength=len(LACKS))
    left = int(counts.sum())
    if not left:
        return ()
    words = ", ".join(f"{count:,} {LACKS[lack]}" for lack, count in enumerate(counts.tolist()) if count)
    return (Refusal(f"{left:,} more", f"of {left:,} more nodes {words}", nodes=left),)
