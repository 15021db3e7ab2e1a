"""The cutter as this server needs it: the driver for GPUs that are there, a file for simulated ones, a journal in the data folder."""
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from gpufairy.control.house import House
from gpufairy.control.mig import Cutter
from gpufairy.core.node import Gpu
from gpufairy.devices.mig_journal import CutJournal
from gpufairy.devices.mig_scissors import NvmlScissors, Scissors
from gpufairy.devices.mig_simulated import SimulatedScissors
from gpufairy.engines.cdi_refresh import refresh_cdi


def make_cutter(
    house: House, data: Path, quiet: Callable[[], AbstractAsyncContextManager[None]], release: Callable[[str], Awaitable[None]]
) -> Cutter:
    folder = data / "mig"
    real, simulated = NvmlScissors(), SimulatedScissors(folder / "simulated.json")

    def scissors(gpu: Gpu) -> Scissors:
        return simulated if gpu.simulated else real

    return Cutter(house, scissors, CutJournal(folder), after_cut=refresh_cdi, quiet=quiet, release=release)
