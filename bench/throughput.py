"""No-op batch sessions a second, submit to ENDED, beside a real Slurm in the same run."""
import asyncio
import tempfile
import time
from pathlib import Path

import aiohttp

from bench import slurm
from bench.figures import Figure, Report, percentile
from bench.server import LiveServer

SESSIONS = 5000
SLURM_JOBS = 300
SUBMITTERS = 8
PUBLISHED = "published: Slurm 500 jobs/s on large machines, JupyterHub 12-25 starts/s"


def measure() -> Report:
    settings = f"[node]\ncpus = {slurm.PRETENDED_CPUS}\n"
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder, LiveServer(Path(folder) / "fairy", settings) as server:
        ours, submits = asyncio.run(run_all(server))
    peer, array, note = slurm_figures()
    return Report("throughput", [
        Figure(f"no-op sessions, submit to ENDED, {SESSIONS}", ours, "/s", goal=100, peer="Slurm, 300", peer_value=peer, note=note),
        Figure("the same, times Slurm's one-by-one rate", ours / peer if peer else None, "x", goal=3),
        Figure("the same, times Slurm's rate of one array", ours / array if array else None, "x", peer="Slurm --array", peer_value=array),
        Figure("submits while they run, median", percentile(submits, 0.5) * 1000, "ms", higher_is_better=False),
        Figure("submits while they run, p99", percentile(submits, 0.99) * 1000, "ms", higher_is_better=False, note=PUBLISHED),
    ])  # fmt: skip


async def run_all(server: LiveServer) -> tuple[float, list[float]]:
    """Eight clients submit one by one over HTTP; the clock stops when the last session has ended."""
    left, took_s = iter(range(SESSIONS)), []
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.token}"}) as http:

        async def submitter() -> None:
            for _ in left:
                began = time.monotonic()
                async with http.post(f"{server.url}/api/v1/sessions", json={"command": ["true"], "gpus": "0"}) as answer:
                    answer.raise_for_status()
                took_s.append(time.monotonic() - began)

        began = time.monotonic()
        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))
        while await waiting(http, server.url):
            await asyncio.sleep(0.1)
        rate = SESSIONS / (time.monotonic() - began)
        async with http.get(f"{server.url}/api/v1/sessions?all=1&limit=1000") as answer:
            outcomes = {session["outcome"] for session in (await answer.json())["items"]}
    assert outcomes == {"done"}, outcomes
    return rate, took_s


async def waiting(http: aiohttp.ClientSession, url: str) -> bool:
    async with http.get(f"{url}/api/v1/sessions?limit=1") as answer:
        return bool((await answer.json())["items"])


def slurm_figures() -> tuple[float | None, float | None, str]:
    if (reason := slurm.why_not()) is not None:
        return None, None, reason
    with slurm.running_slurm() as env:
        return slurm.jobs_a_second(env, SLURM_JOBS), slurm.array_jobs_a_second(env, SLURM_JOBS), ""
