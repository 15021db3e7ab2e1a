"""A server with 500 reporting agents: its CPU, whether a reading is lost, and how fast pages and `fairy smi` are with 1,000 GPUs."""
import contextlib
import http.client
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.agent_crowd import EVERY_S, GPUS, PROCESSES, READY
from bench.commands import cpu_s, resident_mb, timed
from bench.figures import Figure, Report, percentile
from bench.server import ROOT, LiveServer

AGENTS, LASTS_S = 500, 60.0
AGENTS_SEEN = 125  # 1,000 GPUs
LOOKS, COMMANDS = 100, 10
KEPT = 60  # samples of each agent, when the server comes back after five minutes
RECOVERS_S = 300.0  # it is waited for so long
FIRST_REPORTS_S = EVERY_S + 2  # until every host has told of itself
PATHS = ("/", "/api/v1/nodes", "/api/v1/gpus")
LESS = {"higher_is_better": False}


def measure(
    *,
    agents: int = AGENTS,
    lasts_s: float = LASTS_S,
    kept: int = KEPT,
    agents_seen: int = AGENTS_SEEN,
    looks: int = LOOKS,
    commands: int = COMMANDS,
) -> Report:
    return Report("agents", [*reporting(agents, lasts_s), *recovering(agents, kept), *looking(agents_seen, looks, commands)])


def reporting(agents: int, lasts_s: float) -> list[Figure]:
    with server() as live:
        with a_crowd(live, agents, lasts_s) as crowd:
            before, began = cpu_s(live.pid), time.monotonic()
            told = json.loads(crowd.communicate(timeout=lasts_s + 120)[0])
            cores = (cpu_s(live.pid) - before) / (time.monotonic() - began)
        kept, memory_mb = kept_reports(live.data / "fairy.db"), resident_mb(live.pid)
    assert not told["refused"], told["refused"][:3]
    what = f"{agents} agents of {GPUS} GPUs and {PROCESSES} processes, every {EVERY_S:.0f} s"
    times = told["took_s"]
    return [
        Figure(f"{what}: server", cores, "cores", goal=1, **LESS),
        Figure("CPU for one report", cores * 1e6 / (told["sent"] / lasts_s), "us", **LESS),
        Figure(f"of {told['sent']:,} reports sent, not in the store", told["sent"] - kept, "reports", goal=0, **LESS),
        Figure("a report to its answer, median", percentile(times, 0.5) * 1000, "ms", **LESS),
        Figure("a report to its answer, p99", percentile(times, 0.99) * 1000, "ms", **LESS),
        Figure("memory of the server", memory_mb, "MB", **LESS),
    ]


def recovering(agents: int, kept: int) -> list[Figure]:
    with server() as live:
        with a_crowd(live, agents, kept, RECOVERS_S, module="bench.agent_return") as crowd:
            before, began = cpu_s(live.pid), time.monotonic()
            told = json.loads(crowd.communicate(timeout=RECOVERS_S + 120)[0])
            cores = (cpu_s(live.pid) - before) / (time.monotonic() - began)
        missing, memory_mb = told["delivered"] - kept_reports(live.data / "fairy.db"), resident_mb(live.pid)
    put_off = f"{told['busy']} reports were put off"
    what = f"recovery of {agents} agents after an outage of {kept * EVERY_S / 60:.0f} min"
    return [
        Figure(f"{what}: all is delivered after", told["recovered_s"], "s", goal=kept * EVERY_S / 2, note=put_off, **LESS),
        Figure(f"{what}: reports that got no answer in time", told["timeouts"], "reports", goal=0, **LESS),
        Figure(f"{what}: samples lost or left", missing + told["left"], "samples", goal=0, **LESS),
        Figure(f"{what}: server", cores, "cores", **LESS),
        Figure(f"{what}: memory of the server", memory_mb, "MB", **LESS),
    ]


def looking(agents: int, looks: int, commands: int) -> list[Figure]:
    lasts_s = FIRST_REPORTS_S + 60
    with server() as live, a_crowd(live, agents, lasts_s) as crowd:
        time.sleep(FIRST_REPORTS_S)
        fields = {"Authorization": f"Bearer {live.token}", "Cookie": cookie_of(live)}
        seen = [looked_at(live.url, path, fields, looks) for path in PATHS]
        smi_ms = [timed(live, "smi") for _ in range(commands)]
        crowd.terminate()
    gpus = agents * GPUS
    pages = [
        Figure(f"{path} with {gpus:,} GPUs, p95", percentile(took_s, 0.95) * 1000, "ms", goal=150, note=f"{size / 1e3:,.0f} kB", **LESS)
        for path, (took_s, size) in zip(PATHS, seen, strict=True)
    ]
    return [*pages, Figure(f"fairy smi of {gpus:,} GPUs, slowest of {commands}", max(smi_ms), "ms", goal=1000, **LESS)]


@contextlib.contextmanager
def server() -> Iterator[LiveServer]:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder, LiveServer(Path(folder) / "fairy") as live:
        yield live


@contextlib.contextmanager
def a_crowd(live: LiveServer, agents: int, *how: float, module: str = "bench.agent_crowd") -> Iterator[subprocess.Popen[str]]:
    """In a process of its own, accepted and about to report."""
    command = [sys.executable, "-m", module, live.url, live.token, str(agents), *map(str, how)]
    with subprocess.Popen(command, env={**live.env, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, stdout=subprocess.PIPE, text=True) as crowd:
        assert crowd.stdout is not None
        if crowd.stdout.readline().strip() != READY:
            raise RuntimeError(f"the agents were not accepted; the server says:\n{live.log[-2000:]}")
        try:
            yield crowd
        finally:
            crowd.kill()


def kept_reports(database: Path) -> int:
    """Of the agents alone: the server reports of its own host, too."""
    agents = "select number from reading_subjects where kind = 'node' and name like 'gpu___'"
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return int(connection.execute(f"select count(*) from reading_reports where node in ({agents})").fetchone()[0])


def cookie_of(live: LiveServer) -> str:
    """By the link that the server printed, as its owner opens it."""
    found = re.search(r"http\S+", live.banner)
    assert found is not None, live.banner
    link = urlsplit(found[0])
    with connected(live.url) as connection:
        connection.request("GET", f"{link.path}?{link.query}")
        return str(connection.getresponse().headers["Set-Cookie"]).partition(";")[0]


def looked_at(url: str, path: str, fields: dict[str, str], looks: int) -> tuple[list[float], int]:
    took_s, size = [], 0
    with connected(url) as connection:
        for _ in range(looks):
            began = time.perf_counter()
            connection.request("GET", path, headers=fields)
            answer = connection.getresponse()
            size = len(answer.read())
            took_s.append(time.perf_counter() - began)
            assert answer.status == 200, (path, answer.status)
    return took_s, size


def connected(url: str) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30))

