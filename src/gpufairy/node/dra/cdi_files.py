"""What a claim's containers find inside, and the CDI file that tells the container engine to bring it in. As sessions have it on Docker."""
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.core.node import Sharing
from gpufairy.core.session import GpuSeat
from gpufairy.core.share import PARTS
from gpufairy.engines.docker_spec import Mount
from gpufairy.engines.share_files import share_mounts, write_share
from gpufairy.node.dra.room import is_whole
from gpufairy.node.dra.values import ALL_CORES, DRIVER, MIB, Grant, Offer

KIND = f"{DRIVER}/claim"
VERSION = "0.6.0"  # of CDI: the first in which containerd 1.7 and later, and CRI-O, take all that is here
SHARE_FOLDER = "/run/fairy/share"
LIBRARY_NAME = "libfairyshare.so"
ROOT = 0


def device_name(grant: Grant, place: int) -> str:
    return f"{grant.claim.uid}-{place}"


def spec_path(folder: Path, uid: str) -> Path:
    return folder / f"{DRIVER}-{uid}.json"


def seats_of(grant: Grant, offers: Mapping[str, Offer], *, mps: bool) -> tuple[GpuSeat, ...]:
    """What of each GPU the claim may take: all of them, for of a GPU that is not in its limits a program gets nothing."""
    found = []
    for name in dict.fromkeys(part.device for part in grant.parts):
        offer, (memory, cores) = offers[name], grant.of(name)
        parts = PARTS if offer.is_instance else cores * PARTS // ALL_CORES
        sharing = Sharing.MPS if mps else Sharing.TIME
        found.append(GpuSeat(offer.index, offer.uuid, parts, memory or offer.memory_bytes, offer.kind, sharing=sharing))
    return tuple(found)


def cdi_spec(grant: Grant, offers: Mapping[str, Offer], mounts: tuple[Mount, ...]) -> dict[str, Any]:
    """A device for each part of the grant. All bring in the same: a container may have several of them."""
    edits: dict[str, Any] = {"env": environment(grant, offers)}
    if mounts:
        edits["mounts"] = [cdi_mount(mount) for mount in mounts]
    devices = [{"name": device_name(grant, place), "containerEdits": edits} for place in range(len(grant.parts))]
    return {"cdiVersion": VERSION, "kind": KIND, "devices": devices}


def environment(grant: Grant, offers: Mapping[str, Offer]) -> list[str]:
    """NVIDIA's own hook heeds NVIDIA_VISIBLE_DEVICES, also of an image: void keeps it out."""
    names = list(dict.fromkeys(part.device for part in grant.parts))
    amounts = {offers[name].uuid: grant.of(name) for name in names}
    told = ",".join(f"{uuid}={memory // MIB}MiB/{cores}%" for uuid, (memory, cores) in amounts.items())
    # With several GPUs a container may have some of them: CUDA would see none if the first of the list were another's.
    visible = [f"CUDA_VISIBLE_DEVICES={offers[names[0]].uuid}"] if len(names) == 1 else []
    return ["NVIDIA_VISIBLE_DEVICES=void", f"FAIRY_SHARE={told}", *visible]


def cdi_mount(mount: Mount) -> dict[str, Any]:
    options = ["bind", "nosuid", "nodev", "rw" if mount.writable else "ro"]
    return {"hostPath": str(mount.source), "containerPath": mount.target, "options": options}


@dataclass(frozen=True, slots=True)
class ClaimFiles:
    """Where they come from, and where they go."""

    home: Path  # of the claim
    cdi: Path
    library: Path
    pipes: Path | None  # of MPS


def make_files(at: ClaimFiles, grant: Grant, offers: Mapping[str, Offer]) -> None:
    """Raises EngineRefused. Twice the same: once."""
    shared = any(not is_whole(grant, offers[part.device]) for part in grant.parts)
    try:
        mounts = share_files(at, grant, offers) if shared else ()
        write_spec(spec_path(at.cdi, grant.claim.uid), cdi_spec(grant, offers, mounts))
    except OSError as error:
        where = error.filename or at.home
        raise EngineRefused(f"{grant.claim.words} cannot be made ready: {where}: {error.strerror}", "Is the disk full?") from error


def share_files(at: ClaimFiles, grant: Grant, offers: Mapping[str, Offer]) -> tuple[Mount, ...]:
    inside, mps = at.home / "inside", at.pipes is not None
    inside.mkdir(exist_ok=True)
    inside.chmod(0o755)
    write_share(at.home, seats_of(grant, offers, mps=mps), ROOT, mps=mps, library=f"{SHARE_FOLDER}/{LIBRARY_NAME}")
    # A copy of its own: it stays as it is while the claim is held, whatever version of the agent comes after.
    copy = inside / "share" / LIBRARY_NAME
    if not copy.exists():
        beside = copy.with_suffix(".new")
        shutil.copyfile(at.library, beside)
        beside.chmod(0o755)
        beside.replace(copy)
    return (Mount(inside / "share", SHARE_FOLDER), *share_mounts(at.home, at.pipes))


def write_spec(path: Path, spec: dict[str, Any]) -> None:
    """The container engine watches the folder, and reads whatever ends in .json."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "w") as file:
        json.dump(spec, file)
    beside.replace(path)


def remove_spec(folder: Path, uid: str) -> None:
    """Absent: fine. Raises EngineRefused."""
    try:
        spec_path(folder, uid).unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise EngineRefused(f"{spec_path(folder, uid)} cannot be removed: {error.strerror}") from error
