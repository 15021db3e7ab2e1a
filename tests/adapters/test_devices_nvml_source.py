"""The watch over the process that asks the driver: it may die, hang, talk nonsense or not be killable, and nobody waits for it."""
import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.devices.nvml_source import NvmlSource, Patience

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

QUICK = Patience(silence_s=0.6, opening_s=5.0, wait_s=0.05, hung_wait_s=0.05, longest_wait_s=0.2)
ONE_GPU = FakeMachine((FakeGpu(power_w=10),))
HUNG = FakeMachine((FakeGpu(),), hang=("nvmlDeviceGetPowerUsage",))


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path)


@asynccontextmanager
async def running(*args, **options) -> AsyncIterator[NvmlSource]:
    source = NvmlSource(*args, **{"patience": QUICK, **options})
    await source.start()
    try:
        yield source
    finally:
        await source.close()


async def until(look: Callable[[], object], limit_s: float = 20.0):
    deadline = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)
    return seen


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def told(*lines: str, then: str = "") -> tuple[str, ...]:
    """A program that says so and then waits for its parent to go, or does what is said."""
    return sys.executable, "-c", f"import os, sys, time\nfor line in {lines!r}: print(line, flush=True)\n{then or 'sys.stdin.read()'}"


async def test_samples_come_by_themselves(fake):
    fake.write(ONE_GPU)
    seen = []
    async with running(0.05, fake.env, on_sample=seen.append) as source:
        assert source.latest() is None
        assert "not been asked yet" in source.trouble
        await until(lambda: len(seen) >= 3)
        assert source.latest() is seen[-1]
        assert source.trouble == ""
        fake.write(FakeMachine((FakeGpu(power_w=99),)))
        await until(lambda: source.latest().readings[0].power_w == 99)


async def test_the_process_ends_with_its_source(fake):
    fake.write(ONE_GPU)
    async with running(0.05, fake.env) as source:
        await until(source.latest)
        pid = source.pid
    assert not alive(pid)


async def test_a_hung_driver_is_seen_told_and_got_over(fake):
    fake.write(ONE_GPU)
    async with running(0.05, fake.env) as source:
        await until(source.latest)
        hung_pid, began_s = source.pid, time.monotonic()
        fake.write(HUNG)
        await until(lambda: source.latest() is None)
        assert time.monotonic() - began_s < QUICK.silence_s + 1.0
        await until(lambda: "NVML call hung" in source.trouble)
        await until(lambda: not alive(hung_pid))
        fake.write(ONE_GPU)
        await until(source.latest)
        assert source.trouble == ""
        assert source.pid != hung_pid


async def test_a_driver_that_hangs_from_the_start_is_told_before_it_is_given_up(fake):
    fake.write(FakeMachine(hang=("nvmlInit",)))
    async with running(0.05, fake.env) as source:
        await until(lambda: source.pid)
        pid = source.pid
        await until(lambda: "hung" in source.trouble)
        assert (source.latest(), source.pid) == (None, pid)  # loading a driver takes long: it is left at it


def test_each_failure_in_a_row_is_waited_for_longer():
    assert [Patience().wait_after(failures, hung=False) for failures in (1, 2, 3, 7, 10_000)] == [1, 2, 4, 60, 60]
    assert [Patience().wait_after(failures, hung=True) for failures in (1, 2, 10_000)] == [5, 10, 60]


def test_a_hung_driver_is_seen_in_fifteen_seconds():
    assert Patience().silence_s + Patience().hung_wait_s <= 15


async def test_a_process_killed_again_and_again_comes_back_and_nothing_is_lost_meanwhile(fake):
    fake.write(ONE_GPU)
    samples = []
    async with running(0.05, fake.env, on_sample=samples.append, patience=Patience(wait_s=0.02, longest_wait_s=0.02)) as source:
        pids = set()
        for _ in range(8):
            count = len(samples)
            await until(lambda count=count: len(samples) > count)
            pids.add(source.pid)
            os.kill(source.pid, signal.SIGKILL)
            assert source.latest() is not None  # what was read a moment ago is still true
            await until(lambda: source.pid not in pids)
        count = len(samples)
        await until(lambda: len(samples) > count)
        assert len(pids) == 8
        assert not any(alive(pid) for pid in pids)


async def test_a_process_that_dies_at_once_is_told_with_its_code():
    async with running(program=told(then="sys.exit(7)")) as source:
        await until(lambda: "ended (code 7)" in source.trouble)
        assert "started again in" in source.trouble
        assert source.latest() is None


async def test_a_process_that_cannot_be_started_is_told():
    async with running(program=("/no/such/program",)) as source:
        await until(lambda: "cannot be started" in source.trouble)


