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
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Report
from gpufairy.core.node import Gpu, Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from gpufairy.devices.mps import MpsDaemons
from gpufairy.devices.nvidia import found_nvidia
from gpufairy.engines.build_native import build
from gpufairy.engines.share_files import LIBRARY, share_mounts, write_share

WORKER = Path(__file__).with_name("gpu_share_worker.py")
TRAIN_S, ROUNDS, CROWD = 8.0, 1000, 16
REPEATS = 3  # A B A B A B: clocks and heat drift
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
    trained = training()
    with a_lab() as lab:
        return Report("gpu_shares", [*holds(lab), trained, *costs(lab), *neighbours(lab)])


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
    crowd = [started(lab.share("crowd", parts), ["rounds", str(size)]) for _ in range(CROWD)]
    worst = most = 0
    for one in crowd:
        answer(one)
    for _ in range(ROUNDS):
        granted = sum(int(text) for text in each(crowd))
        worst, most = max(worst, granted - limit), max(most, granted)
        each(crowd)
    for one in crowd:
        one.stdin.close()
        one.wait(60)
    what = f"{ROUNDS} rounds of {CROWD} processes in a share of {limit >> 20} MiB, at most {most >> 20} MiB granted: bytes over"
    return Figure(what, max(0, worst), "bytes", 0, higher_is_better=False)


def training() -> Figure:
    """Bare is without MPS too: so its daemon comes and goes."""
    bare, shared = [], []
    for _ in range(REPEATS):
        bare.append(together([([], ["train", str(TRAIN_S)])])[0]["steps_s"])
        with a_lab() as lab:
            shared.append(together([(lab.share("whole", PARTS), ["train", str(TRAIN_S)])])[0]["steps_s"])
    part = statistics.median(shared) / statistics.median(bare) * 100
    return Figure("training at share 100 %, as a part of bare", part, "%", 98, note=f"{statistics.median(bare):.1f} steps/s bare")


def costs(lab: Lab) -> Iterator[Figure]:
    whole, bare = lab.share("whole", PARTS), by_mps(lab)
    allocated = turn_about([(bare, ["allocate", "2000"]), (whole, ["allocate", "2000"])], "us")
    yield Figure("a hooked allocation and release of 2 MiB costs more by", allocated[1] - allocated[0], "us", 2, higher_is_better=False,
                 note=f"bare {allocated[0]:.1f} us; goal 1 us each")  # fmt: skip
    launched = turn_about([(bare, ["launch", "200000"]), (whole, ["launch", "200000"])], "ns")
    more = (launched[1] / launched[0] - 1) * 100
    yield Figure("a kernel launch costs more by", more, "%", 1, higher_is_better=False, note=f"bare {launched[0]:.0f} ns")
    loads = [[elapsed([*words, "true"]) for _ in range(50)] for words in (whole, plain_mounts(lab))]
    more_ms = (statistics.median(loads[0]) - statistics.median(loads[1])) * 1000
    yield Figure("the library makes the start of `true` longer by", more_ms, "ms", 5, higher_is_better=False)


def neighbours(lab: Lab) -> Iterator[Figure]:
    half = PARTS // 2
    alone, both, beside_oom = [], [], []
    for _ in range(REPEATS):
        alone.append(together([(by_mps(lab), ["train", str(TRAIN_S)])])[0]["steps_s"])
        both.append([one["steps_s"] for one in together([(lab.share(name, half), ["train", str(TRAIN_S)]) for name in ("a", "b")])])
        quiet = together([(lab.share("a", half), ["train", str(TRAIN_S)])])[0]["steps_s"]
        loud = together([(lab.share("a", half), ["train", str(TRAIN_S)]), (lab.share("b", half), ["grab", str(TRAIN_S + 1)])])
        beside_oom.append((quiet, loud[0]["steps_s"], loud[1]["refused"]))
    in_all = statistics.median(sum(pair) for pair in both) / statistics.median(alone) * 100
    apart = max(max(pair) / min(pair) for pair in both)
    yield Figure("two at 50 % together, as a part of one alone", in_all, "%", 95, note=f"the faster had {apart:.2f} x the slower's")
    kept = statistics.median(loud / quiet for quiet, loud, _ in beside_oom) * 100
    refusals = sum(count for _, _, count in beside_oom)
    yield Figure("training beside a neighbour that runs out of memory", kept, "%", 95, note=f"{refusals:.0f} refusals")


def by_mps(lab: Lab) -> list[str]:
    """Bare: a client of MPS without library or limits."""
    return ["env", f"CUDA_MPS_PIPE_DIRECTORY={lab.pipes}"]


def plain_mounts(lab: Lab) -> list[str]:
    """The same namespace and shell, without the library."""
    words = lab.share("whole", PARTS)
    return [*words[:4], "\n".join(line for line in words[4].splitlines() if "/etc/ld.so.preload" not in line), *words[5:]]


def turn_about(programs: list[tuple[list[str], list[str]]], figure: str) -> list[float]:
    """Each alone, in turns; the median of each."""
    found: list[list[float]] = [[] for _ in programs]
    for _ in range(REPEATS):
        for place, program in enumerate(programs):
            found[place].append(together([program])[0][figure])
    return [statistics.median(values) for values in found]


def together(programs: list[tuple[list[str], list[str]]]) -> list[dict[str, float]]:
    """All at once, begun when all of them are ready."""
    running = [started(*program) for program in programs]
    for one in running:
        answer(one)
    for one in running:
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [json.loads(answer(one)) for one in running]
    for one in running:
        one.stdin.close()
        one.wait(60)
    return told


def started(share: list[str], arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen([*share, sys.executable, str(WORKER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: "subprocess.Popen[str]") -> str:
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{shlex.join(process.args[-2:])} ended with code {process.wait(10)} and no figure")
    return line


def each(crowd: list["subprocess.Popen[str]"]) -> list[str]:
    for one in crowd:
        one.stdin.write("next\n")
        one.stdin.flush()
    return [answer(one) for one in crowd]


def run_text(share: list[str], command: list[str]) -> str:
    return subprocess.run([*share, *command], stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout


def elapsed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, timeout=60, check=True)
    return time.perf_counter() - began


