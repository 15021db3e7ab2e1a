"""What a driver answers to each call of NVML, as shapes and codes: run where a GPU is, it prints JSON; compare() holds the fake against it.

python record.py > h200.json"""
import ctypes
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pynvml as nv

Answer = dict[str, Any]
SAMPLES = ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo")  # or NOT_FOUND: by what runs
ROOM_FOR_PROCESSES = "compute processes, no room"  # success, or INSUFFICIENT_SIZE: by what runs
ON_INSTANCE = "MIG "
FIELDS = range(1, 200)
METRICS = (*range(1, 14), 20, 21, 60, 61)
WRONG_VERSION = 0x7F000001

# Called with the GPU alone: those answer one value, or say why not.
PLAIN_CALLS = (
    "Index UUID Name Brand Architecture CudaComputeCapability MinorNumber PciInfo PciInfo_v3 MemoryInfo BAR1MemoryInfo UtilizationRates EncoderUtilization "
    "DecoderUtilization PowerUsage PowerManagementLimit PowerManagementDefaultLimit PowerManagementLimitConstraints EnforcedPowerLimit TotalEnergyConsumption "
    "MarginTemperature FanSpeed NumFans PerformanceState CurrentClocksThrottleReasons CurrentClocksEventReasons SupportedClocksThrottleReasons "
    "SupportedClocksEventReasons EccMode RemappedRows RowRemapperHistogram RetiredPagesPendingStatus CurrPcieLinkGeneration MaxPcieLinkGeneration "
    "CurrPcieLinkWidth MaxPcieLinkWidth PcieReplayCounter ComputeRunningProcesses ComputeRunningProcesses_v2 GraphicsRunningProcesses "
    "MPSComputeRunningProcesses MigMode MaxMigDeviceCount DeviceHandleFromMigDeviceHandle GpuInstanceId ComputeInstanceId Attributes_v2 "
    "PersistenceMode ComputeMode DisplayMode DisplayActive Serial VbiosVersion BoardId BoardPartNumber MultiGpuBoard SupportedEventTypes "
    "AccountingMode NumGpuCores MemoryBusWidth JpgUtilization OfaUtilization DriverModel GpuOperationMode InforomImageVersion"
).split()