async def test_no_driver_means_no_gpus():
    async with running(env={"LD_LIBRARY_PATH": ""}) as source:
        sample = await until(source.latest)
        assert sample.devices == ()
        assert "no NVIDIA driver" in source.trouble


async def test_a_driver_that_vanishes_does_not_take_the_gpus_with_it():
    gpu = '{"at": "2026-01-01T00:00:00+00:00", "devices": [{"uuid": "GPU-1", "label": "0", "index": 0, "kind": "T4", "memory_bytes": 1}]}'
    async with running(program=told(gpu, '{"trouble": "no NVIDIA driver"}', then="sys.exit(3)")) as source:
        await until(lambda: source.trouble == "no NVIDIA driver")
        assert source.latest() is None


async def test_a_driver_that_says_no_is_no_hung_driver(fake):
    fake.write(FakeMachine(init_fails=9))
    async with running(0.05, fake.env) as source:
        await until(lambda: "Driver Not Loaded" in source.trouble)
        assert source.latest() is None


@pytest.mark.parametrize("line", ["nonsense", "{}", "x" * (5 * 2**20)])
async def test_a_process_that_talks_nonsense_is_ended(line, tmp_path):
    (tmp_path / "line").write_text(line)
    async with running(program=told(then=f"print(open({str(tmp_path / 'line')!r}).read(), flush=True); time.sleep(3600)"), patience=QUICK) as source:
        await until(lambda: source.pid)
        pid = source.pid
        await until(lambda: "cannot be understood" in source.trouble)
        assert not alive(pid)


async def test_a_line_without_an_end_is_not_kept_in_memory():
    async with running(program=told(then="\nwhile True: sys.stdout.write('x' * 2**20)")) as source:
        await until(lambda: "cannot be understood" in source.trouble)


async def test_our_own_standing_still_is_not_the_drivers(fake):
    """As when the machine was asleep: the lines of meanwhile wait in the pipe."""
    fake.write(ONE_GPU)
    samples = []
    async with running(0.05, fake.env, on_sample=samples.append) as source:
        await until(source.latest)
        pid = source.pid
        time.sleep(QUICK.silence_s + 0.5)  # noqa: ASYNC251  # the loop itself is to stand still
        count = len(samples)
        await until(lambda: len(samples) > count + 20)
        assert source.pid == pid


async def test_the_wall_clock_may_jump(fake, monkeypatch):
    fake.write(ONE_GPU)
    async with running(0.05, fake.env) as source:
        await until(source.latest)
        for jump_s in (-3600.0, 86400.0 * 365):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: 1.8e9 + jump_s)
            assert source.latest() is not None
            assert source.trouble == ""


UNKILLABLE = """
import ctypes, os, sys, time
prctl, ptrace = ctypes.CDLL(None).prctl, ctypes.CDLL(None).ptrace
prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER_ANY
started, let_go = sys.argv[1], sys.argv[2]
ready, told = os.pipe()
if os.fork() == 0:  # a debugger that looks on: while it does, what it looks at can be killed and never quite goes
    os.dup2(os.open("/dev/null", os.O_RDWR), 1)
    held = ptrace(0x4206, os.getppid(), 0, 0) == 0  # PTRACE_SEIZE
    os.write(told, b"1" if held else b"0")
    while not os.path.exists(let_go):
        time.sleep(0.02)
    os._exit(0)
if os.read(ready, 1) == b"0":
    sys.exit(9)
with open(started, "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(3600)
"""


@pytest.mark.system
async def test_a_process_that_cannot_be_killed_stays_the_only_one(tmp_path):
    """Stuck in the kernel it would stay as this one does: told to die, and still there."""
    started, let_go = tmp_path / "started", tmp_path / "let_go"
    program = (sys.executable, "-c", UNKILLABLE, str(started), str(let_go))
    patience = Patience(silence_s=0.2, opening_s=0.3, hung_wait_s=0.01, longest_wait_s=0.02)
    try:
        async with running(0.05, program=program, patience=patience) as source:
            await until(lambda: started.exists() or "code 9" in source.trouble)
            if "code 9" in source.trouble:
                pytest.skip("this machine lets no process look on at another (ptrace)")
            pid = source.pid
            await until(lambda: not alive(pid))  # killed, a zombie
            before_s = time.monotonic()
            await until(lambda: time.monotonic() - before_s > 1.0)  # fifty waits long
            assert started.read_text().split() == [str(pid)]
            assert "NVML call hung" in source.trouble
            assert source.latest() is None
            let_go.touch()
            await until(lambda: len(started.read_text().split()) > 1)  # gone at last: now the next one
    finally:
        let_go.touch()
