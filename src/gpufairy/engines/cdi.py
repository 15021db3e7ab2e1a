"""CDI: the files in which a vendor describes its devices, read for their names alone. What is in them the container engine does."""
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpufairy.core.session import GpuSeat

KIND = "nvidia.com/gpu"
USUAL_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
LARGEST = 4 * 2**20  # bytes of one file: NVIDIA's own is some 100 KiB for eight GPUs

log = logging.getLogger(__name__)


def cdi_devices(gpus: Iterable[GpuSeat], offered: frozenset[str], kind: str = KIND) -> tuple[str, ...] | None:
    """A full name for each GPU: by its UUID, else by its number. None: not all of them are offered."""
    names = []
    for gpu in gpus:
        # A MIG instance has no number of its own here: the GPU's would be the whole GPU.
        known = next((name for name in (gpu.device, "" if gpu.profile else str(gpu.index)) if name in offered), None)
        if known is None:
            return None
        names.append(f"{kind}={known}")
    return tuple(dict.fromkeys(names))


def offered_devices(folders: Sequence[Path] = USUAL_FOLDERS, kind: str = KIND) -> frozenset[str]:
    """The names that the files in these folders give to devices of that kind."""
    found: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if path.suffix in (".json", ".yaml", ".yml"):
                found |= device_names(read_spec(path), kind)
    return frozenset(found)


def read_spec(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST)
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        log.warning("the device file %s cannot be read: %s", path, error)
        return None


def device_names(spec: Any, kind: str) -> set[str]:
    if not isinstance(spec, dict) or spec.get("kind") != kind or not isinstance(spec.get("devices"), list):
        return set()
    return {str(device["name"]) for device in spec["devices"] if isinstance(device, dict) and "name" in device}