# Called with the GPU and more.
Call = Callable[[Any], Any]
OTHER_CALLS: dict[str, Call] = {
    "nvmlDeviceIsMigDeviceHandle": nv.nvmlDeviceIsMigDeviceHandle,
    "nvmlDeviceGetHandleByUUID": lambda gpu: nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(gpu)),
    "nvmlDeviceGetHandleByUUID, of nobody": lambda gpu: nv.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000"),
    "nvmlDeviceGetHandleByPciBusId": lambda gpu: nv.nvmlDeviceGetHandleByPciBusId(nv.nvmlDeviceGetPciInfo(gpu).busId),
    "nvmlDeviceGetHandleByIndex, too high": lambda gpu: nv.nvmlDeviceGetHandleByIndex(999),
    "nvmlDeviceGetMemoryInfo_v2": lambda gpu: nv.nvmlDeviceGetMemoryInfo(gpu, nv.nvmlMemory_v2),
    "nvmlDeviceGetMemoryInfo_v2, wrong version": lambda gpu: nv.nvmlDeviceGetMemoryInfo(gpu, WRONG_VERSION),
    "nvmlDeviceGetTemperature": lambda gpu: nv.nvmlDeviceGetTemperature(gpu, 0),
    "nvmlDeviceGetTemperature, no such sensor": lambda gpu: nv.nvmlDeviceGetTemperature(gpu, 9),
    "nvmlDeviceGetTemperatureV": lambda gpu: nv.nvmlDeviceGetTemperatureV(gpu, 0),
    **{f"nvmlDeviceGetTemperatureThreshold {at}": lambda gpu, at=at: nv.nvmlDeviceGetTemperatureThreshold(gpu, at) for at in range(9)},
    "nvmlDeviceGetFanSpeed_v2": lambda gpu: nv.nvmlDeviceGetFanSpeed_v2(gpu, 0),
    **{f"nvmlDeviceGetClockInfo {at}": lambda gpu, at=at: nv.nvmlDeviceGetClockInfo(gpu, at) for at in range(5)},
    **{f"nvmlDeviceGetMaxClockInfo {at}": lambda gpu, at=at: nv.nvmlDeviceGetMaxClockInfo(gpu, at) for at in range(5)},
    "nvmlDeviceGetTotalEccErrors": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
    "nvmlDeviceGetTotalEccErrors, no such kind": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, 9, 0),
    "nvmlDeviceGetMemoryErrorCounter": lambda gpu: nv.nvmlDeviceGetMemoryErrorCounter(gpu, 1, 0, 2),
    "nvmlDeviceGetRetiredPages": lambda gpu: nv.nvmlDeviceGetRetiredPages(gpu, 0),
    "nvmlDeviceGetPcieThroughput": lambda gpu: nv.nvmlDeviceGetPcieThroughput(gpu, 0),
    "nvmlDeviceGetProcessUtilization": lambda gpu: nv.nvmlDeviceGetProcessUtilization(gpu, 0),
    "nvmlDeviceGetProcessesUtilizationInfo": lambda gpu: nv.nvmlDeviceGetProcessesUtilizationInfo(gpu, 0),
    "nvmlDeviceGetRunningProcessDetailList": lambda gpu: nv.nvmlDeviceGetRunningProcessDetailList(gpu, nv.nvmlProcessDetailList_v1, 0),
    "nvmlDeviceGetRunningProcessDetailList, wrong version": lambda gpu: nv.nvmlDeviceGetRunningProcessDetailList(gpu, WRONG_VERSION, 0),
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu: nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0),
    "nvmlDeviceGetMigDeviceHandleByIndex, too high": lambda gpu: nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 99),
    "nvmlDeviceGetGpuInstanceById": lambda gpu: nv.nvmlDeviceGetGpuInstanceById(gpu, 5),
    **{f"nvmlDeviceGetGpuInstanceProfileInfo {at}": lambda gpu, at=at: nv.nvmlDeviceGetGpuInstanceProfileInfo(gpu, at) for at in (0, 1, 2, 3, 4, 7, 9, 99)},
    "nvmlDeviceGetGpuInstanceProfileInfo, version 1": lambda gpu: nv.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, version=1),
    "nvmlDeviceGetName, of nothing": lambda gpu: nv.nvmlDeviceGetName(None),
    "nvmlGpmQueryDeviceSupport": nv.nvmlGpmQueryDeviceSupport,
    "nvmlGpmMigSampleGet": lambda gpu: nv.nvmlGpmMigSampleGet(gpu, 5, nv.nvmlGpmSampleAlloc()),
    "nvmlGpmMetricsGet, wrong version": lambda gpu: _metrics(gpu, (1,), version=99),
    "nvmlDeviceRegisterEvents": lambda gpu: nv.nvmlDeviceRegisterEvents(gpu, nv.nvmlEventTypeXidCriticalError, nv.nvmlEventSetCreate()),
    "nvmlEventSetWait": lambda gpu: _wait(gpu, nv.nvmlEventSetWait_v2),
    "nvmlSystemGetDriverVersion": lambda gpu: nv.nvmlSystemGetDriverVersion(),
    "nvmlSystemGetNVMLVersion": lambda gpu: nv.nvmlSystemGetNVMLVersion(),
    "nvmlSystemGetCudaDriverVersion": lambda gpu: nv.nvmlSystemGetCudaDriverVersion(),
    "nvmlDeviceGetCount": lambda gpu: nv.nvmlDeviceGetCount(),
    "compute processes, no room": lambda gpu: _call("nvmlDeviceGetComputeRunningProcesses_v3", gpu, ctypes.byref(ctypes.c_uint(0)), None),
    "compute processes, room that is not there": lambda gpu: _call("nvmlDeviceGetComputeRunningProcesses_v3", gpu, ctypes.byref(ctypes.c_uint(5)), None),
    "process utilisation, no room": lambda gpu: _call("nvmlDeviceGetProcessUtilization", gpu, None, ctypes.byref(ctypes.c_uint(0)), ctypes.c_ulonglong(0)),
}


def record(gpu: Any) -> dict[str, Answer]:
    answers = {f"nvmlDeviceGet{name}": answer(getattr(nv, f"nvmlDeviceGet{name}"), gpu) for name in PLAIN_CALLS}
    answers |= {name: answer(call, gpu) for name, call in OTHER_CALLS.items()}
    answers |= dict(_field_answers(gpu))
    answers |= dict(_metric_answers(gpu))
    return dict(sorted(answers.items()))


def answer(call: Call, gpu: Any) -> Answer:
    try:
        return shape(call(gpu))
    except nv.NVMLError as error:
        return {"error": error.value}
    except TypeError:  # of nvidia-ml-py: it puts None into a C structure where memory is not known
        return {"stumbles": "TypeError"}


