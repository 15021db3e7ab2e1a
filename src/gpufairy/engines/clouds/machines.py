"""Machines with GPUs that clouds offer, and their prices: data (machines.json) with its source. What is not in it an admin can say."""
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpufairy.core.amounts import parse_cpus, parse_size
from gpufairy.core.errors import BadInput
from gpufairy.core.names import nearest
from gpufairy.core.pool import Cloud, Machine, Pool

VENDORS = {Cloud.EKS: "aws", Cloud.GKE: "gcp"}
SAID = "Say what it has: --gpus 1 --gpu-kind A10 --gpu-memory 24GiB --cpus 4 --memory 16GiB."
MIB, GIB, MILLION = 2**20, 2**30, 1_000_000


@cache
def known(vendor: str) -> dict[str, Machine]:
    told = _table()[vendor]
    return {name: _machine(name, row, told["price_of"]) for name, row in told["machines"].items()}


@cache
def _table() -> dict[str, Any]:
    text = files("gpufairy.engines.clouds").joinpath("machines.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def accelerator(instance: str) -> str | None:
    """As Google calls the GPU of a machine; None: not known."""
    found = _table()["gcp"]["machines"].get(instance)
    return None if found is None else str(found["accelerator"])


def _machine(name: str, row: dict[str, Any], price_of: str) -> Machine:
    price = row["price"]
    return Machine(
        name, row["gpu_kind"], row["gpus"], row["gpu_memory_mib"] * MIB, row["cpus"] * 1000, row["memory_gib"] * GIB,
        None if price is None else round(price * MILLION), "" if price is None else price_of,
    )  # fmt: skip


def machine_of(pool: Pool, vendors: Iterable[str], seen: Machine | None = None) -> Machine:
    """By the table, by what the cloud itself said (`seen`), and last by what the admin said. Raises BadInput."""
    names = {name: machine for vendor in vendors for name, machine in known(vendor).items()}
    found = names.get(pool.machine.instance)
    machine = said_by_admin(pool, found or seen or pool.machine)
    if seen is not None and found is None:
        machine = said_by_admin(pool, seen)
    if not machine.gpus or not machine.cpus_milli or not machine.memory_bytes:
        raise BadInput(f"instance: nothing is known here of {pool.machine.instance!r}{nearest(pool.machine.instance, names)}", SAID)
    return machine


def said_by_admin(pool: Pool, machine: Machine) -> Machine:
    said = pool.options
    price = machine.price_micros if "price" not in said else round(float(said["price"]) * MILLION)
    return replace(
        machine,
        gpus=int(said.get("gpus", machine.gpus)), gpu_kind=said.get("gpu_kind", machine.gpu_kind) or "GPU",
        gpu_memory_bytes=parse_size(said["gpu_memory"], "gpu_memory") if "gpu_memory" in said else machine.gpu_memory_bytes,
        cpus_milli=parse_cpus(said["cpus"]) if "cpus" in said else machine.cpus_milli,
        memory_bytes=parse_size(said["memory"], "memory") if "memory" in said else machine.memory_bytes,
        price_micros=price, price_of="as the admin said" if "price" in said else machine.price_of,
    )  # fmt: skip
