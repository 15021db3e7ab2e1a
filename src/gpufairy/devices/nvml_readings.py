"""What is read of one GPU or instance: each second what is quick and changes, every few seconds what is slow or hardly changes."""
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import GpuReading
from gpufairy.devices.nvml_calls import ask, need
from gpufairy.devices.nvml_found import Found, memory_of
from gpufairy.devices.nvml_gpm import Work
from gpufairy.devices.nvml_words import part, throttle_words

# PCIe by its counters: nvmlDeviceGetPcieThroughput stands still for 20 ms a direction. Pairs of field and scope.
FIELDS = ((pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0), (pynvml.NVML_FI_DEV_MEMORY_TEMP, 0))
FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # of the union, by NVML_VALUE_TYPE_*


@dataclass(frozen=True, slots=True)
class SlowReading:
    power_limit_w: float | None
    energy_j: float | None
    slowdown_c: float | None
    fan: float | None
    ecc: tuple[int | None, int | None]
    remapped: tuple[int, int, int, int] | None


def read_slow(handle: Any) -> SlowReading:
    limit_mw = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    energy_mj = ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    fan = ask(pynvml.nvmlDeviceGetFanSpeed, handle)
    return SlowReading(
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        energy_j=None if energy_mj is None else energy_mj / 1000,
        slowdown_c=ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        fan=None if fan is None else min(fan / 100, 1.0),  # a fan may be told to run faster than it is meant to
        ecc=(_ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED), _ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)),
        remapped=ask(pynvml.nvmlDeviceGetRemappedRows, handle),
    )


def _ecc(handle: Any, kind: int) -> int | None:
    count: int | None = ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC)
    return count


@dataclass(frozen=True, slots=True)
class Fields:
    """The first two are of 32 bits: see nvml_pcie.py."""

    sent_bytes: int | None = None
    received_bytes: int | None = None
    memory_temperature_c: int | None = None


def read_fields(handle: Any) -> Fields:
    values = ask(pynvml.nvmlDeviceGetFieldValues, handle, FIELDS)
    return Fields() if values is None else Fields(_field(values[0]), _field(values[1]), _field(values[2]))


def read_gpu(found: Found, now: datetime, *, fields: Fields, slow: SlowReading, work: Work) -> GpuReading:
    handle = found.handle
    memory = memory_of(handle, need)
    busy = None if found.device.mig else ask(pynvml.nvmlDeviceGetUtilizationRates, handle)  # 0.14 ms for a no
    power_mw = ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    corrected, uncorrected, pending, failed = slow.remapped or (None, None, None, None)
    return GpuReading(
        found.device.uuid,
        now,
        utilisation=None if busy is None else part(busy.gpu),
        memory_used_bytes=None if memory is None else memory.used,
        memory_total_bytes=None if memory is None else memory.total,
        memory_utilisation=None if busy is None else part(busy.memory),
        sm_active=work.sm_active,
        sm_occupancy=work.sm_occupancy,
        tensor_active=work.tensor_active,
        dram_active=work.dram_active,
        power_w=None if power_mw is None else power_mw / 1000,
        power_limit_w=slow.power_limit_w,
        energy_j=slow.energy_j,
        temperature_c=_temperature(handle),
        memory_temperature_c=fields.memory_temperature_c,
        slowdown_c=slow.slowdown_c,
        fan=slow.fan,
        sm_clock_hz=_clock_hz(handle, pynvml.NVML_CLOCK_SM),
        memory_clock_hz=_clock_hz(handle, pynvml.NVML_CLOCK_MEM),
        throttled_by=_throttled_by(handle),
        ecc_corrected=slow.ecc[0],
        ecc_uncorrected=slow.ecc[1],
        remapped_corrected=corrected,
        remapped_uncorrected=uncorrected,
        remap_pending=None if pending is None else bool(pending),
        remap_failed=None if failed is None else bool(failed),
        pcie_sent_bytes=fields.sent_bytes,
        pcie_received_bytes=fields.received_bytes,
    )


def read_instance(found: Found, now: datetime, work: Work) -> GpuReading:
    """Its memory is its GPU instance's. Power, heat and clocks are the whole GPU's: see there."""
    memory = memory_of(found.handle)
    return GpuReading(
        found.device.uuid,
        now,
        utilisation=work.sm_active,
        memory_used_bytes=None if memory is None else memory.used,
        memory_total_bytes=None if memory is None else memory.total,
        sm_active=work.sm_active,
        sm_occupancy=work.sm_occupancy,
        tensor_active=work.tensor_active,
        dram_active=work.dram_active,
    )


def _field(value: Any) -> Any:
    """Each field has an answer of its own beside that of the call."""
    if value.nvmlReturn != pynvml.NVML_SUCCESS or not 0 <= value.valueType < len(FIELD_MEMBERS):
        return None
    return getattr(value.value, FIELD_MEMBERS[value.valueType])


# Both old names below last until CUDA 14, and drivers that lack the new ones are in use.
def _temperature(handle: Any) -> Any:
    celsius = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return celsius if celsius is not None else ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)


def _throttled_by(handle: Any) -> tuple[str, ...] | None:
    mask = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if mask is None:
        mask = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    return None if mask is None else throttle_words(mask)


def _clock_hz(handle: Any, clock: int) -> int | None:
    mhz = ask(pynvml.nvmlDeviceGetClockInfo, handle, clock)
    return None if mhz is None else mhz * 1_000_000
