"""What `fairy exporter` costs with 8 GPUs and 64 processes on the fake library, beside nvitop-exporter in the same run."""
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Report, percentile
from bench.ports import free_port
from bench.process_tree import Cost, cost_of
from bench.server import ROOT
from fake_nvml import FakeGpu, FakeMachine, FakeNvml, FakeProcess

GPUS, PROCESSES = 8, 64
EVERY_S, SCRAPE_EVERY_S = 1.0, 5.0
WARM_S, LASTS_S = 15.0, 60.0  # what was just begun is dearer: names are asked, command lines read
SCRAPES = 200
READY_LIMIT_S = 60.0
PEER = "nvitop-exporter"
PEER_VERSION = "1.7.2"
PEER_HOME = ROOT / "build" / f"nvitop-exporter-{PEER_VERSION}"


@dataclass(frozen=True, slots=True)
class Collector:
    """One that runs. Its first row of a process is what tells that it has read all there is."""

    process: subprocess.Popen[bytes]
    port: int
    row_of_process: bytes


@dataclass(frozen=True, slots=True)
class Measured:
    core_percent: float
    memory: Cost
    new_pages_s: list[float]  # scrapes that were the first of their page, as Prometheus' are
    scrapes_s: list[float]
    rows: int


def measure(warm_s: float = WARM_S, lasts_s: float = LASTS_S, scrapes: int = SCRAPES, *, beside_peer: bool = True) -> Report:
    note = why_no_peer() if beside_peer else f"{PEER} was not asked for"
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="fairy-bench-")))
        env = running.enter_context(busy_machine(folder))
        ours = running.enter_context(collecting(our_command(folder), env, b"gpu_process_info{"))
        theirs = running.enter_context(collecting(peer_command(), env, b"process_gpu_memory_MiB{")) if not note else None
        measured = measure_all([one for one in (ours, theirs) if one is not None], warm_s, lasts_s, scrapes)
    return Report("collector", figures(measured[0], measured[1] if theirs is not None else None, note))


def figures(ours: Measured, theirs: Measured | None, note: str) -> list[Figure]:
    ratio = None if theirs is None else ours.core_percent / theirs.core_percent

    def beside(what: str, value: Callable[[Measured], float], unit: str, goal: float | None = None, note: str = "") -> Figure:
        peer_value = None if theirs is None else value(theirs)
        return Figure(what, value(ours), unit, goal, higher_is_better=False, peer=PEER, peer_value=peer_value, note=note)

    what = f"{GPUS} GPUs, {PROCESSES} processes each second, scraped each {SCRAPE_EVERY_S:.0f} s"
    rows = "" if theirs is None else f"{theirs.rows} rows"
    return [
        beside(f"{what}: CPU", lambda one: one.core_percent, "% of a core", note=note),
        Figure("the same as a part of nvitop-exporter's", ratio, "x", goal=0.25, higher_is_better=False),
        beside("memory of all its processes, RSS summed", lambda one: one.memory.rss_mb, "MB", goal=60),
        beside("the same, what they share counted once (PSS)", lambda one: one.memory.pss_mb, "MB"),
        beside(f"/metrics of {ours.rows} rows, {len(ours.scrapes_s)} scrapes, median", lambda one: ms(one.scrapes_s, 0.5), "ms", note=rows),
        beside("/metrics, p95", lambda one: ms(one.scrapes_s, 0.95), "ms", goal=5),
        beside("/metrics, the first to ask for a page, median", lambda one: ms(one.new_pages_s, 0.5), "ms", goal=5),
    ]


def ms(seconds: list[float], share: float) -> float:
    return percentile(seconds, share) * 1000


