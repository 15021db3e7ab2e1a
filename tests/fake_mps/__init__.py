"""A fake nvidia-cuda-mps-control with real processes, for tests where there is no GPU."""
from fake_mps.scene import FakeMps, FakeProgram

__all__ = ["FakeMps", "FakeProgram"]
