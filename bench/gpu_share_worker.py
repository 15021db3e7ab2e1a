"""A program that uses the GPU, run by gpu_shares.py with and without a share: says `ready`, waits for a line, works, tells in JSON."""
import ctypes
import json
import sys
import time
from collections.abc import Callable

import torch

STEP_BATCH, WIDTH = 4096, 4096
CHUNK = 2 * 2**20
OUT_OF_MEMORY = 2


def main() -> None:
    what, *amounts = sys.argv[1:]
    work = {"train": train, "grab": grab, "launch": launch, "allocate": allocate, "rounds": rounds}[what]
    work(*(float(amount) for amount in amounts))


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def tell(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


def train(seconds: float) -> None:
    """Steps a second of a small network, forwards and backwards: big matrices, so that the multiprocessors are the bound."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16, device="cuda") for _ in range(4)))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(STEP_BATCH, WIDTH, dtype=torch.bfloat16, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model(batch).float().square().mean().backward()
        optimiser.step()

    keep_on(step, 2.0)
    ready()
    tell(steps_s=keep_on(step, seconds))


def keep_on(step: Callable[[], None], seconds: float) -> float:
    torch.cuda.synchronize()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        done += 5
    return done / (time.perf_counter() - began)


def grab(seconds: float) -> None:
    """Takes all it can get, is refused, lets go, and again: a neighbour that runs out of memory all the time."""
    torch.zeros(1, device="cuda")
    ready()
    until, refused = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        held = []
        try:
            while True:
                held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            refused += 1
        del held
        torch.cuda.empty_cache()
    tell(refused=refused)


def launch(count: float) -> None:
    """Nanoseconds between the launches of a kernel that does next to nothing."""
    cell = torch.zeros(1, device="cuda")
    for _ in range(1000):
        cell.add_(1)
    torch.cuda.synchronize()
    ready()
    began = time.perf_counter()
    for _ in range(int(count)):
        cell.add_(1)
    torch.cuda.synchronize()
    tell(ns=(time.perf_counter() - began) / count * 1e9)


def allocate(count: float) -> None:
    """Microseconds for an allocation and its release, by the driver's own functions."""
    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    place, size = ctypes.c_uint64(), ctypes.c_size_t(CHUNK)
    ready()
    best = float("inf")
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(int(count) // 10):
            cuda.cuMemAlloc_v2(ctypes.byref(place), size)
            cuda.cuMemFree_v2(place)
        best = min(best, (time.perf_counter() - began) / (int(count) // 10))
    tell(us=best * 1e6)


def rounds(size: float) -> None:
    """One of many at once: each line asks for so many bytes, each next line to let go; answers what was granted."""
    torch.zeros(1, device="cuda")
    cuda, place = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    print("ready", flush=True)
    for _ in sys.stdin:
        granted = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(int(size))) != OUT_OF_MEMORY
        print(int(size) if granted else 0, flush=True)
        sys.stdin.readline()
        if granted:
            cuda.cuMemFree_v2(place)
        print("free", flush=True)


if __name__ == "__main__":
    main()
