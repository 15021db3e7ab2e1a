"""Programs that each do one thing wrong on a real GPU, or nothing: what advice is to be judged by where there is one. They need torch."""
from dataclasses import dataclass, field

from gpufairy.core.insight import Code

HEAD = """
import multiprocessing as mp, mmap, os, random, sys, time, zlib
NOISE = os.urandom(200_000)
def decode(times):
    for _ in range(times): zlib.compress(NOISE, 6)
def matrices(size):
    import torch
    return torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
def product(a, times=1):
    import torch
    for _ in range(times): b = a @ a
    torch.cuda.synchronize()
"""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    program: str
    wanted: frozenset[Code]
    gpus: str = "1"
    cpus: int = 4
    memory: str = "24GiB"
    kind: str = "batch"
    may: frozenset[Code] = field(default_factory=lambda: frozenset({Code.POWER, Code.HEAT}))  # what a heavy product does by itself


def workload(name: str, program: str, *wanted: Code, **fields) -> Workload:
    return Workload(name, HEAD + program, frozenset(wanted), **fields)


BUSY = (
    workload(
        "starved-loader",
        """
def work(queue):
    while True: decode(6); queue.put(1)
queue = mp.Queue(4); [mp.Process(target=work, args=(queue,), daemon=True).start() for _ in range(4)]
a = matrices(8192)
while True: queue.get(); product(a, 3)
""",
        Code.LOADER, cpus=2,
    ),
    workload("one-thread", "a = matrices(8192)\nwhile True: decode(4); product(a, 3)\n", Code.ONE_THREAD, cpus=8),
    workload(
        "storage-bound",
        """
name = os.path.join(os.path.expanduser("~"), "large.bin")
with open(name, "wb") as file:
    for _ in range(1024): file.write(os.urandom(1 << 20))
    os.fsync(file.fileno())
file = os.open(name, os.O_RDONLY | os.O_DIRECT); page = mmap.mmap(-1, 4096); pages = os.path.getsize(name) // 4096
a = matrices(8192)
while True:
    for _ in range(200): os.preadv(file, [page], random.randrange(pages) * 4096)
    product(a, 1)
""",
        Code.STORAGE, cpus=4,
    ),
    workload(
        "batch-too-small",
        "a = matrices(128)\nimport torch\nwhile True:\n    for _ in range(2000): b = a @ a\n    torch.cuda.synchronize()\n",
        Code.BATCH, may=frozenset({Code.POWER, Code.HEAT, Code.ONE_THREAD}),  # so small that one thread can hardly hand them out
    ),
    workload("power-limit", "a = matrices(16384)\nwhile True: product(a, 20)\n", Code.POWER),
)  # fmt: skip

# Together on one GPU, each with a part of it: they hardly compute.
IDLE = (
    workload(
        "memory-held", "a = matrices(4096)\nheld = [matrices(32768) for _ in range(5)]\nproduct(a)\ntime.sleep(1e6)\n",
        Code.MEMORY_HELD, gpus="0.25", kind="interactive",
    ),
    workload("gpu-unused", "while True: decode(50)\n", Code.GPU_UNUSED, gpus="0.25"),
    workload(
        "done-not-ended",
        "a, end = matrices(8192), time.monotonic() + 75\nwhile time.monotonic() < end: product(a, 3); time.sleep(0.01)\ntime.sleep(1e6)\n",
        Code.FINISHED, gpus="0.25",
    ),
    workload("memory-nearly-full", "held = bytearray(1_950 << 20)\ntime.sleep(1e6)\n", Code.HOST_MEMORY, gpus="0", memory="2GiB"),
)  # fmt: skip
