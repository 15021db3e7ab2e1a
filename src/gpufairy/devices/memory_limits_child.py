"""The process that limits a cgroup's memory on one GPU: `memory_limits_child UUID CGROUP BYTES`. Prints the limit that holds now.

By functions that drivers have from r615 on, and nvidia-ml-py of that time. Older ones are told apart by how this process ends.
"""
import sys

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.errors import FairyError
from gpufairy.devices.nvml_calls import NoDriver, open_library
from gpufairy.devices.nvml_exits import FAILED, NO_DRIVER, TOO_OLD

NEEDED = ("c_nvmlSetMemoryLimits_v1_t", "nvmlDeviceSetMemoryLimits_v1", "c_nvmlGetMemoryLimits_v1_t", "nvmlDeviceGetMemoryLimits_v1")
LACKING = (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED)


def main() -> int:
    if not all(hasattr(pynvml, name) for name in NEEDED):
        sys.stderr.write("nvidia-ml-py here is older than memory limits\n")
        return TOO_OLD
    try:
        open_library()
        sys.stdout.write(f"{limited(sys.argv[1], sys.argv[2], int(sys.argv[3]))}\n")
    except NoDriver as error:
        sys.stderr.write(f"{error.detail}\n")
        return NO_DRIVER
    except FairyError as error:
        sys.stderr.write(f"{error.detail}\n")
        return FAILED
    except pynvml.NVMLError as error:
        sys.stderr.write(f"{error}\n")
        return TOO_OLD if error.value in LACKING else FAILED
    return 0


def limited(uuid: str, cgroup: str, memory_bytes: int) -> int:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    wanted = pynvml.c_nvmlSetMemoryLimits_v1_t()
    wanted.nameSpace = cgroup.encode()
    # Nothing guaranteed, so nothing is reserved in the cgroups above, which nobody would give back when this one is deleted.
    wanted.softLimit, wanted.hardLimit = 0, memory_bytes
    pynvml.nvmlDeviceSetMemoryLimits_v1(gpu, wanted)
    found = pynvml.c_nvmlGetMemoryLimits_v1_t()
    found.nameSpace = cgroup.encode()
    pynvml.nvmlDeviceGetMemoryLimits_v1(gpu, found)
    return int(found.hardLimit)


if __name__ == "__main__":
    sys.exit(main())
