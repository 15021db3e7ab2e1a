"""What the share library costs: an allocation with and without it on the fake driver, the start of a program, a kernel launch."""
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, Report
from native_share.share_scene import Box, built

PAIRS = 20_000  # allocations and frees a round; the program takes the best of twenty rounds
ROUNDS = 5
STARTS = 200
MPS_CLIENTS = 48  # the most that MPS serves: as many slots are summed up then
USED_SLOTS_AT = 20  # as ledger.h
WHOSE = """
import ctypes
launch = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p).value
spans = (line.split() for line in open("/proc/self/maps"))
print(next(words[-1] for words in spans if int(words[0].split("-")[0], 16) <= launch < int(words[0].split("-")[1], 16)))
"""


def measure() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        box = Box(Path(folder))
        alone = over_bare(box)
        write_used_slots(box, MPS_CLIENTS)
        crowded = over_bare(box)
        start = start_over_bare(box)
        is_drivers_own = Path(box.run(sys.executable, "-c", WHOSE).stdout.strip()) == box.cuda.library
    return Report(
        "share_native",
        [
            Figure("an allocation and its free, over bare", alone, "us", goal=1, higher_is_better=False),
            Figure(f"the same with {MPS_CLIENTS} processes in the ledger", crowded, "us", goal=1, higher_is_better=False),
            Figure("start of /bin/true, over bare", start, "ms", goal=5, higher_is_better=False),
            Figure(
                "a kernel launch, over bare", 0 if is_drivers_own else None, "ns", goal=50, higher_is_better=False,
                note="its address is the driver's own" if is_drivers_own else "there is a hook before it",
            ),
        ],
    )  # fmt: skip


def over_bare(box: Box) -> float:
    """Microseconds, by medians of interleaved runs."""
    hooked, bare = [], []
    for _ in range(ROUNDS):
        bare.append(pair_ns(box, is_hooked=False))
        hooked.append(pair_ns(box, is_hooked=True))
    return max(0.0, statistics.median(hooked) - statistics.median(bare)) / 1000


def pair_ns(box: Box, is_hooked: bool) -> float:
    env = {name: value for name, value in box.env().items() if name != "FAKE_CUDA_LOG" and (is_hooked or name != "LD_PRELOAD")}
    done = subprocess.run([str(built("bench")), str(PAIRS)], cwd=box.folder, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def write_used_slots(box: Box, slots: int) -> None:
    with box.ledger.open("rb+") as file:
        file.seek(USED_SLOTS_AT)
        file.write(struct.pack("<I", slots))


def start_over_bare(box: Box) -> float:
    """Milliseconds."""
    hooked, bare = [], []
    for _ in range(STARTS):
        bare.append(start_s(box.env(LD_PRELOAD="")))
        hooked.append(start_s(box.env()))
    return max(0.0, statistics.median(hooked) - statistics.median(bare)) * 1000


def start_s(env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(["/bin/true"], env=env, check=True)
    return time.perf_counter() - began
