"""What this node offers to the cluster, from what the driver told. Pure."""
from collections.abc import Iterable

from gpufairy.core.reading import GpuDevice, GpuSample
from gpufairy.node.dra.values import MIB, Offer

LONGEST_TEXT = 64  # letters of an attribute, as Kubernetes has it


def offers_of(sample: GpuSample) -> tuple[Offer, ...]:
    """GPUs, and of those in MIG mode their instances instead. One whose memory is not told cannot be shared out."""
    gpus = {device.uuid: device for device in sample.devices if device.parent is None}
    found = [offer for device in sample.devices if (offer := offer_of(device, gpus)) is not None]
    return tuple(sorted(found, key=lambda offer: (offer.index, offer.start, offer.name)))


def offer_of(device: GpuDevice, gpus: dict[str, GpuDevice]) -> Offer | None:
    if device.simulated or not device.memory_bytes:
        return None
    if device.parent is None:
        return None if device.mig else Offer(name_of(device.uuid), device.uuid, device.index, device.kind[:LONGEST_TEXT], mib(device))
    parent = gpus.get(device.parent)
    # Where an instance lies is its place in the planner's table; the driver tells it to root alone.
    if parent is None or device.profile is None or device.start is None or device.size is None:
        return None
    return Offer(
        name_of(device.uuid), device.uuid, device.index, parent.kind[:LONGEST_TEXT], mib(device),
        parent.uuid, mib(parent), device.profile, device.start, device.size,
    )  # fmt: skip


def name_of(uuid: str) -> str:
    """A DNS label; the same whatever number the GPU has after the next boot."""
    return uuid.lower()


def mib(device: GpuDevice) -> int:
    return (device.memory_bytes or 0) // MIB


def groups(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    """By the GPU they are of: each group is published by itself."""
    found: dict[str, list[Offer]] = {}
    for offer in offers:
        found.setdefault(offer.parent or offer.uuid, []).append(offer)
    return found
