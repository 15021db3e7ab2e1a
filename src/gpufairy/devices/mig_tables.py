"""How kinds of GPU may be cut by MIG, from NVIDIA's documents and printed placements. With a driver at hand, ask the driver instead."""
import json
from functools import cache
from importlib.resources import files
from typing import Any

from gpufairy.core.mig import MigProfile, MigTable

GIB = 2**30


@cache
def mig_tables() -> dict[str, MigTable]:
    """By kind, such as `A100-40GB`."""
    text = files("gpufairy.devices").joinpath("mig_profiles.json").read_text(encoding="utf-8")
    return {kind: _table(entry) for kind, entry in json.loads(text)["gpus"].items()}


def _table(entry: dict[str, Any]) -> MigTable:
    profiles = tuple(_profile(profile) for profile in entry["profiles"])
    return MigTable(entry["total_compute_slices"], entry["total_memory_slices"], profiles)


def _profile(entry: dict[str, Any]) -> MigProfile:
    memory_gib = entry["memory_gib_reported"]
    return MigProfile(
        entry["name"],
        compute_slices=entry["compute_slices"],
        size=entry["memory_slices"],
        starts=tuple(placement["start"] for placement in entry["placements"]),
        memory_bytes=None if memory_gib is None else int(memory_gib * GIB),
    )
