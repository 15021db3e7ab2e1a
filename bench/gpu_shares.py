"""What shares of a real GPU hold and cost: programs with a part of it, by MPS and the share library, as a container has them.

Needs an NVIDIA GPU, PyTorch, MPS and root. Each program runs in a mount namespace of its own with the very files a session gets.
"""
import asyncio
import contextlib
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Report, line
from gpufairy.core.node import Gpu, Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from gpufairy.devices.mps import MpsDaemons
from gpufairy.devices.nvidia import found_nvidia
from gpufairy.engines.build_native import build
from gpufairy.engines.share_files import LIBRARY, share_mounts, write_share

WORKER = Path(__file__).with_name("gpu_share_worker.py")
TRAIN_S, ROUNDS, CROWD = 4.0, 1000, 16
REPEATS = 3  # A B A B A B: clocks and heat drift
# Nanoseconds for one start, of three hundred.
STARTS = "s=$(date +%s%N); for i in $(seq 300); do /bin/true; done; e=$(date +%s%N); echo $(( (e - s) / 300 ))"
SMS = """
import ctypes, json
cu = ctypes.CDLL("libcuda.so.1"); cu.cuInit(0); d = ctypes.c_int(); cu.cuDeviceGet(ctypes.byref(d), 0)
c = ctypes.c_void_p(); cu.cuDevicePrimaryCtxRetain(ctypes.byref(c), d); n = ctypes.c_int(); cu.cuDeviceGetAttribute(ctypes.byref(n), 16, d)
print(json.dumps({"sms": n.value}))
"""


@dataclass(frozen=True, slots=True)
class Lab:
    gpu: Gpu
    folder: Path
    library: Path
    pipes: Path

    def share(self, name: str, parts: int) -> list[str]:
        """The words before a command that give it such a part of the GPU. The same name: the same container."""
        memory = self.gpu.memory_bytes * parts // PARTS
        seat = GpuSeat(self.gpu.index, self.gpu.uuid, parts, memory, self.gpu.kind, sharing=Sharing.MPS)
        run = self.folder / f"{name}-{parts}"
        if not run.exists():
            (run / "inside").mkdir(parents=True)
            write_share(run, [seat], 0, mps=True)
        mounts = share_mounts(run, self.pipes)
        lines = [
            "mkdir -p /run/fairy /opt/fairy /tmp/nvidia-mps", "touch /etc/ld.so.preload", "mount -t tmpfs share /opt/fairy",
            "mkdir -p /opt/fairy/lib",
            f"cp {self.library} {LIBRARY}", f"mount --bind {run}/inside /run/fairy",
            *(f"mount --bind {mount.source} {mount.target}" for mount in mounts if not mount.target.startswith("/etc")),
            *(f"mount --bind {mount.source} {mount.target}" for mount in mounts if mount.target.startswith("/etc")),
            'exec "$@"',
        ]  # fmt: skip
        return ["unshare", "--mount", "bash", "-ec", "\n".join(lines), "share"]


def measure() -> Report:
    missing = what_is_missing()
    if missing:
        return Report("gpu_shares", [Figure("shares of a real GPU", None, "", note=missing)])
    figures = [told(training())]
    with a_lab() as lab:
        figures += [told(figure) for part in (holds, costs, neighbours) for figure in part(lab)]
    return Report("gpu_shares", figures)


def told(figure: Figure) -> Figure:
    """As it is found: all of them take some minutes."""
    print(line(figure), file=sys.stderr, flush=True)
    return figure


def what_is_missing() -> str:
    if os.geteuid() != 0:
        return "needs root: the mounts of a session are made"
    if shutil.which("nvidia-cuda-mps-control") is None:
        return "no nvidia-cuda-mps-control on this machine"
    found = found_nvidia()
    if not found.gpus or found.gpus[0].mig is not None:
        return f"no NVIDIA GPU outside MIG mode {found.trouble}".strip()
    torch = subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1).cuda()"], capture_output=True, check=False)
    return "" if torch.returncode == 0 else "no PyTorch with CUDA for this Python"


@contextlib.contextmanager
def a_lab() -> Iterator[Lab]:
    gpu = found_nvidia().gpus[0]
    with tempfile.TemporaryDirectory(prefix="fairy-mps-") as name:
        folder = Path(name)
        daemons = MpsDaemons(folder / "mps")  # the GPU's compute mode is left as it is
        pipes = asyncio.run(daemons.ready(gpu.uuid, sm_percent=100, memory_bytes=gpu.memory_bytes))
        try:
            yield Lab(gpu, folder, build(folder).share_library, pipes)
        finally:
            asyncio.run(daemons.give_up(gpu.uuid))


