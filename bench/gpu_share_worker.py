"""A program that uses the GPU, run by gpu_shares.py with and without a share: says `ready`; for each line that comes it works and tells."""
import ctypes
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

STEP_BATCH, WIDTH = 4096, 4096
CHUNK = 2 * 2**20
WARM_S = 2.0  # until the clocks are up


def main() -> None:
    what, *amounts = sys.argv[1:]
    work = {"train": train, "grab": grab, "launch": launch, "allocate": allocate, "rounds": rounds}[what]
    work(*(float(amount) for amount in amounts))


def each_time(work: Callable[[], float]) -> None:
    print("ready", flush=True)
    for _ in sys.stdin:
        print(work(), flush=True)


def pytorch() -> Any:
    """Takes seconds to load, so only those who need it do."""
    return importlib.import_module("torch")


def train(seconds: float) -> None:
    """Steps a second of a small network, forwards and backwards: big matrices, so that the multiprocessors are the bound."""
    torch = pytorch()
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16, device="cuda") for _ in range(4)))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(STEP_BATCH, WIDTH, dtype=torch.bfloat16, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model(batch).float().square().mean().backward()
        optimiser.step()

    keep_on(step, torch.cuda.synchronize, WARM_S)
    each_time(lambda: keep_on(step, torch.cuda.synchronize, WARM_S) and keep_on(step, torch.cuda.synchronize, seconds))


def keep_on(step: Callable[[], None], finish: Callable[[], None], seconds: float) -> float:
    finish()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(5):
            step()
        finish()
        done += 5
    return done / (time.perf_counter() - began)


def grab(seconds: float) -> None:
    """Takes all it can get, is refused, lets go, and again: a neighbour that runs out of memory all the time."""
    torch = pytorch()
    torch.zeros(1, device="cuda")

    def refusals() -> float:
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
        return refused

    each_time(refusals)


def launch(count: float) -> None:
    """Nanoseconds between the launches of a kernel that does next to nothing; the best of ten."""
    torch = pytorch()
    cell = torch.zeros(1, device="cuda")

    def launches() -> None:
        for _ in range(int(count) // 10):
            cell.add_(1)
        torch.cuda.synchronize()

    launches()
    each_time(lambda: best_of_ten(launches) / (count / 10) * 1e9)


def best_of_ten(work: Callable[[], None]) -> float:
    """In seconds."""
    best = float("inf")
    for _ in range(10):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def driver() -> ctypes.CDLL:
    """With a context of the first GPU."""
    cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    for code in (
        cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
    ):  # fmt: skip
        if code != 0:
            raise RuntimeError(f"CUDA does not begin: error {code}")
    return cuda


def allocate(count: float) -> None:
    """Microseconds for an allocation and its release, by the driver's own functions; the best of ten."""
    cuda, place, size = driver(), ctypes.c_uint64(), ctypes.c_size_t(CHUNK)

    def pairs() -> None:
        for _ in range(int(count) // 10):
            cuda.cuMemAlloc_v2(ctypes.byref(place), size)
            cuda.cuMemFree_v2(place)

    each_time(lambda: best_of_ten(pairs) / (count / 10) * 1e6)


def rounds(size: float) -> None:
    """One of many at once: a line asks for so many bytes, the next lets go of what was granted."""
    cuda, place = driver(), ctypes.c_uint64()

    def take_or_free() -> float:
        if place.value:
            cuda.cuMemFree_v2(place)
            place.value = 0
            return 0
        return size if cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(int(size))) == 0 else 0

    each_time(take_or_free)


if __name__ == "__main__":
    main()
