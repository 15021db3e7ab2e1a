"""GPM: how the SMs, the tensor cores and the memory worked between two looks, on Hopper and later, of a GPU or of one instance."""
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.devices.kinds import MIB
from gpufairy.devices.nvml_calls import ask
from gpufairy.devices.nvml_found import Found
from gpufairy.devices.nvml_words import part

METRICS = (  # in the order of Work
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
)
MOST_MIB_S = 1_000_000  # 16 times what PCIe 5 carries: more, and NaN, is a mistake of the driver's
PARTS = 4  # the first so many are percentages, the rest MiB a second


@dataclass(frozen=True, slots=True)
class Work:
    """The first four from 0 to 1."""

    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    sent_bytes_s: float | None = None  # by PCIe
    received_bytes_s: float | None = None


UNKNOWN_WORK = Work()


class Gpm:
    """Keeps the last look at each device: a metric is the difference of two."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}
        self._wanted = pynvml.c_nvmlGpmMetricsGet_t()  # 19 KB: made once
        self._wanted.version, self._wanted.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)

    def of_gpu(self, found: Found) -> Work:
        return self._work(found.device.uuid, pynvml.nvmlGpmSampleGet, found.handle)

    def of_instance(self, gpu: Found, instance: Found) -> Work:
        """GPM counts by GPU instance: where several compute instances share one, its figures are nobody's own."""
        if instance.part is None or not instance.alone:
            return UNKNOWN_WORK
        return self._work(instance.device.uuid, pynvml.nvmlGpmMigSampleGet, gpu.handle, instance.part[0])

    def keep(self, uuids: Iterable[str]) -> None:
        """Lets go of the looks at all other devices: each holds memory of the driver's."""
        self.forget((self._last.keys() | self._spare.keys()) - set(uuids))

    def forget(self, uuids: Iterable[str]) -> None:
        """The next look is a first one again."""
        for uuid in uuids:
            for kept in (self._last, self._spare):
                if uuid in kept:
                    ask(pynvml.nvmlGpmSampleFree, kept.pop(uuid))

    def _work(self, uuid: str, look: Any, *args: Any) -> Work:
        before = self._last.pop(uuid, None)
        now = self._spare.pop(uuid, None) or ask(pynvml.nvmlGpmSampleAlloc)
        if now is None or ask(look, *args, now) is None:
            for sample in (before, now):  # what comes after a gap is no difference of two looks in a row
                if sample is not None:
                    ask(pynvml.nvmlGpmSampleFree, sample)
            return UNKNOWN_WORK
        self._last[uuid] = now
        if before is None:
            return UNKNOWN_WORK
        self._spare[uuid] = before
        return self._between(before, now)

    def _between(self, before: Any, now: Any) -> Work:
        wanted = self._wanted
        wanted.sample1, wanted.sample2 = before, now
        for place, metric in enumerate(METRICS):
            wanted.metrics[place].metricId = metric
        if ask(pynvml.nvmlGpmMetricsGet, wanted) is None:
            return UNKNOWN_WORK
        parts = (_value(wanted.metrics[place], part) for place in range(PARTS))
        rates = (_value(wanted.metrics[place], bytes_s) for place in range(PARTS, len(METRICS)))
        return Work(*parts, *rates)


def _value(metric: Any, meaning: Callable[[float], float | None]) -> float | None:
    return meaning(metric.value) if metric.nvmlReturn == pynvml.NVML_SUCCESS else None


def bytes_s(mib_s: float) -> float | None:
    return mib_s * MIB if 0 <= mib_s < MOST_MIB_S else None
