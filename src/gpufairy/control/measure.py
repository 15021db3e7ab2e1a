"""Measuring: how hard each GPU works, for those who look. Sampled when asked, at most once a second; unknown is None."""
from collections.abc import Awaitable, Callable, Mapping

from gpufairy.control.clock import boot_s
from gpufairy.control.house import House
from gpufairy.core.reading import GpuReading
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.devices.simulated import SimulatedLoad

SHORTEST_S = 1.0  # between two samples: CPU time is counted in hundredths of a second


class Meter:
    def __init__(self, house: House, pids_of_all: Callable[[], Awaitable[Mapping[WorkloadId, list[int]]]]) -> None:
        self._house, self._pids_of_all = house, pids_of_all
        self._load = SimulatedLoad(house.nodes)
        self._last: dict[str, GpuReading] = {}
        self._sampled_s = float("-inf")

    async def readings(self) -> dict[str, GpuReading]:
        now_s = boot_s()
        if now_s - self._sampled_s >= SHORTEST_S:
            self._sampled_s = now_s
            pids = await self._pids_of_all()
            on_gpu: dict[str, list[int]] = {gpu.uuid: [] for node in self._house.nodes for gpu in node.gpus if gpu.simulated}
            for session in self._house.book.holding():
                for gpu in session.seat.gpus if session.seat is not None else ():
                    on_gpu.setdefault(gpu.uuid, []).extend(pids.get(workload_id(session), []))
            self._last = self._load.sample(on_gpu, now_s)
        return self._last
