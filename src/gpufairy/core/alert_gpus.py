"""Alerts of GPUs: heat, power, fans, errors of the driver and of memory, GPUs that are gone, drivers that hang, outsiders."""
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpufairy.core.alert import Condition, Judgement, Severity
from gpufairy.core.alert_hosts import COOLER_C, column, judged
from gpufairy.core.alert_look import AlertLook, HostLook, SeenXid
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.xid_table import meaning_of

NEAR_SLOWDOWN_C = 2.0  # below what the GPU says: from there on it is slowed down
HEAT = ("hardware slowdown", "software heat", "hardware heat")
BRAKE = "power brake"
OVER_LIMIT = 1.15  # of its power limit: peaks of a moment are usual
FAN_NEEDED_C = 70.0
MANY_ECC = 1000  # corrected errors from one look to the next: a chip that fails
MOST_NAMED = 5  # outsiders in one sentence


class OneGpu(NamedTuple):
    thing: str
    node: str
    reading: GpuReading


@dataclass(slots=True)
class EccCounts:
    """As they were at the last look, by UUID."""

    uncorrected: dict[str, int] = field(default_factory=dict)
    corrected: dict[str, int] = field(default_factory=dict)


def gpu_judgements(look: AlertLook, ecc: EccCounts) -> Iterable[Judgement]:
    heard = [(host, host.sample) for host in look.hosts if host.sample is not None and not host.silent]
    gpus = [gpu for _, sample in heard for gpu in gpus_of(sample)]
    yield gpu_hot(look, gpus)
    yield gpu_throttled(gpus)
    yield gpu_power(gpus)
    yield gpu_fan(gpus)
    yield gpu_ecc(gpus, ecc)
    yield gpu_remap(gpus)
    yield gpu_xid(look.xids, gpus)
    yield gpu_lost(heard)
    yield driver_hung(heard)
    yield outsider(heard)


def gpus_of(sample: NodeSample) -> Iterator[OneGpu]:
    """Whole ones: instances have no heat or power of their own."""
    if not sample.gpus_known:
        return
    devices = {device.uuid: device for device in sample.devices}
    for reading in sample.readings:
        device = devices.get(reading.uuid)
        if device is not None and device.parent is None and not device.simulated:
            yield OneGpu(thing_of(sample.node, device), sample.node, reading)


def thing_of(node: str, device: GpuDevice) -> str:
    return f"{node} GPU {device.index}"


def gpu_hot(look: AlertLook, gpus: Sequence[OneGpu]) -> Judgement:
    heat, memory = column(gpu.reading.temperature_c for gpu in gpus), column(gpu.reading.memory_temperature_c for gpu in gpus)
    slowdown = column(gpu.reading.slowdown_c for gpu in gpus)
    limit = np.where(np.isfinite(slowdown), slowdown - NEAR_SLOWDOWN_C, look.limits.gpu_hot_c)
    hot_memory = look.limits.gpu_memory_hot_c
    bad = (heat >= limit) | (memory >= hot_memory)
    fine = (heat < limit - COOLER_C) & ~(memory >= hot_memory - COOLER_C)

    def words(place: int) -> str:
        of_memory = "" if not memory[place] >= hot_memory else f", its memory {memory[place]:.0f} °C"
        known = "" if not np.isfinite(heat[place]) else f" has {heat[place]:.0f} °C (bad from {limit[place]:.0f} °C)"
        return f"{gpus[place].thing}{known}{of_memory}"

    return judged("gpu_hot", things(gpus), bad, fine, words)


def gpu_throttled(gpus: Sequence[OneGpu]) -> Judgement:
    reasons = [None if gpu.reading.throttled_by is None else [word for word in gpu.reading.throttled_by if word in HEAT] for gpu in gpus]
    slowed = column(None if found is None else float(bool(found)) for found in reasons)

    def words(place: int) -> str:
        return f"{gpus[place].thing} is slowed down by {', '.join(reasons[place] or ())}"

    return judged("gpu_throttled", things(gpus), slowed == 1, slowed == 0, words)


def gpu_power(gpus: Sequence[OneGpu]) -> Judgement:
    braked = column(None if gpu.reading.throttled_by is None else float(BRAKE in gpu.reading.throttled_by) for gpu in gpus)
    watts, limit = column(gpu.reading.power_w for gpu in gpus), column(gpu.reading.power_limit_w for gpu in gpus)
    over = (limit > 0) & (watts > OVER_LIMIT * limit)

    def words(place: int) -> str:
        if braked[place] == 1:
            return f"{gpus[place].thing} is braked by the machine for want of power"
        return f"{gpus[place].thing} draws {watts[place]:.0f} W, and may draw {limit[place]:.0f} W"

    known = (braked == 0) | (np.isfinite(watts) & np.isfinite(limit))
    return judged("gpu_power", things(gpus), (braked == 1) | over, known & (braked != 1) & ~(watts > limit), words)


def gpu_fan(gpus: Sequence[OneGpu]) -> Judgement:
    fan, heat = column(gpu.reading.fan for gpu in gpus), column(gpu.reading.temperature_c for gpu in gpus)
    bad = (fan == 0) & (heat >= FAN_NEEDED_C)
    fine = (fan > 0) | (heat < FAN_NEEDED_C - COOLER_C)

    def words(place: int) -> str:
        return f"{gpus[place].thing} has {heat[place]:.0f} °C and its fan stands still"

    return judged("gpu_fan", things(gpus), bad, fine, words)