def shape(value: Any) -> Answer:
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    if isinstance(value, list | tuple):
        return {"list": shape(value[0]) if value else None}
    if isinstance(value, ctypes.Structure):
        return {"fields": sorted(name for name, *_ in value._fields_)}
    if type(value).__name__ == "nvmlFriendlyObject":
        return {"fields": sorted(vars(value))}
    if isinstance(value, int | float) or value is None:
        return {"type": type(value).__name__, "value": value}
    return {"type": type(value).__name__}


def compare(recorded: dict[str, Answer], fake: dict[str, Answer]) -> list[str]:
    """In words, where the fake answers otherwise than the driver did. It may know fewer fields and metrics."""
    return [f"{name}: the driver says {recorded[name]}, the fake {fake.get(name)}" for name in recorded if not _agree(name, recorded[name], fake.get(name, {}))]


def _agree(name: str, recorded: Answer, fake: Answer) -> bool:
    call = name.removeprefix(ON_INSTANCE)
    if call.startswith(("field ", "metric ")) and fake == {"error": nv.NVML_ERROR_NOT_SUPPORTED}:
        return True
    if call in SAMPLES and {"error": nv.NVML_ERROR_NOT_FOUND} in (recorded, fake):
        return True
    if call == ROOM_FOR_PROCESSES:
        return {recorded.get("error"), fake.get("error")} <= {nv.NVML_SUCCESS, nv.NVML_ERROR_INSUFFICIENT_SIZE}
    if "list" in recorded and "list" in fake and None in (recorded["list"], fake["list"]):
        return True
    return _bare(recorded) == _bare(fake)


def _bare(found: Answer) -> Answer:
    """Its numbers are its own."""
    return {key: _bare(part) if isinstance(part, dict) else part for key, part in found.items() if key != "value"}


def _field_answers(gpu: Any) -> Iterator[tuple[str, Answer]]:
    try:
        found = nv.nvmlDeviceGetFieldValues(gpu, list(FIELDS))
    except nv.NVMLError as error:
        yield "nvmlDeviceGetFieldValues", {"error": error.value}
        return
    for field in found:
        code = field.nvmlReturn
        yield f"field {field.fieldId}", {"value_type": field.valueType} if code == nv.NVML_SUCCESS else {"error": code}


def _metric_answers(gpu: Any) -> Iterator[tuple[str, Answer]]:
    try:
        query = _metrics(gpu, METRICS, version=nv.NVML_GPM_METRICS_GET_VERSION)
    except nv.NVMLError as error:
        yield "nvmlGpmMetricsGet", {"error": error.value}
        return
    for metric in query.metrics[: len(METRICS)]:
        yield f"metric {metric.metricId}", {"error": metric.nvmlReturn} if metric.nvmlReturn else {"type": "float"}


def _metrics(gpu: Any, wanted: tuple[int, ...], *, version: int) -> Any:
    query = nv.c_nvmlGpmMetricsGet_t(version=version, numMetrics=len(wanted))
    query.sample1 = nv.nvmlGpmSampleGet(gpu, nv.nvmlGpmSampleAlloc())
    query.sample2 = nv.nvmlGpmSampleGet(gpu, nv.nvmlGpmSampleAlloc())
    for at, metric in enumerate(wanted):
        query.metrics[at].metricId = metric
    return nv.nvmlGpmMetricsGet(query)


def _wait(gpu: Any, wait: Callable[[Any, int], Any]) -> Any:
    events = nv.nvmlEventSetCreate()
    nv.nvmlDeviceRegisterEvents(gpu, nv.nvmlEventTypeXidCriticalError, events)
    return wait(events, 10)


def _call(function: str, *arguments: Any) -> Any:
    """As C would, for what nvidia-ml-py never does."""
    raise nv.NVMLError(nv._nvmlGetFunctionPointer(function)(*arguments))


def first_instance(gpu: Any) -> Any | None:
    for slot in range(nv.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            return nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
        except (nv.NVMLError_NotFound, nv.NVMLError_InvalidArgument):
            continue
    return None


def main() -> None:
    nv.nvmlInit()
    gpu = nv.nvmlDeviceGetHandleByIndex(0)
    answers = record(gpu)
    instance = first_instance(gpu)
    if instance is not None:
        answers |= {f"{ON_INSTANCE}{name}": found for name, found in record(instance).items()}
    json.dump(answers, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
