"""A Prometheus and a node-exporter of the tests' own, as Debian ships them, on loopback; and samples of hosts for them to read."""
import asyncio
import contextlib
import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bench.ports import free_port

from gpufairy.core.host_reading import DiskReading, HostReading, MountReading, NetworkReading, Pressure, UserLoad
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.node.exporter import Exporter, Page, listening
from waits import until

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
GIB = 2**30
START_S = 30


def a_device(label: str, *, mig: bool = False, parent: str | None = None, profile: str | None = None) -> GpuDevice:
    uuid = f"{'MIG' if parent else 'GPU'}-{label}"
    return GpuDevice(uuid, label, int(label.partition("_")[0]), "A100-40GB", 40 * GIB, "NVIDIA A100-SXM4-40GB", "00000000:07:00.0", parent, profile, mig=mig)


def a_reading(device: GpuDevice, *, seconds: float = 0, at: datetime = NOON) -> GpuReading:
    """All that a GPU can tell; counters rise by the second."""
    ratios = {"utilisation": 0.85, "memory_utilisation": 0.3, "sm_active": 0.7, "sm_occupancy": 0.5, "tensor_active": 0.4, "dram_active": 0.2, "fan": 0.6}
    watts = {"power_w": 300.5, "power_limit_w": 400.0, "energy_j": 1000 + 300 * seconds}
    heat = {"temperature_c": 61.0, "memory_temperature_c": 70.0, "slowdown_c": 89.0, "throttled_by": ("power cap",)}
    clocks = {"sm_clock_hz": 1_410_000_000, "memory_clock_hz": 1_215_000_000}
    faults = {"ecc_corrected": 3, "ecc_uncorrected": 0, "remapped_corrected": 1, "remapped_uncorrected": 0, "remap_pending": False, "remap_failed": False}
    link = {"pcie_sent_bytes": int(2e9 * seconds), "pcie_received_bytes": int(1e9 * seconds)}
    memory = {"memory_used_bytes": 10 * GIB, "memory_total_bytes": 40 * GIB}
    return GpuReading(device.uuid, at, **ratios, **watts, **heat, **clocks, **faults, **link, **memory)


def a_process(device: GpuDevice, pid: int = 12345, *, owner: Owner = Owner(), active: bool | None = True, command: str = "python", **on: Any) -> ProcessReading:
    given = {"memory_bytes": GIB, "utilisation": 0.85, "memory_utilisation": 0.6, **on}
    running = RunningProcess(pid, 99, 1000, command, started_s=(NOON - timedelta(hours=1)).timestamp())
    return ProcessReading(GpuProcess(pid, device.uuid, **given), running, owner, active)


POD = Owner(None, KnownBy.POD, container="pytorch", pod="training-pod-abc123", namespace="ml-workspace")
SESSION = Owner("minji", KnownBy.SESSION, "s-1", "brave-otter", "fairy-minji-brave-otter")
STRANGER = Owner("root", KnownBy.ACCOUNT)


def a_host(seconds: float = 0, at: datetime = NOON) -> HostReading:
    moved = int(1e6 * seconds)
    return HostReading(
        at, 16, 0.4, (0.5, 0.3), 3.5, Pressure(0.1, 0.0), Pressure(0.02, 0.01), Pressure(0.3, 0.2), 128 * GIB, 64 * GIB, 8 * GIB, GIB,
        disks=(DiskReading("nvme0n1", moved, 2 * moved, seconds / 2),),
        mounts=(MountReading("/", "/dev/nvme0n1p1", "ext4", 1000 * GIB, 400 * GIB - moved, 65_000_000, 60_000_000),),
        networks=(NetworkReading("eth0", moved, 3 * moved),),
        temperatures_c=(("coretemp/Package id 0", 55.0),), energy_j=90 * seconds, power_w=90.0, up_s=86400.0 + seconds,
        users=(UserLoad("minji", 12, 3.5, 20 * GIB), UserLoad("root", 200, 0.1, GIB)),
    )  # fmt: skip


def a_sample(*, seconds: float = 0, at: datetime = NOON, **more: Any) -> NodeSample:
    """Three GPUs: one with two processes, one free, one cut in two by MIG."""
    whole, free, cut = a_device("0"), a_device("1"), a_device("2", mig=True)
    first, second = (a_device(f"2_{instance}_0", parent=cut.uuid, profile="3g.20gb") for instance in (1, 2))
    devices = (whole, free, cut, first, second)
    processes = (
        a_process(whole, owner=POD),
        a_process(whole, 12346, owner=SESSION, active=False, utilisation=0.0, memory_utilisation=0.0),
        a_process(first, 12347, owner=STRANGER, active=None, utilisation=None, memory_utilisation=None),
    )
    readings = tuple(a_reading(one, seconds=seconds, at=at) for one in devices)
    sample = NodeSample("gpu01", at, 1.0, a_host(seconds, at), devices, readings, processes, (SessionReading("s-1", 3.5, 20 * GIB),), driver="580.65", driver_cuda="13.0")
    return replace(sample, **more)


def many_processes(count: int, gpus: int = 8) -> NodeSample:
    devices = tuple(a_device(str(index)) for index in range(gpus))
    processes = tuple(a_process(devices[pid % gpus], pid, owner=SESSION) for pid in range(1000, 1000 + count))
    return NodeSample("gpu01", NOON, 1.0, a_host(), devices, tuple(map(a_reading, devices)), processes)


class Serving:
    """Our exporter, in a thread of its own, as another process would be to those who scrape it."""

    def __init__(self, page: Page) -> None:
        self._page, self._loop = page, asyncio.new_event_loop()
        self._listener = listening("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Serving":
        self._exporter = Exporter(self._page)
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._exporter.start(self._listener), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._exporter.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: apt-get install {package}")
    return str(found)


def promtool(*arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [program("promtool", "prometheus"), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextlib.contextmanager
def started(command: list[str], ready_url: str, log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until(lambda: running.poll() is not None or answers(ready_url), f"{command[0]}; see {log}", START_S)
        assert running.poll() is None, log.read_text()[-3000:]
        yield
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def node_exporter(textfiles: Path, log: Path) -> Iterator[str]:
    """Yields `host:port`; only the textfile collector and what every host has."""
    port = free_port()
    command = [program("prometheus-node-exporter", "prometheus-node-exporter"), "--collector.disable-defaults", "--collector.textfile"]
    command += [f"--collector.textfile.directory={textfiles}", f"--web.listen-address=127.0.0.1:{port}"]
    with started(command, f"http://127.0.0.1:{port}/metrics", log):
        yield f"127.0.0.1:{port}"


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        found = self.get("query", query=expression)
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(row["metric"], float(row["value"][1])) for row in found["result"]]

    def when_there(self, expression: str) -> list[tuple[dict[str, str], float]]:
        return until(lambda: self.query(expression), f"rows of {expression}", START_S)


@contextlib.contextmanager
def prometheus(folder: Path, targets: dict[str, str], rules: tuple[Path, ...] = ()) -> Iterator[Prometheus]:
    """`targets`: address by job. Scrapes four times a second, so that rates are there soon."""
    jobs = [{"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()]
    settings = {"global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"}, "scrape_configs": jobs, "rule_files": list(map(str, rules))}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    port = free_port()
    command = [program("prometheus", "prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with started(command, f"http://127.0.0.1:{port}/-/ready", folder / "prometheus.log"):
        yield Prometheus(f"http://127.0.0.1:{port}")