def gpu_ecc(gpus: Sequence[OneGpu], counts: EccCounts) -> Judgement:
    """By what came since the last look: a counter that was high before says nothing of now. A spare row too few stays bad."""
    bad, fine = dict[str, Condition](), set[str]()
    for gpu in gpus:
        reading = gpu.reading
        more = _more(counts.uncorrected, reading.uuid, reading.ecc_uncorrected)
        many = _more(counts.corrected, reading.uuid, reading.ecc_corrected)
        if reading.remap_failed:
            words = f"{gpu.thing} has no spare memory rows left"
            bad[gpu.thing] = Condition(gpu.thing, gpu.node, words, "The card should go back to its maker. Drain the node until then.")
        elif more:
            bad[gpu.thing] = Condition(gpu.thing, gpu.node, f"{gpu.thing} had {more} memory errors beyond correction")
        elif many is not None and many >= MANY_ECC:
            words = f"{gpu.thing} corrected {many} memory errors in a moment"
            bad[gpu.thing] = Condition(gpu.thing, gpu.node, words, severity=Severity.WARNING)
        elif more is not None or reading.remap_failed is False:
            fine.add(gpu.thing)
    return Judgement("gpu_ecc", bad, fine)


def _more(before: dict[str, int], uuid: str, now: int | None) -> int | None:
    """None: not known, or seen for the first time. Less than before: the driver was loaded anew."""
    if now is None:
        return None
    last, before[uuid] = before.get(uuid), now
    return None if last is None else now - last if now >= last else now


def gpu_remap(gpus: Sequence[OneGpu]) -> Judgement:
    pending = column(None if gpu.reading.remap_pending is None else float(gpu.reading.remap_pending) for gpu in gpus)

    def words(place: int) -> str:
        return f"{gpus[place].thing} replaces a bad memory row at its next reset"

    return judged("gpu_remap", things(gpus), pending == 1, pending == 0, words)


def gpu_xid(xids: Sequence[SeenXid], gpus: Sequence[OneGpu]) -> Judgement:
    """Those of the last moments are bad; a GPU that is read and had none of late is fine, as far as this goes."""
    names = {gpu.reading.uuid: gpu.thing for gpu in gpus}
    bad = {}
    for seen in xids:
        meaning, code = meaning_of(seen.xid.code), seen.xid.code
        gpu = names.get(seen.xid.uuid, f"{seen.node} {seen.xid.uuid}")
        often = f", {seen.times} times" if seen.times > 1 else ""
        sentence = f"{gpu}: XID {code}{often}: {meaning.meaning}"
        bad[f"{gpu} XID {code}"] = Condition(f"{gpu} XID {code}", seen.node, sentence, meaning.todo, meaning.severity)
    return Judgement("gpu_xid", bad, XidsOf(frozenset(names.values())))


@dataclass(frozen=True, slots=True)
class XidsOf:
    """Every `GPU XID code` of these GPUs, whatever the code."""

    gpus: frozenset[str]

    def __contains__(self, thing: object) -> bool:
        return str(thing).partition(" XID ")[0] in self.gpus


def gpu_lost(heard: Sequence[tuple[HostLook, NodeSample]]) -> Judgement:
    bad = {
        thing: Condition(thing, sample.node, f"{thing} is lost: {lost.why}")
        for _, sample in heard
        for lost in sample.lost
        for thing in [f"{sample.node} GPU {lost.index}"]
    }
    known = [sample for _, sample in heard if sample.gpus_known]
    there = {thing_of(sample.node, device) for sample in known for device in sample.devices if device.parent is None}
    return Judgement("gpu_lost", bad, there - bad.keys())


def driver_hung(heard: Sequence[tuple[HostLook, NodeSample]]) -> Judgement:
    """A host that never had a GPU has no driver to hang."""
    hung = [sample for _, sample in heard if not sample.gpus_known and (sample.devices or sample.driver)]
    bad = {
        sample.node: Condition(sample.node, sample.node, f"the GPU driver of {sample.node} does not answer{_why(sample)}")
        for sample in hung
    }
    return Judgement("driver_hung", bad, {sample.node for _, sample in heard if sample.gpus_known})


def _why(sample: NodeSample) -> str:
    return f": {sample.trouble[0]}" if sample.trouble else ""


def outsider(heard: Sequence[tuple[HostLook, NodeSample]]) -> Judgement:
    bad, fine = dict[str, Condition](), set[str]()
    for host, sample in heard:
        if not host.runs_sessions or not sample.gpus_known:
            continue
        devices = {device.uuid: device for device in sample.devices}
        on: dict[str, list[str]] = {thing_of(sample.node, device): [] for device in sample.devices if device.parent is None}
        for process in sample.processes:
            device = devices.get(process.on.uuid)
            if device is not None and process.owner.outside:
                who = f"{process.process.command} (PID {process.process.pid}) of {process.owner.user or 'nobody known'}"
                on.setdefault(f"{sample.node} GPU {device.index}", []).append(who)
        for thing, found in on.items():
            if found:
                more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
                bad[thing] = Condition(thing, sample.node, f"outside any session on {thing}: {', '.join(found[:MOST_NAMED])}{more}")
            else:
                fine.add(thing)
    return Judgement("outsider", bad, fine)


def things(gpus: Sequence[OneGpu]) -> list[tuple[str, str]]:
    return [(gpu.thing, gpu.node) for gpu in gpus]