@contextlib.contextmanager
def busy_machine(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which there are GPUs, with real processes on them that sleep."""
    sleepers = [subprocess.Popen(["sleep", "infinity"]) for _ in range(PROCESSES)]
    try:
        shares = [sleepers[index::GPUS] for index in range(GPUS)]
        on = [tuple(FakeProcess(one.pid, memory_mib=4000, sm=11, mem=5) for one in share) for share in shares]
        fake = FakeNvml(folder)
        fake.write(FakeMachine(tuple(FakeGpu(used_mib=32_000, utilisation=88, power_w=350, processes=each) for each in on)))
        yield {**os.environ, **fake.env, "PYTHONPATH": str(ROOT / "src")}
    finally:
        for sleeper in sleepers:
            sleeper.kill()
        for sleeper in sleepers:
            sleeper.wait()


def our_command(folder: Path) -> list[str]:
    where = ["--listen", "127.0.0.1:{port}", "--data", str(folder / "data")]
    return [sys.executable, "-m", "gpufairy", "exporter", "--every", f"{EVERY_S:.0f}s", *where]


def peer_command() -> list[str]:
    return [str(PEER_HOME / "bin" / "nvitop-exporter"), "--bind-address", "127.0.0.1", "--port", "{port}", "--interval", str(EVERY_S)]


def why_no_peer() -> str:
    """Installed once, apart from everything else. Empty: it is there."""
    if (PEER_HOME / "bin" / "nvitop-exporter").exists():
        return ""
    subprocess.run([sys.executable, "-m", "venv", PEER_HOME], check=True)
    install = [PEER_HOME / "bin" / "pip", "install", "-q", "--disable-pip-version-check", f"nvitop-exporter=={PEER_VERSION}"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no {PEER}: {done.stderr.strip()[-200:]}"


@contextlib.contextmanager
def collecting(command: list[str], env: dict[str, str], row_of_process: bytes) -> Iterator[Collector]:
    port = free_port()
    process = subprocess.Popen(
        [word.format(port=port) for word in command], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for_rows(made := Collector(process, port, row_of_process))
        yield made
    finally:
        process.terminate()
        process.wait()


def wait_for_rows(collector: Collector) -> None:
    until_s = time.monotonic() + READY_LIMIT_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException), connected(collector) as connection:
            if scrape(connection)[1].count(b"\n" + collector.row_of_process) >= PROCESSES:
                return
        if time.monotonic() > until_s or collector.process.poll() is not None:
            raise RuntimeError(f"port {collector.port} did not tell of {PROCESSES} processes within {READY_LIMIT_S:.0f} s")
        time.sleep(0.1)


def connected(collector: Collector) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", collector.port, timeout=10))


def scrape(connection: http.client.HTTPConnection) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", "/metrics")
    body = connection.getresponse().read()
    return time.perf_counter() - began, body


def measure_all(collectors: list[Collector], warm_s: float, lasts_s: float, scrapes: int) -> list[Measured]:
    """All at the same time, so that each has the same neighbours."""
    time.sleep(warm_s)
    before, began = [cost_of(one.process.pid) for one in collectors], time.monotonic()
    new_pages_s = scraped_seldom(collectors, lasts_s)
    after, took_s = [cost_of(one.process.pid) for one in collectors], time.monotonic() - began
    percents = [(late.cpu_s - early.cpu_s) / took_s * 100 for early, late in zip(before, after, strict=True)]
    often = [scraped_often(one, scrapes) for one in collectors]
    return [Measured(*one, *timed) for *one, timed in zip(percents, after, new_pages_s, often, strict=True)]


def scraped_seldom(collectors: list[Collector], lasts_s: float) -> list[list[float]]:
    took_s: list[list[float]] = [[] for _ in collectors]
    until_s = time.monotonic() + lasts_s
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(connected(one)) for one in collectors]
        while (left_s := until_s - time.monotonic()) > 0:
            for connection, times in zip(connections, took_s, strict=True):
                times.append(scrape(connection)[0])
            time.sleep(min(left_s, SCRAPE_EVERY_S))
    return took_s


def scraped_often(collector: Collector, scrapes: int) -> tuple[list[float], int]:
    with connected(collector) as connection:
        answers = [scrape(connection) for _ in range(scrapes)]
    rows = answers[-1][1].splitlines()
    return [took_s for took_s, _ in answers], sum(not row.startswith(b"#") for row in rows)
