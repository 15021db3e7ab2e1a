"""The process that asks the driver for the doctor: one line of JSON, or why not. A driver that hangs takes nobody with it but this."""
import json
import sys
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.devices.nvml_calls import NoDriver, NvmlFailed, ask, open_library
from gpufairy.devices.nvml_exits import FAILED, NO_DRIVER
from gpufairy.devices.nvml_found import FoundGpu, count_gpus, find_gpus
from gpufairy.devices.nvml_processes import LISTS


def main() -> int:
    try:
        open_library()
        sys.stdout.write(f"{json.dumps(all_told())}\n")
    except NoDriver as error:
        sys.stderr.write(f"{error.detail}\n")
        return NO_DRIVER
    except NvmlFailed as error:
        sys.stderr.write(f"{error.detail}\n")
        return FAILED
    return 0


def all_told() -> dict[str, Any]:
    found, lost = find_gpus(count_gpus(), {})
    return {
        "driver": ask(pynvml.nvmlSystemGetDriverVersion),
        "gpus": [told(gpu) for gpu in found],
        "lost": [{"index": gone.index, "uuid": gone.uuid or "", "why": gone.why} for gone in lost],
    }


def told(found: FoundGpu) -> dict[str, Any]:
    handle, device = found.gpu.handle, found.gpu.device
    mode, persistent = ask(pynvml.nvmlDeviceGetMigMode, handle), ask(pynvml.nvmlDeviceGetPersistenceMode, handle)
    return {
        "index": device.index,
        "uuid": device.uuid,
        "persistent": None if persistent is None else bool(persistent),
        "compute_mode": ask(pynvml.nvmlDeviceGetComputeMode, handle),
        "mig": None if mode is None else bool(mode[0]),
        "mig_pending": None if mode is None else bool(mode[1]),
        "instances": [one.device.uuid for one in found.instances],
        "pids": sorted({process.pid for handle in (handle, *(one.handle for one in found.instances)) for process in listed(handle)}),
    }


def listed(handle: Any) -> list[Any]:
    """Every program on it, of whatever kind; what the driver does not list is not asked for twice."""
    return [process for newest, older in LISTS.values() for process in (ask(newest, handle) or ask(older, handle) or [])]


if __name__ == "__main__":
    sys.exit(main())
