"""kill -9 while reports come in and are folded: each that was acknowledged counts, and none counts twice."""
import asyncio
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from store_builders import a_store

from gpufairy.core.series import Kind, Subject

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

HERE = Path(__file__).parent
NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)

WRITER = """
import asyncio, os, sys
from datetime import UTC, datetime, timedelta
from gpufairy.core.series import Kind, Subject, point
from store_builders import a_store

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)

async def report(store):
    for turn in range(1, 2000):
        at = NOW + timedelta(seconds=5 * turn)
        points = [point(Subject(Kind.GPU, "GPU-1", "gpu01"), utilisation=1.0)]
        await store.history.append("gpu01", at, points, seconds=5, arrived_at=at)
        os.write(1, f"{turn}\\n".encode())

async def fold(store):
    while True:
        await store.history.roll_up(NOW + timedelta(hours=3), timedelta())

async def main():
    async with a_store(sys.argv[1], "to be killed") as store:
        await asyncio.gather(report(store), fold(store))

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 40, 150])
async def test_every_acknowledged_report_counts_once_after_a_kill(store_url: str, lines: int):
    acknowledged = await killed_after(lines, store_url)
    day = timedelta(days=1)
    async with asyncio.timeout(30), a_store(store_url) as store:
        for _ in ("as it was left", "folded to the end"):
            totals = await store.history.totals(Kind.GPU, NOW, NOW + day, step=10)
            reports = totals[Subject(Kind.GPU, "GPU-1", "gpu01")]["utilisation"].known_s / 5
            assert acknowledged <= reports <= acknowledged + 1  # the last may have been written, and its answer lost
            while await store.history.roll_up(NOW + timedelta(hours=3), timedelta()):
                pass


async def killed_after(lines: int, url: str) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url, stdout=asyncio.subprocess.PIPE, env=environment)
    assert process.stdout is not None
    for _ in range(lines):
        await process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    assert await process.wait() == -signal.SIGKILL
    return lines + rest.count(b"\n")
