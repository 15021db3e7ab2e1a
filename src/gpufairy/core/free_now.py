"""Which GPU is free right now, and if not, why: nobody is on it, somebody holds it, somebody's process is there and works or not."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from gpufairy.core.amounts import show_size
from gpufairy.core.node import Node, NodeState
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy
from gpufairy.core.reading import GpuDevice, GpuReading

UNSEEN_BYTES = 512 * 2**20  # with nobody on it a GPU has some MiB in use, and what its driver reserves is not counted
UNSEEN_UTILISATION = 0.05  # a process that has just ended leaves less behind after a second
NOBODY: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FreeNow:
    free: bool | None  # None: not known, which is never taken for free
    why: str
    idle: bool = False  # taken, but nothing has been computed there over the window


def free_now(
    device: GpuDevice, sample: NodeSample, held_by: Sequence[str] = (), held_instances: Mapping[str, Sequence[str]] = NOBODY
) -> FreeNow:
    """Of a GPU or a MIG instance that the sample has seen. `held_by`: the owners of sessions that hold it, or a part of it.
    `held_instances`: of a GPU in MIG mode the same for its instances, by their UUIDs."""
    if not sample.gpus_known:
        return FreeNow(None, "its driver does not answer")
    here_or_above = (device.uuid, device.parent)
    lost = next((gpu for gpu in sample.lost if gpu.uuid is not None and gpu.uuid in here_or_above), None)
    if lost is not None:
        return FreeNow(None, f"it does not answer: {lost.why}")
    if device.mig:
        return _cut(device, sample, held_by, held_instances)
    here = [process for process in sample.processes if process.on.uuid == device.uuid and process.owner.known_by is not KnownBy.MPS]
    if held_by:
        return FreeNow(False, f"held by {_listed(held_by)}", idle=_all_idle(here))
    if here:
        return FreeNow(False, _on_it(here), idle=_all_idle(here))
    readings = [reading for reading in sample.readings if reading.uuid == device.uuid]
    if not all(reading.processes_known for reading in readings):
        return FreeNow(None, "who is on it could not be read")
    if any(map(in_use, readings)):
        return FreeNow(None, "in use by something that is not seen")
    return FreeNow(True, "nobody is on it")


def fit_to_use(node: Node, sample: NodeSample) -> Node:
    """Without the GPUs that are lost; and faulty, so that nothing starts there, while its driver says nothing at all."""
    if not any(not gpu.simulated for gpu in node.gpus):
        return node
    if not sample.gpus_known:
        return replace(node, state=NodeState.FAULTY, state_why="its NVIDIA driver does not answer")
    lost = {gpu.uuid for gpu in sample.lost}
    return replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.uuid not in lost)) if lost else node


def _cut(gpu: GpuDevice, sample: NodeSample, held_by: Sequence[str], held_instances: Mapping[str, Sequence[str]]) -> FreeNow:
    """A GPU in MIG mode is used by its instances: it is free when all of them are."""
    instances = [device for device in sample.devices if device.parent == gpu.uuid]
    if not instances:
        return FreeNow(None, "it is in MIG mode, and not cut yet")
    if held_by and not any(held_instances.get(device.uuid) for device in instances):
        return FreeNow(False, f"held by {_listed(held_by)}")  # on which of its instances is not known
    found = [free_now(device, sample, held_instances.get(device.uuid, ())).free for device in instances]
    free, unknown = found.count(True), found.count(None)
    if unknown and not free:
        return FreeNow(None, f"who is on {unknown} of its {len(instances)} MIG instances is not known")
    return FreeNow(free == len(instances), f"{free} of {len(instances)} MIG instances are free")


def in_use(reading: GpuReading) -> bool:
    """Though the driver tells of no process: a container's that is hidden from us, or one that it cannot get rid of."""
    return (reading.memory_used_bytes or 0) > UNSEEN_BYTES or (reading.utilisation or 0.0) > UNSEEN_UTILISATION


def _all_idle(processes: Sequence[ProcessReading]) -> bool:
    """Nothing there is no idleness of a process: who holds without a process is told elsewhere."""
    return bool(processes) and all(process.active is False for process in processes)


def _on_it(processes: Sequence[ProcessReading]) -> str:
    who = _listed([process.owner.user or "somebody unknown" for process in processes])
    sizes = [process.on.memory_bytes for process in processes]
    memory = "memory" if any(size is None for size in sizes) else show_size(sum(size or 0 for size in sizes))
    idle = ", but computes nothing" if _all_idle(processes) else ""
    return f"{who} has {memory} on it{idle}"


def _listed(names: Sequence[str]) -> str:
    once = list(dict.fromkeys(names))
    return ", ".join(once[:3]) + (f" and {len(once) - 3} more" if len(once) > 3 else "")
