"""Cuts that somebody made past this server, by `nvidia-smi mig` for one: the readings tell of them, and the node follows."""
from collections.abc import Callable
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.mig_cut import Cut
from gpufairy.core.node import Gpu
from gpufairy.core.reading import GpuSample
from gpufairy.devices.nvidia import gpus_of

STALE = timedelta(seconds=30)  # after a cut of our own: readings find instances anew every five, and later on a busy host

Told = Callable[[Gpu, Gpu], None]  # before and after


class Follower:
    def __init__(self, house: House) -> None:
        self._house = house
        self._settled: dict[str, datetime] = {}
        self._seen: dict[str, Gpu] = {}  # differs from what we know; believed when it is seen twice

    def settled(self, uuid: str) -> None:
        self._settled[uuid] = self._house.clock()

    def strangers_cuts(self) -> list[tuple[Gpu, Gpu]]:
        """GPUs as we know them, and as they are: those that differ, and that nobody is cutting here."""
        known = {gpu.uuid: gpu for node in self._house.nodes for gpu in node.gpus if not gpu.simulated}
        told = {gpu.uuid: gpu for gpu in self._told() if gpu.uuid in known and self._may_differ(gpu.uuid)}
        differing = {uuid: gpu for uuid, gpu in told.items() if state(gpu) != state(known[uuid])}
        twice = [(known[uuid], gpu) for uuid, gpu in differing.items() if uuid in self._seen and state(self._seen[uuid]) == state(gpu)]
        self._seen = differing
        return twice

    def _told(self) -> list[Gpu]:
        watch = self._house.watch
        samples = [sample for sample in watch.samples() if sample.node in watch.own and sample.gpus_known]
        return [gpu for sample in samples for gpu in gpus_of(GpuSample(sample.at, sample.devices))]

    def _may_differ(self, uuid: str) -> bool:
        settled = self._settled.get(uuid)
        return uuid not in self._house.cuts.in_hand and (settled is None or self._house.clock() - settled > STALE)


def state(gpu: Gpu) -> tuple[bool, frozenset[str]]:
    return gpu.mig is not None, frozenset(one.uuid for one in gpu.instances or ())


def cut_like(gpu: Gpu) -> Cut:
    return Cut(gpu.mig, gpu.instances)
