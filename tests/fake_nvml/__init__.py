"""A fake libnvidia-ml.so.1 that tells what a script says, so that the real nvidia-ml-py runs where there is no GPU."""
from fake_nvml.build import FakeNvml
from fake_nvml.machine import FakeGpu, FakeInstance, FakeMachine, FakeProcess, FakeXid

__all__ = ["FakeGpu", "FakeInstance", "FakeMachine", "FakeNvml", "FakeProcess", "FakeXid"]
