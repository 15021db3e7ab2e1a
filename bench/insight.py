"""Advice on 1,000 sessions at once: the rules over arrays, and all of it with the readings fetched from SQLite."""
import asyncio
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert

from bench.figures import Figure, Report
from bench.history import a_block
from gpufairy.control.clock import HeldClock
from gpufairy.control.insight import Insight
from gpufairy.control.watch import Watch
from gpufairy.core.insight import GpuLook, Pace, SessionLook
from gpufairy.core.insight_rules import advice_of_all
from gpufairy.core.lifecycle import Phase
from gpufairy.core.series import Kind
from gpufairy.core.session import GpuSeat, Request, Seat, Session, SessionKind
from gpufairy.core.share import PARTS
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, to_bytes
from gpufairy.store.store import Store
from gpufairy.store.tables import reading_blocks, reading_subjects

NOW = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)  # at the end of a block: so that all that is looked at lies in one, or in two
SESSIONS, GPUS_EACH, GOAL_MS = 1000, 8, 200
GIB = 2**30


def measure(sessions: int = SESSIONS) -> Report:
    looks = [a_look(np.random.default_rng(number)) for number in range(sessions)]
    rules_s, cpu_s = (min(of_each) for of_each in zip(*(timed(looks) for _ in range(9)), strict=True))
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        whole_s = asyncio.run(from_store(Path(folder) / "data" / "fairy.db", sessions))
    return Report(
        "insight",
        [
            Figure(
                f"advice on {sessions} sessions, by 180 readings of each", rules_s * 1000, "ms", goal=GOAL_MS, higher_is_better=False,
                note=f"best of nine; {cpu_s * 1000:.0f} ms of CPU",
            ),
            Figure(
                "the same, with their readings fetched from SQLite", whole_s * 1000, "ms",
                note="worked out when somebody looks, and kept for half a minute",
            ),
        ],
    )  # fmt: skip


def timed(looks: list[SessionLook]) -> tuple[float, float]:
    """By the clock, and of the CPU: a machine with other work to do takes longer, and no more."""
    began, began_cpu = time.perf_counter(), time.process_time()
    advice_of_all(looks)
    return time.perf_counter() - began, time.process_time() - began_cpu


def a_look(chance: np.random.Generator) -> SessionLook:
    """Some starve, some rest, most are well; all with every reading there can be."""
    back = Pace().back
    gpu, cpu = chance.uniform(0, 1), chance.uniform(0, 1)
    use = np.clip(chance.normal(gpu, 0.05, back), 0, 1)
    own = {
        "gpus_held": np.ones(back), "gpus_unknown": np.zeros(back), "gpus_used": use,
        "cpus": np.clip(chance.normal(cpu, 0.02, back), 0, 1) * 8,
        "gpu_memory_bytes": np.full(back, 30.0 * GIB), "memory_bytes": np.full(back, chance.uniform(0, 64.0) * GIB),
        **{f"{name}_bytes_per_s": chance.uniform(0, 1e8, back) for name in ("read", "written", "received", "sent")},
        "io_waited": chance.uniform(0, 0.3, back),
    }  # fmt: skip
    names = ("sm_active", "throttled_power", "throttled_heat")
    on_gpu = {"utilisation": use, "power_w": use * 300, "temperature_c": use * 70, **{name: chance.uniform(0, 0.5, back) for name in names}}
    node = {f"{name}_bytes_per_s": chance.uniform(0, 1e9, back) for name in ("read", "written")} | {"disk_busy": chance.uniform(0, 1, back)}
    gpus = (GpuLook(0, on_gpu, power_limit_w=400.0),)
    return SessionLook("brave-otter", True, 1.0, 40 * GIB, 8.0, 64 * GIB, 500, own, node, gpus, node_cpus=64, link_bytes_per_s=1.25e9)


async def from_store(file: Path, count: int) -> float:
    file.parent.mkdir()
    store = await Store.open(f"sqlite:///{file}", holder="bench", half_life=timedelta(days=7))
    await fill(store, count)
    sessions = [a_session(number) for number in range(count)]
    clock = HeldClock(NOW)
    times: list[float] = []
    for _ in range(3):
        insight = Insight(store.history, Watch(clock, list), clock)
        began = time.perf_counter()
        await insight.live(sessions)
        times.append(time.perf_counter() - began)
    await store.close()
    return min(times)


async def fill(store: Store, count: int) -> None:
    nodes = [f"n{number}" for number in range(-(-count // GPUS_EACH))]
    subjects = [
        *((Kind.SESSION, f"s{number}", nodes[number // GPUS_EACH]) for number in range(count)),
        *((Kind.GPU, f"GPU-{number}", nodes[number // GPUS_EACH]) for number in range(count)),
        *((Kind.NODE, node, node) for node in nodes),
    ]
    chance, step_s = np.random.default_rng(1), Pace().step_s
    start = int(NOW.timestamp()) // (step_s * BUCKETS_IN_BLOCK) * step_s * BUCKETS_IN_BLOCK - step_s * BUCKETS_IN_BLOCK
    blocks = [
        {"subject": number, "step_s": step_s, "start": start, "body": to_bytes(kind, a_block(kind, 0, BUCKETS_IN_BLOCK, step_s, chance))}
        for number, (kind, _, _) in enumerate(subjects, 1)
    ]
    rows = [{"kind": kind.value, "name": name, "node": node} for kind, name, node in subjects]
    await store._held.writer.write(lambda connection: add(connection, reading_subjects, rows))
    await store._held.writer.write(lambda connection: add(connection, reading_blocks, blocks))


def add(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    connection.execute(insert(table), rows)


def a_session(number: int) -> Session:
    began = NOW - timedelta(hours=5)
    gpu = GpuSeat(number % GPUS_EACH, f"GPU-{number}", PARTS, 40 * GIB)
    seat = Seat(f"n{number // GPUS_EACH}", 8000, 64 * GIB, (gpu,))
    made = Session(f"s{number}", f"job-{number}", "ann", SessionKind.BATCH, Request(command=("work",)), began, began, seat=seat)
    return replace(made, phase=Phase.RUNNING, started_at=began, placed_at=began)
