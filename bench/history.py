"""The history of readings on SQLite: its size after a year of 120 GPUs, the cost of 500 reporting nodes, and of a chart."""
import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert

from bench.figures import Figure, Report
from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.points import HeldPart, points_of
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.core.series import COLUMNS, Kind, Subject
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, TENTHS, Block, to_bytes, with_max
from gpufairy.store.store import Store
from gpufairy.store.tables import reading_blocks, reading_subjects

NOW = datetime(2026, 11, 15, tzinfo=UTC)
DAY_S = 86_400
GPUS, NODES, USERS, LIVE_SESSIONS, SESSIONS_A_DAY = 120, 39, 40, 30, 100
USERS_ON = 3  # nodes that a user works on
KEPT_S = {10: 2 * DAY_S, 60: 30 * DAY_S, 3600: 365 * DAY_S}
CROWD, GPUS_EACH, EVERY_S, FOLD_S = 500, 8, 5, 300
SHARE_OF_CROWD = 25  # nodes that are really simulated: the cost of a node does not depend on how many there are
BUSY = {
    "utilisation": (0.8, 0.15), "memory_utilisation": (0.4, 0.1), "sm_active": (0.6, 0.12), "power_w": (480.0, 40.0),
    "gpus_used": (0.8, 0.15), "cpu": (0.3, 0.1), "read_bytes_per_s": (5e7, 2e7), "received_bytes_per_s": (1e7, 5e6),
}  # fmt: skip
STEADY = {"memory_bytes": 6e10, "gpu_memory_bytes": 6e10, "temperature_c": 61.0, "held": 1.0, "gpus_held": 1.0, "cpus": 4.2, "load_1m": 6.0}


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        file = Path(folder) / "data" / "fairy.db"
        year = asyncio.run(a_year(file))
        crowd = asyncio.run(a_crowd(Path(folder) / "crowd" / "fairy.db"))
    return Report("history", [*year, *crowd])


async def a_year(file: Path) -> list[Figure]:
    store = await opened(file)
    await fill(store)
    in_use = await store._held.reader.read(bytes_in_use)
    week = timedelta(days=7)
    chart_s = await best_of(lambda: store.history.read(Kind.GPU, "GPU-0", NOW - week, NOW, now=NOW))
    hour_s = await best_of(lambda: store.history.read(Kind.GPU, "GPU-0", NOW - timedelta(hours=1), NOW, now=NOW))
    user_s = await best_of(lambda: store.history.read(Kind.USER, "user-0", NOW - week, NOW, now=NOW))
    usage_s = await best_of(lambda: store.history.totals(Kind.GPU, NOW - week, NOW, step=3600))
    await store.close()
    what = f"{GPUS} GPUs, {NODES} nodes, {USERS} users, {SESSIONS_A_DAY} sessions a day"
    return [
        Figure(f"database after a year of {what}", in_use / 1e6, "MB", goal=250, higher_is_better=False, note="every GPU busy and noisy"),
        Figure("chart of a week of one GPU", chart_s * 1000, "ms", goal=50, higher_is_better=False),
        Figure("chart of the last hour of one GPU", hour_s * 1000, "ms", goal=50, higher_is_better=False),
        Figure(f"chart of a week of a user on {USERS_ON} nodes", user_s * 1000, "ms", goal=50, higher_is_better=False),
        Figure("what all GPUs were used in a week", usage_s * 1000, "ms", goal=500, higher_is_better=False),
    ]


async def a_crowd(file: Path) -> list[Figure]:
    """Three folds of some nodes: the first begins blocks, the last finds them grown."""
    store, reports, chance = await opened(file), FOLD_S // EVERY_S, np.random.default_rng(1)
    append_s = fold_s = 0.0
    for fold in range(3):
        ats = [NOW + timedelta(seconds=fold * FOLD_S + (turn + 1) * EVERY_S) for turn in range(reports)]
        samples = [[a_sample(f"n{node}", at, chance) for node in range(SHARE_OF_CROWD)] for at in ats]
        began = time.process_time()
        for of_nodes in samples:
            await asyncio.gather(*(take(store, sample) for sample in of_nodes))
        append_s, began = time.process_time() - began, time.process_time()
        while await store.history.roll_up(ats[-1], timedelta()):
            pass
        fold_s = time.process_time() - began
    await store.close()
    one_append_s, one_fold_s = append_s / SHARE_OF_CROWD / reports, fold_s / SHARE_OF_CROWD
    cores = CROWD * (one_append_s / EVERY_S + one_fold_s / FOLD_S)
    a_report = f"{one_fold_s / reports * 1e6:.0f} us a report"
    return [
        Figure(f"writing down one report of {GPUS_EACH} GPUs", one_append_s * 1e6, "us of CPU"),
        Figure(f"folding one node's {FOLD_S // 60} minutes", one_fold_s * 1e3, "ms of CPU", note=a_report),
        Figure(f"history of {CROWD} nodes of {GPUS_EACH} GPUs, every {EVERY_S} s", cores, "cores", goal=0.25, higher_is_better=False),
    ]


async def take(store: Store, sample: NodeSample) -> None:
    points = points_of(sample, None, held_on(sample.node))
    await store.history.append(sample.node, sample.at, points, seconds=sample.seconds, arrived_at=sample.at)


async def opened(file: Path) -> Store:
    return await Store.open(f"sqlite:///{file}", holder="bench", half_life=timedelta(days=7))