def holds(lab: Lab) -> Iterator[Figure]:
    all_sms = json.loads(run_text(lab.share("whole", PARTS), [sys.executable, "-c", SMS]))["sms"]
    for percent in (25, 50, 75):
        sms = json.loads(run_text(lab.share("part", PARTS * percent // 100), [sys.executable, "-c", SMS]))["sms"]
        off = abs(sms / all_sms * 100 - percent)
        yield Figure(f"multiprocessors at {percent} %: {sms} of {all_sms}, off by", off, "points", 5, higher_is_better=False)
    yield over_the_limit(lab)


def over_the_limit(lab: Lab) -> Figure:
    """16 processes of one session, all asking at once for twice what there is in all; what is granted is summed."""
    parts = PARTS // 4
    limit = lab.gpu.memory_bytes * parts // PARTS
    size = limit // (CROWD // 2)
    worst = most = 0
    with workers([(lab.share("crowd", parts), ["rounds", str(size)])] * CROWD) as crowd:
        for _ in range(ROUNDS):
            granted = int(sum(each(crowd)))
            worst, most = max(worst, granted - limit), max(most, granted)
            each([one for one in crowd if one.last])
    what = f"{ROUNDS} rounds of {CROWD} processes in a share of {limit >> 20} MiB, at most {most >> 20} MiB granted: bytes over"
    return Figure(what, max(0, worst), "bytes", 0, higher_is_better=False)


def training() -> Figure:
    """Bare is without MPS too: it has begun before there is a daemon."""
    train = ["train", str(TRAIN_S)]
    with workers([([], train)]) as (bare,), a_lab() as lab, workers([(lab.share("whole", PARTS), train)]) as (shared,):
        steps = in_turns([[bare], [shared]])
    part = steps[1] / steps[0] * 100
    return Figure("training at share 100 %, as a part of bare", part, "%", 98, note=f"{steps[0]:.1f} steps/s bare")


def costs(lab: Lab) -> Iterator[Figure]:
    whole, bare = lab.share("whole", PARTS), by_mps(lab)
    with workers([(words, ["allocate", "4000"]) for words in (bare, whole, bare)]) as three:
        us = in_turns([[one] for one in three])
    more_us, noise_us = us[1] - min(us[0], us[2]), abs(us[0] - us[2])
    note = f"bare {us[0]:.1f} us, and {noise_us:.1f} us from one bare program to the next: `share_native` has what the library itself takes"
    yield Figure("a hooked allocation and release of 2 MiB costs more by", more_us, "us", 2, higher_is_better=False, note=note)
    with workers([(bare, ["launch", "200000"]), (whole, ["launch", "200000"])]) as pair:
        ns = in_turns([[one] for one in pair])
    yield Figure("a kernel launch costs more by", (ns[1] / ns[0] - 1) * 100, "%", 1, higher_is_better=False, note=f"bare {ns[0]:.0f} ns")
    loads = [[int(run_text(words, ["bash", "-c", STARTS])) for words in (whole, plain_mounts(lab))] for _ in range(REPEATS)]
    more_ms = statistics.median(with_it - without for with_it, without in loads) / 1e6
    yield Figure("the library makes the start of `true` longer by", more_ms, "ms", 5, higher_is_better=False)


def neighbours(lab: Lab) -> Iterator[Figure]:
    half, train = PARTS // 2, ["train", str(TRAIN_S)]
    programs = [(by_mps(lab), train), (lab.share("a", half), train), (lab.share("b", half), train)]
    programs.append((lab.share("c", half), ["grab", str(TRAIN_S + 2)]))
    with workers(programs) as (alone, first, second, greedy):
        one, two, quiet, loud, refusals = [], [], [], [], []
        for _ in range(REPEATS):
            one.append(alone.go())
            two.append(each([first, second]))
            quiet.append(first.go())
            beside = each([first, greedy])
            loud.append(beside[0])
            refusals.append(beside[1])
    in_all = statistics.median(map(sum, two)) / statistics.median(one) * 100
    apart = max(max(pair) / min(pair) for pair in two)
    yield Figure("two at 50 % together, as a part of one alone", in_all, "%", 95, note=f"the faster had {apart:.2f} x the slower's")
    kept = statistics.median(loud) / statistics.median(quiet) * 100
    yield Figure("training beside a neighbour that runs out of memory", kept, "%", 95, note=f"{sum(refusals):.0f} refusals")


def by_mps(lab: Lab) -> list[str]:
    """Bare: a client of MPS without library or limits."""
    return ["env", f"CUDA_MPS_PIPE_DIRECTORY={lab.pipes}"]


def plain_mounts(lab: Lab) -> list[str]:
    """The same namespace and shell, without the library."""
    words = lab.share("whole", PARTS)
    return [*words[:4], "\n".join(line for line in words[4].splitlines() if "/etc/ld.so.preload" not in line), *words[5:]]


class Worker:
    """gpu_share_worker.py with or without a share: works once for each `go`."""

    def __init__(self, share: list[str], arguments: list[str]) -> None:
        command = [*share, sys.executable, str(WORKER), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._what, self.last = shlex.join(arguments), 0.0

    def ask(self) -> None:
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"{self._what} ended with code {self._process.wait(10)} and no figure")
        return said

    def heard(self) -> float:
        self.last = float(self.answer())
        return self.last

    def go(self) -> float:
        self.ask()
        return self.heard()

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@contextlib.contextmanager
def workers(programs: list[tuple[list[str], list[str]]]) -> Iterator[list[Worker]]:
    """All of them begun, and ready."""
    begun = [Worker(*program) for program in programs]
    try:
        for one in begun:
            one.answer()
        yield begun
    finally:
        for one in begun:
            one.end()


def each(begun: list[Worker]) -> list[float]:
    """All at once."""
    for one in begun:
        one.ask()
    return [one.heard() for one in begun]


def in_turns(groups: list[list[Worker]]) -> list[float]:
    """A B A B A B: clocks and heat drift. The median of each."""
    found: list[list[float]] = [[] for _ in groups]
    for _ in range(REPEATS):
        for place, group in enumerate(groups):
            found[place].append(sum(each(group)))
    return [statistics.median(values) for values in found]


def run_text(share: list[str], command: list[str]) -> str:
    return subprocess.run([*share, *command], stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
