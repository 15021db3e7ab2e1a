"""Alerts: one look over 500 hosts of 4 GPUs each, quiet and in a storm, and what is written and told of a storm."""
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bench.figures import Figure, Report
from gpufairy.core.alert import Alert, Judged, Key, judge
from gpufairy.core.alert_gpus import EccCounts
from gpufairy.core.alert_hosts import HostTrends
from gpufairy.core.alert_house import judgements
from gpufairy.core.alert_look import AlertLook, HostLook
from gpufairy.core.alert_rules import RULES
from gpufairy.core.alert_tell import Channel, tell
from gpufairy.core.host_reading import HostReading, MountReading
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading

NOW = datetime(2026, 11, 15, tzinfo=UTC)
HOSTS, GPUS, MOUNTS, LOOKS = 500, 4, 6, 40
GIB = 2**30
GOAL_MS = 100.0
CHANNELS = tuple(Channel(name, "webhook") for name in ("ops", "second", "third"))


def measure() -> Report:
    lab = Lab()
    quiet_ms = [lab.look(place, storm=False) for place in range(LOOKS)]
    storm_ms = [lab.look(LOOKS + place, storm=True) for place in range(LOOKS)]
    return Report(
        "alerts",
        [
            Figure("a look over 500 hosts of 4 GPUs, all well (median of CPU)", median(quiet_ms), "ms", GOAL_MS, higher_is_better=False),
            Figure("the same, the most of 40", max(quiet_ms), "ms", GOAL_MS, higher_is_better=False),
            Figure("the same, every GPU too hot and every disk full (median)", median(storm_ms), "ms"),
            Figure("alerts that fire in that storm", float(len(lab.alerts)), "alerts"),
            Figure(
                "of them told to each of 3 channels at once, at most",
                float(lab.most_told) / len(CHANNELS),
                "items",
                201.0,
                higher_is_better=False,
            ),
        ],
    )


class Lab:
    def __init__(self) -> None:
        self.alerts: dict[Key, Alert] = {}
        self.most_told = 0
        self._trends, self._ecc = HostTrends(), EccCounts()

    def look(self, place: int, storm: bool) -> float:
        """Milliseconds of CPU, without the making of what is looked at."""
        now = NOW + timedelta(seconds=5 * place)
        hosts = tuple(host(number, now, storm) for number in range(HOSTS))
        began = time.thread_time()
        found = judgements(AlertLook(now, hosts, version="0.1.0"), self._trends, self._ecc)
        judged: Judged = judge(self.alerts, found, RULES, now, {one.node for one in hosts})
        told = tell(judged.alerts.values(), judged.resolved, CHANNELS, (), now, repeat=None)
        self.alerts = {**judged.alerts, **{one.key: one for one in told.alerts}}
        took_ms = 1000 * (time.thread_time() - began)
        self.most_told = max(self.most_told, len(told.posts))
        return took_ms


def host(number: int, now: datetime, storm: bool) -> HostLook:
    name = f"gpu{number:03}"
    left = 0.01 if storm else 0.3
    mounts = tuple(
        MountReading(f"/data{one}", f"/dev/sd{one}", "ext4", 1000 * GIB, int(1000 * GIB * left), 10**6, 9 * 10**5) for one in range(MOUNTS)
    )
    reading = HostReading(
        now,
        cpus=64,
        memory_total_bytes=512 * GIB,
        memory_available_bytes=(300 - number % 7) * GIB,
        mounts=mounts,
        temperatures_c=(("cpu", 55.0),),
    )
    devices = tuple(GpuDevice(f"GPU-{name}-{gpu}", str(gpu), gpu, "A100-40GB", 40 * GIB) for gpu in range(GPUS))
    sound = GpuReading(
        "", now, utilisation=0.7, power_w=300.0, power_limit_w=400.0, temperature_c=95.0 if storm else 61.0, slowdown_c=92.0,
        throttled_by=(), ecc_corrected=0, ecc_uncorrected=0, remap_pending=False, remap_failed=False,
    )  # fmt: skip
    readings = tuple(replace(sound, uuid=device.uuid) for device in devices)
    return HostLook(name, NodeSample(name, now, 5.0, reading, devices, readings, driver="580"), False, now, "0.1.0", True)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
