"""What the doctor finds of GPUs on this machine: on the bus, in the kernel, by NVML in a process of its own, and of MPS on disk."""
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpufairy.core.doctor_facts import GpuFact, GpuFacts, MpsFacts, Nvml
from gpufairy.devices.bounded_call import Answer, BoundedCalls
from gpufairy.devices.mps_folder import pipe_folder
from gpufairy.devices.mps_note import notes_in, running_daemon
from gpufairy.devices.nvml_exits import NO_DRIVER
from gpufairy.node.doctor_ask import found_program
from gpufairy.node.host_files import names_in, read_text

CHILD = (sys.executable, "-P", "-m", "gpufairy.devices.doctor_child")
NVML_S = 12.0  # a driver that is loaded by being asked takes ten
NVIDIA = "0x10de"
DISPLAY = "0x03"  # the class of GPUs, with or without a screen
MODULE = re.compile(r"Kernel Module\D*?(?:for \S+\s+)?([0-9]+\.[0-9.]+)")
MAJOR = 195  # of NVIDIA's device files
FORMER = "former_compute_mode"


def gpu_facts(root: Path = Path("/"), limit_s: float = NVML_S) -> GpuFacts:
    state, trouble, told = asked_driver(limit_s)
    return GpuFacts(
        on_bus=on_bus(root),
        module=module_version(root),
        nouveau=(root / "sys/module/nouveau").is_dir() if (root / "sys/module").is_dir() else None,
        nvml=state,
        nvml_trouble=trouble,
        driver=told.get("driver"),
        gpus=tuple(gpus_of(told)),
        caps=len(names_in(str(root / "dev/nvidia-caps"))),
        char_links=has_links(root),
        in_container=in_container(root),
    )


def asked_driver(limit_s: float) -> tuple[Nvml, str, dict[str, Any]]:
    try:
        answer = asyncio.run(BoundedCalls().run(CHILD, env=os.environ, limit_s=limit_s))
    except TimeoutError as error:
        return Nvml.HUNG, str(error), {}
    except OSError as error:
        return Nvml.NOT_ASKED, str(error), {}
    if answer.code == NO_DRIVER:
        return Nvml.NO_LIBRARY, "", {}
    return heard(answer)


def heard(answer: Answer) -> tuple[Nvml, str, dict[str, Any]]:
    try:
        told = json.loads(answer.out)
        if answer.code == 0 and isinstance(told, dict):
            return Nvml.ANSWERED, "", told
    except ValueError:
        pass
    words = (answer.err.strip().splitlines() or [f"it ended with code {answer.code}"])[-1][:300]
    return Nvml.FAILED, words, {}


def gpus_of(told: dict[str, Any]) -> Iterable[GpuFact]:
    for one in told.get("gpus", ()):
        yield GpuFact(
            one["index"], one["uuid"], one["persistent"], one["compute_mode"], one["mig"], one["mig_pending"],
            tuple(one["instances"]), tuple(one["pids"]),
        )  # fmt: skip
    for gone in told.get("lost", ()):
        yield GpuFact(gone["index"], gone["uuid"], lost=gone["why"])


def on_bus(root: Path) -> int | None:
    """None: this machine shows no PCI bus, as some virtual ones do."""
    devices = root / "sys/bus/pci/devices"
    if not devices.is_dir():
        return None
    seen = [(read_text(f"{devices}/{name}/vendor").strip(), read_text(f"{devices}/{name}/class")) for name in names_in(str(devices))]
    return sum(vendor == NVIDIA and kind.startswith(DISPLAY) for vendor, kind in seen)


def module_version(root: Path) -> str | None:
    if not (root / "proc/modules").exists():
        return None
    found = MODULE.search(read_text(str(root / "proc/driver/nvidia/version")))
    return found[1] if found is not None else ""


def has_links(root: Path) -> bool | None:
    folder = root / "dev/char"
    return any(name.startswith(f"{MAJOR}:") for name in names_in(str(folder))) if folder.is_dir() else None


def in_container(root: Path) -> bool:
    marks = (root / ".dockerenv", root / "run/.containerenv", root / "var/run/secrets/kubernetes.io/serviceaccount")
    return any(mark.exists() for mark in marks)


def mps_facts(data: Path) -> MpsFacts:
    folder = data / "mps"
    gpus = sorted({note.gpu for note in notes_in(folder)} | {path.parent.name for path in folder.glob(f"*/{FORMER}")})
    live = [gpu for gpu in gpus if running_daemon(pipe_folder(folder, gpu)) is not None]
    left = [gpu for gpu in gpus if gpu not in live and names_in(str(pipe_folder(folder, gpu)))]
    kept = [gpu for gpu in gpus if (folder / gpu / FORMER).exists()]
    return MpsFacts(found_program("nvidia-cuda-mps-control") is not None, tuple(live), tuple(left), tuple(kept))
