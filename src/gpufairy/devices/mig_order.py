"""An order to cut a GPU anew, what was found on it, and how it went; as values and as JSON, for the process of mig_apply.py and its parent.

Also the journal: an order is written down before it is begun, so that after a crash it is finished or undone.
"""
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigProfile, MigTable


@dataclass(frozen=True, slots=True)
class CutOrder:
    """Bring a GPU from one cut to another. Given twice it is done once: what is gone already, or there already, is left alone."""

    gpu: str  # its UUID
    destroy: tuple[MigInstance, ...] = ()
    create: tuple[MigInstance, ...] = ()  # without UUIDs
    mode: bool | None = None  # MIG mode to be switched on before, or off afterwards; None: stays as it is
    actor: str = ""  # who asked, for the event
    why: str = ""
    before: tuple[str, ...] = ()  # profiles, for the event


@dataclass(frozen=True, slots=True)
class CutSeen:
    """What the driver tells of one GPU."""

    table: MigTable
    instances: tuple[MigInstance, ...]
    mode: bool


class Outcome(StrEnum):
    DONE = "done"
    UNDONE = "undone"  # it failed, and all is as it was: what was destroyed was made again, under new UUIDs
    HALF = "half"  # it failed, and so did the way back: the GPU is cut as `seen` says
    RESET = "reset"  # MIG mode changes with the next reset of the GPU, which only a person may do


@dataclass(frozen=True, slots=True)
class CutDone:
    outcome: Outcome
    seen: CutSeen
    why: str = ""


def order_to_plain(order: CutOrder) -> dict[str, Any]:
    return {
        "gpu": order.gpu, "mode": order.mode, "actor": order.actor, "why": order.why, "before": list(order.before),
        "destroy": [instance_to_plain(one) for one in order.destroy], "create": [instance_to_plain(one) for one in order.create],
    }  # fmt: skip


def order_from_plain(plain: Mapping[str, Any]) -> CutOrder:
    try:
        return CutOrder(
            str(plain["gpu"]), instances_from_plain(plain["destroy"]), instances_from_plain(plain["create"]), plain["mode"],
            str(plain["actor"]), str(plain["why"]), tuple(map(str, plain["before"])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"this is no order to cut a GPU: {error!r}", "It was not written by this version.") from None


def seen_to_plain(seen: CutSeen) -> dict[str, Any]:
    table = seen.table
    profiles = [[one.name, one.compute_slices, one.size, list(one.starts), one.memory_bytes] for one in table.profiles]
    told = {"compute_slices": table.compute_slices, "memory_slices": table.memory_slices, "profiles": profiles}
    return {"table": told, "instances": [instance_to_plain(one) for one in seen.instances], "mode": seen.mode}


def seen_from_plain(plain: Mapping[str, Any]) -> CutSeen:
    try:
        table = plain["table"]
        profiles = tuple(MigProfile(name, slices, size, tuple(starts), memory) for name, slices, size, starts, memory in table["profiles"])
        made = MigTable(table["compute_slices"], table["memory_slices"], profiles)
        return CutSeen(made, instances_from_plain(plain["instances"]), bool(plain["mode"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"this tells nothing of a GPU's cut: {error!r}") from None


def instance_to_plain(one: MigInstance) -> dict[str, Any]:
    return {"profile": one.profile, "start": one.start, "size": one.size, "uuid": one.uuid}


def instances_from_plain(plain: list[Mapping[str, Any]]) -> tuple[MigInstance, ...]:
    return tuple(MigInstance(str(one["profile"]), int(one["start"]), int(one["size"]), str(one["uuid"])) for one in plain)
