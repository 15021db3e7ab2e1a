"""The process that reads or sets the compute mode of one GPU: `compute_mode_child UUID [MODE]`. Prints the mode; else says why not."""
import sys

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.errors import FairyError
from gpufairy.devices.nvml_calls import open_library
from gpufairy.devices.nvml_exits import FAILED


def main() -> int:
    try:
        open_library()
        sys.stdout.write(f"{mode_of(sys.argv[1], *map(int, sys.argv[2:]))}\n")
    except FairyError as error:
        sys.stderr.write(f"{error.detail}\n")
        return FAILED
    except pynvml.NVMLError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    return 0


def mode_of(uuid: str, wanted: int | None = None) -> int:
    """After it was set, where one is wanted."""
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    if wanted is not None:
        pynvml.nvmlDeviceSetComputeMode(gpu, wanted)
    elif is_cut(gpu):
        raise FairyError("the GPU is cut by MIG, and fractions by MPS are of whole GPUs alone")
    return int(pynvml.nvmlDeviceGetComputeMode(gpu))


def is_cut(gpu: object) -> bool:
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(gpu)
    except pynvml.NVMLError_NotSupported:
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


if __name__ == "__main__":
    sys.exit(main())
