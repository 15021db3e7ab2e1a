"""Drawn: the power of GPUs by their energy counters, shared out by what sessions hold of them. None is not known, never zero."""
from collections.abc import Mapping

from gpufairy.core.node_sample import NodeSample

GAP = 2.5  # samples further apart than so many of their own lengths: what was drawn in between is spread over all of it


def drawn_by(sample: NodeSample, before: NodeSample | None, shares: Mapping[str, float]) -> float | None:
    """Watts. `shares`: of whole GPUs, by the UUID of the device that is held, which may be a MIG instance."""
    if not shares:
        return 0.0
    rises = {device: counted(sample, before, device) for device in shares}
    known = [watts * shares[device] for device, watts in rises.items() if watts is not None]
    return sum(known) if len(known) == len(shares) else None


def counted(sample: NodeSample, before: NodeSample | None, device: str) -> float | None:
    """Of the whole GPU: its mean power between two samples. A counter that fell began anew, and tells nothing."""
    if before is None or not sample.gpus_known:
        return None
    found = next((one for one in sample.devices if one.uuid == device), None)
    gpu = device if found is None or found.parent is None else found.parent
    now, then = energy_of(sample, gpu), energy_of(before, gpu)
    elapsed_s = (sample.at - before.at).total_seconds()
    if now is None or then is None or now < then or elapsed_s <= 0:
        return None
    # By the length that the sample is kept with, where it stands for all that passed: so the sum is what the counter says.
    stands_for_s = sample.seconds if 0 < elapsed_s <= GAP * sample.seconds else elapsed_s
    return (now - then) / stands_for_s


def energy_of(sample: NodeSample, gpu: str) -> float | None:
    return next((reading.energy_j for reading in sample.readings if reading.uuid == gpu), None)
