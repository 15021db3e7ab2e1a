"""The process that asks the driver, started on the fake library, and what it tells."""
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.core.reading import GpuReading, GpuSample
from gpufairy.devices.nvml_source import PROGRAM
from gpufairy.devices.sample_line import from_line

LIMIT_S = 20.0


class Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._left = b""

    def line(self) -> bytes:
        deadline = time.monotonic() + LIMIT_S
        while b"\n" not in self._left:
            ready, _, _ = select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no line within {LIMIT_S} s"
            more = os.read(self.process.stdout.fileno(), 1 << 20)
            assert more, f"it ended with code {self.process.wait(LIMIT_S)}"
            self._left += more
        line, _, self._left = self._left.partition(b"\n")
        return line

    def told(self) -> GpuSample | str:
        return from_line(self.line())

    def sample(self) -> GpuSample:
        told = self.told()
        assert isinstance(told, GpuSample), told
        return told

    def sample_with(self, look: Callable[[GpuSample], object]) -> GpuSample:
        deadline = time.monotonic() + LIMIT_S
        while not look(sample := self.sample()):
            assert time.monotonic() < deadline, sample
        return sample


@contextmanager
def asking(fake: FakeNvml, *options: str) -> Iterator[Child]:
    """Ten samples a second; what is slow is read with each, unless an option says otherwise."""
    command = [*PROGRAM, "--every", "0.1", "--slow", "0", *options]
    with subprocess.Popen(command, env={**os.environ, **fake.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def reading(sample: GpuSample, label: str = "0") -> GpuReading:
    uuid = next(device.uuid for device in sample.devices if device.label == label)
    return next(one for one in sample.readings if one.uuid == uuid)


def one_sample(fake: FakeNvml, *gpus: FakeGpu) -> GpuSample:
    fake.write(FakeMachine(gpus))
    with asking(fake, "--once") as child:
        return child.sample()


def second_sample(fake: FakeNvml, *gpus: FakeGpu) -> GpuSample:
    """GPM, and what processes took, are differences of two looks."""
    fake.write(FakeMachine(gpus))
    with asking(fake) as child:
        child.sample()
        return child.sample()
