"""Others: whoever holds something of a node beside sessions. Of which GPUs they hold it may be known how many alone; then those that no
session has are taken to be theirs, and nobody is put there.
"""
from collections.abc import Collection, Iterable
from dataclasses import replace

from gpufairy.core.node import Gpu, Node
from gpufairy.core.session import Session

THEIRS = "used by pods that are no sessions of gpufairy"


def beside_others(node: Node, held: Collection[str]) -> Node:
    """`held`: what sessions have of it, GPUs and MIG instances, by their UUIDs."""
    if not has_others(node):
        return node
    left = dict(node.of_others)
    gpus = []
    for gpu in reversed(node.gpus):
        gpus.append(_cut(gpu, left, held) if gpu.instances is not None else _whole(gpu, left, held))
    if left.get(""):  # where a session has just left, one of them may be already: nobody new is put on any
        gpus = [replace(gpu, closed=THEIRS, mps_stays=THEIRS) if gpu.mig is None else gpu for gpu in gpus]
    cpus_milli, memory_bytes = max(0, node.cpus_milli - node.others_cpus_milli), max(0, node.memory_bytes - node.others_memory_bytes)
    return replace(node, cpus_milli=cpus_milli, memory_bytes=memory_bytes, gpus=tuple(reversed(gpus)), without_others=node)


def has_others(node: Node) -> bool:
    return bool(node.of_others or node.others_cpus_milli or node.others_memory_bytes)


def held_on(sessions: Iterable[Session]) -> dict[str, set[str]]:
    """By node."""
    found: dict[str, set[str]] = {}
    for session in sessions:
        if session.seat is not None:
            parts = found.setdefault(session.seat.node, set())
            parts.update(gpu.device for gpu in session.seat.gpus)
    return found


def _whole(gpu: Gpu, left: dict[str, int], held: Collection[str]) -> Gpu:
    if gpu.mig is not None or not left.get("") or gpu.uuid in held:
        return gpu
    left[""] -= 1
    return replace(gpu, closed=THEIRS, mps_stays=THEIRS)


def _cut(gpu: Gpu, left: dict[str, int], held: Collection[str]) -> Gpu:
    kept = []
    for instance in reversed(gpu.instances or ()):
        # Where each `nvidia.com/gpu` of a node is an instance, they are counted as GPUs.
        name = instance.profile if left.get(instance.profile) else ""
        if instance.uuid not in held and left.get(name):
            left[name] -= 1
        else:
            kept.append(instance)
    return replace(gpu, instances=tuple(reversed(kept)))
