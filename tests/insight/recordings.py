"""Recorded sessions (see record.py): what was read of real programs, and what should be said of them."""
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
from labelled import Labelled

from gpufairy.core.insight import Code, GpuLook, Pace, SessionLook

FOLDER = Path(__file__).parents[1] / "data" / "insight" / "recorded"
PACE = Pace(timedelta(minutes=3))  # as long as the recordings are
GIB, MIB = 2**30, 2**20
# By the name of the file: what should be said, and the CPUs and MiB of memory that were set aside for it. GPU memory is stated, not read.
WANTED: dict[str, tuple[frozenset[Code], float, int]] = {
    "loader_in_two_workers": (frozenset({Code.LOADER}), 2, 4096),
    "loader_in_the_same_thread": (frozenset({Code.ONE_THREAD}), 4, 4096),
    "random_reads": (frozenset({Code.STORAGE}), 4, 4096),
    "holds_and_sleeps": (frozenset({Code.MEMORY_HELD}), 4, 4096),
    "cpu_alone": (frozenset({Code.GPU_UNUSED}), 4, 4096),
    "memory_nearly_full": (frozenset({Code.HOST_MEMORY}), 4, 235),
    "done_and_not_ended": (frozenset({Code.FINISHED}), 4, 4096),
    "trains_well": (frozenset(), 4, 4096),
    "serves_little": (frozenset(), 4, 4096),
    "evaluates": (frozenset(), 1, 4096),
    "loads_for_a_minute": (frozenset(), 1, 4096),
}
BATCH = ("done_and_not_ended",)


def recordings() -> Iterator[Labelled]:
    for file in sorted(FOLDER.glob("*.json")):
        if file.stem.startswith("h200_"):
            yield on_a_gpu(file)
            continue
        wanted, cpus, memory_mib = WANTED[file.stem]
        read = json.loads(file.read_text())["columns"]
        own = {name: known(values) for name, values in read.items()}
        steps, use = len(own["gpu"]), own.pop("gpu")
        own |= {"gpus_held": np.ones(steps), "gpus_used": use, "gpus_unknown": np.zeros(steps), "gpu_memory_bytes": np.full(steps, 20.0 * GIB)}
        gpu = GpuLook(0, {"utilisation": use})
        look = SessionLook(file.stem, file.stem in BATCH, 1.0, 40 * GIB, cpus, memory_mib * MIB, steps, own, gpus_of=(gpu,))
        yield Labelled(file.stem, look, wanted, pace=PACE)


def on_a_gpu(file: Path) -> Labelled:
    """As tests/journeys/test_gpu_insight.py wrote it down: every reading is real."""
    told = json.loads(file.read_text())
    facts, own = told["facts"], {name: known(values) for name, values in told["columns"].items()}
    gpus = tuple(GpuLook(index, {name: known(values) for name, values in one.items()}, facts["whole"]) for index, one in enumerate(told["gpus"]))
    look = SessionLook(
        file.stem, facts["is_batch"], facts["gpus"], facts["gpu_memory_bytes"], facts["cpus"], facts["memory_bytes"],
        len(own["cpus"]), own, gpus_of=gpus,
    )  # fmt: skip
    return Labelled(file.stem, look, frozenset(map(Code, facts["wanted"])), frozenset(map(Code, facts["may"])), Pace(timedelta(minutes=2)))


def known(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)