async def best_of(work: Callable[[], Awaitable[object]], times: int = 5) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return min(took)


def a_sample(node: str, at: datetime, chance: np.random.Generator) -> NodeSample:
    """A session on each GPU, with two processes."""
    uuids = [f"GPU-{node}-{index}" for index in range(GPUS_EACH)]
    devices = tuple(GpuDevice(uuid, str(index), index, "H200-141GB", 141 * 2**30) for index, uuid in enumerate(uuids))
    readings = tuple(
        GpuReading(uuid, at, use, 6 * 10**10, memory_utilisation=use / 2, sm_active=use / 3, power_w=300 + 200 * use, temperature_c=60.0)
        for uuid, use in zip(uuids, chance.random(GPUS_EACH).tolist(), strict=True)
    )
    processes = tuple(
        ProcessReading(
            GpuProcess(index, uuids[index % GPUS_EACH], 3 * 10**10, 0.3), RunningProcess(index, 1, 1000, "python"),
            Owner(f"user-{index % 4}", KnownBy.SESSION, f"{node}-{index % GPUS_EACH}"),
        )
        for index in range(2 * GPUS_EACH)
    )  # fmt: skip
    sessions = tuple(SessionReading(f"{node}-{index}", 4.0, 2**33) for index in range(GPUS_EACH))
    host = HostReading(at, cpu_used=float(chance.random()), load_1m=5.0, memory_total_bytes=2**40, memory_available_bytes=2**39)
    return NodeSample(node, at, EVERY_S, host, devices, readings, processes, sessions)


def held_on(node: str) -> dict[str, list[HeldPart]]:
    return {f"GPU-{node}-{index}": [HeldPart(f"{node}-{index}", f"user-{index % 4}", 1.0)] for index in range(GPUS_EACH)}


@dataclass(frozen=True, slots=True)
class Life:
    """Of one subject: from when until when it was there, in seconds before NOW."""

    subject: Subject
    from_s: int
    to_s: int = 0


def lives() -> Iterator[Life]:
    year_s = KEPT_S[3600]
    for gpu in range(GPUS):
        yield Life(Subject(Kind.GPU, f"GPU-{gpu}", f"n{gpu % NODES}"), year_s)
    for node in range(NODES):
        yield Life(Subject(Kind.NODE, f"n{node}", f"n{node}"), year_s)
    for user in range(USERS):
        for place in range(USERS_ON):
            yield Life(Subject(Kind.USER, f"user-{user}", f"n{(user + place) % NODES}"), year_s)
    length_s = LIVE_SESSIONS * DAY_S // SESSIONS_A_DAY
    for number in range(365 * SESSIONS_A_DAY):
        end_s = number * DAY_S // SESSIONS_A_DAY
        yield Life(Subject(Kind.SESSION, f"s{number}", f"n{number % NODES}"), min(year_s, end_s + length_s), end_s)


async def fill(store: Store) -> None:
    everybody = list(lives())
    rows = [{"kind": life.subject.kind.value, "name": life.subject.name, "node": life.subject.node} for life in everybody]
    await store._held.writer.write(lambda connection: add(connection, reading_subjects, rows))
    chance = np.random.default_rng(1)
    for begin in range(0, len(everybody), 50):
        blocks = [row for number, life in enumerate(everybody[begin : begin + 50], begin + 1) for row in blocks_of(number, life, chance)]
        await store._held.writer.write(lambda connection, blocks=blocks: add(connection, reading_blocks, blocks))


def add(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    connection.execute(insert(table), rows)


def blocks_of(number: int, life: Life, chance: np.random.Generator) -> Iterator[dict[str, Any]]:
    now_s = int(NOW.timestamp())
    for step_s, kept_s in KEPT_S.items():
        bucket, end = (now_s - min(life.from_s, kept_s)) // step_s, math.ceil((now_s - life.to_s) / step_s)
        while bucket < end:
            start = bucket // BUCKETS_IN_BLOCK * BUCKETS_IN_BLOCK
            until = min(end, start + BUCKETS_IN_BLOCK)
            block = a_block(life.subject.kind, bucket - start, until - bucket, step_s, chance)
            yield {"subject": number, "step_s": step_s, "start": start * step_s, "body": to_bytes(life.subject.kind, block)}
            bucket = until


def a_block(kind: Kind, first: int, count: int, step_s: int, chance: np.random.Generator) -> Block:
    """As from reports that each stand for EVERY_S, made of noise: real GPUs are idle or steady for hours, and take less."""
    reports, sums, peaks = step_s // EVERY_S, [], []
    tenths = np.full((len(COLUMNS[kind]), count), step_s * TENTHS)
    for column in COLUMNS[kind]:
        mean, spread = BUSY.get(column.name, (STEADY.get(column.name, 0.0), 0.0))
        shown = min(reports, 12)  # values drawn: the sum of more has as many digits
        values = np.round(chance.normal(mean, spread, (count, shown)).clip(0) / column.grain).astype(np.int64)
        tail = chance.integers(0, reports, count) if spread and reports > shown else 0
        sums.append(values.sum(axis=1) * (reports // shown) * EVERY_S * TENTHS + tail * EVERY_S * TENTHS)
        peaks.append(values.max(axis=1))
    return Block(first, np.array(sums), tenths, np.array(peaks)[with_max(kind)])


def bytes_in_use(connection: Connection) -> int:
    pages, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "page_size"))
    return int(pages * size)
