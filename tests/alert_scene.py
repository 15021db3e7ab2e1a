"""Builders for tests of alerts: hosts and GPUs of which only what a test names is out of the ordinary."""
from dataclasses import replace
from datetime import datetime

from builders import NOW
from gpufairy.core.alert import Judgement
from gpufairy.core.alert_gpus import EccCounts
from gpufairy.core.alert_hosts import HostTrends
from gpufairy.core.alert_house import judgements
from gpufairy.core.alert_look import AlertLook, HostLook
from gpufairy.core.host_reading import HostReading, MountReading
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading

GIB = 2**30


def a_reading(uuid: str = "GPU-0", at: datetime = NOW, **fields: object) -> GpuReading:
    sound = {
        "utilisation": 0.5, "power_w": 200.0, "power_limit_w": 400.0, "temperature_c": 60.0, "slowdown_c": 92.0, "fan": None, "throttled_by": (),
        "ecc_corrected": 0, "ecc_uncorrected": 0, "remap_pending": False, "remap_failed": False,
    }  # fmt: skip
    return GpuReading(uuid, at, **{**sound, **fields})


def a_host_reading(at: datetime = NOW, *, left: float = 0.8, mounts: tuple[MountReading, ...] | None = None, **fields: object) -> HostReading:
    disk = MountReading("/", "/dev/sda1", "ext4", 1000 * GIB, 500 * GIB, 1_000_000, 900_000)
    return HostReading(
        at, cpus=8, memory_total_bytes=100 * GIB, memory_available_bytes=int(left * 100 * GIB), up_s=86400.0,
        mounts=(disk,) if mounts is None else mounts, **{"temperatures_c": (("cpu", 50.0),), **fields},
    )  # fmt: skip


def a_host_sample(node: str = "gpu01", at: datetime = NOW, *readings: GpuReading, host: HostReading | None = None, **fields: object) -> NodeSample:
    readings = readings or (a_reading(at=at),)
    devices = tuple(GpuDevice(one.uuid, str(index), index, "A100-40GB", 40 * GIB) for index, one in enumerate(readings))
    return NodeSample(node, at, 5.0, host or a_host_reading(at), devices, readings, driver="580.1", **fields)


def seen(sample: NodeSample | None = None, *, silent: bool = False, node: str = "gpu01", **fields: object) -> HostLook:
    return HostLook(node if sample is None else sample.node, sample, silent, **fields)


def found(look: AlertLook, trends: HostTrends | None = None, ecc: EccCounts | None = None) -> dict[str, Judgement]:
    return {one.rule: one for one in judgements(look, trends or HostTrends(), ecc or EccCounts())}


def bad_words(judged: dict[str, Judgement]) -> dict[str, list[str]]:
    """Only the rules that found something: their sentences."""
    return {rule: [condition.sentence for condition in one.bad.values()] for rule, one in judged.items() if one.bad}


def at(reading: HostReading) -> NodeSample:
    return replace(a_host_sample(at=reading.at), host=reading)
