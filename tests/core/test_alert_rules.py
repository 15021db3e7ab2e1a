"""What rules find bad, what they find fine, and that they say nothing of what they do not know."""
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alert_scene import GIB, a_host_reading, a_host_sample, a_reading, at, bad_words, found, seen
from builders import NOW
from gpufairy.core.alert_gpus import EccCounts
from gpufairy.core.alert_hosts import HostTrends
from gpufairy.core.alert_look import AlertLook, Certificate, Leak, QueueLook, SeenXid
from gpufairy.core.alert_rules import RULES
from gpufairy.core.host_reading import HostReading, MountReading
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, LostGpu, Xid
from gpufairy.core.xid_table import XIDS, meaning_of


def look(*samples: NodeSample, **other: object) -> AlertLook:
    return AlertLook(NOW, tuple(seen(sample) for sample in samples), **other)


def test_a_sound_host_has_no_alert_and_is_known_to_be_fine():
    judged = found(look(a_host_sample()), ecc=EccCounts({"GPU-0": 0}, {"GPU-0": 0}))
    assert bad_words(judged) == {}
    assert "gpu01" in judged["memory_low"].fine
    assert all("gpu01 GPU 0" in judged[rule].fine for rule in ("gpu_hot", "gpu_throttled", "gpu_power", "gpu_ecc", "gpu_remap", "gpu_lost"))
    assert "gpu01 GPU 0 XID 79" in judged["gpu_xid"].fine


def test_every_rule_says_what_it_is_and_what_to_do():
    judged = found(look(a_host_sample()))
    assert judged.keys() == RULES.keys()
    for rule in RULES.values():
        assert rule.title, rule.id
        assert rule.what, rule.id
        assert rule.todo.endswith("."), rule.id


@pytest.mark.parametrize(
    ("rule", "words", "reading"),
    [
        ("gpu_hot", "gpu01 GPU 0 has 91 °C (bad from 90 °C)", {"temperature_c": 91.0}),
        ("gpu_hot", "gpu01 GPU 0 has 60 °C (bad from 90 °C), its memory 106 °C", {"memory_temperature_c": 106.0}),
        ("gpu_throttled", "gpu01 GPU 0 is slowed down by hardware heat", {"throttled_by": ("power cap", "hardware heat")}),
        ("gpu_power", "gpu01 GPU 0 is braked by the machine for want of power", {"throttled_by": ("power brake",)}),
        ("gpu_power", "gpu01 GPU 0 draws 480 W, and may draw 400 W", {"power_w": 480.0}),
        ("gpu_fan", "gpu01 GPU 0 has 75 °C and its fan stands still", {"fan": 0.0, "temperature_c": 75.0}),
        ("gpu_remap", "gpu01 GPU 0 replaces a bad memory row at its next reset", {"remap_pending": True}),
        ("gpu_ecc", "gpu01 GPU 0 has no spare memory rows left", {"remap_failed": True}),
    ],
)
def test_a_bad_reading_of_a_gpu_is_told_in_words(rule, words, reading):
    assert bad_words(found(look(a_host_sample("gpu01", NOW, a_reading(**reading))))) == {rule: [words]}


def test_a_power_cap_alone_is_how_gpus_work():
    assert bad_words(found(look(a_host_sample("gpu01", NOW, a_reading(throttled_by=("power cap",)))))) == {}


def test_memory_errors_count_from_look_to_look_and_not_since_the_driver_was_loaded():
    ecc = EccCounts()
    first = found(look(a_host_sample("gpu01", NOW, a_reading(ecc_uncorrected=7))), ecc=ecc)
    assert bad_words(first) == {}
    assert "gpu01 GPU 0" in first["gpu_ecc"].fine, "by its spare rows; what it counted before is not news"
    assert bad_words(found(look(a_host_sample("gpu01", NOW, a_reading(ecc_uncorrected=9))), ecc=ecc)) == {"gpu_ecc": ["gpu01 GPU 0 had 2 memory errors beyond correction"]}
    assert bad_words(found(look(a_host_sample("gpu01", NOW, a_reading(ecc_uncorrected=0))), ecc=ecc)) == {}, "the driver was loaded anew"


@pytest.mark.parametrize("code", [*XIDS, 4242])
def test_an_xid_is_told_by_its_meaning_and_with_what_to_do(code):
    judged = found(look(a_host_sample(), xids=(SeenXid("gpu01", Xid("GPU-0", code, NOW)),)))["gpu_xid"]
    [condition] = judged.bad.values()
    assert condition.sentence == f"gpu01 GPU 0: XID {code}: {meaning_of(code).meaning}"
    assert (condition.severity, condition.todo) == (meaning_of(code).severity, meaning_of(code).todo)


def test_a_lost_gpu_and_a_hung_driver_are_told_of():
    lost = replace(a_host_sample(), lost=(LostGpu(1, "GPU-1", "it fell off the bus"),))
    assert bad_words(found(look(lost))) == {"gpu_lost": ["gpu01 GPU 1 is lost: it fell off the bus"]}
    hung = replace(a_host_sample(), gpus_known=False, trouble=("no answer for 10 s",))
    assert bad_words(found(look(hung))) == {"driver_hung": ["the GPU driver of gpu01 does not answer: no answer for 10 s"]}
    no_gpu = NodeSample("cpu01", NOW, 5.0, a_host_reading(), gpus_known=False)
    assert bad_words(found(look(no_gpu))) == {}, "what never had a driver has none to hang"


def test_who_is_on_a_gpu_outside_any_session_is_told_where_sessions_run_alone():
    owner = Owner("eve", KnownBy.ACCOUNT)
    process = ProcessReading(GpuProcess(7, "GPU-0"), RunningProcess(7, 1, 1000, "miner"), owner)
    sample = replace(a_host_sample(), processes=(process,))
    assert bad_words(found(look(sample))) == {}, "only watched: it is theirs"
    judged = found(AlertLook(NOW, (seen(sample, runs_sessions=True),)))
    assert bad_words(judged) == {"outsider": ["outside any session on gpu01 GPU 0: miner (PID 7) of eve"]}


def test_disks_and_inodes_that_are_nearly_full_are_told_of():
    full = MountReading("/data", "/dev/sdb1", "xfs", 1000 * GIB, 20 * GIB, 1000, 10)
    judged = found(look(at(a_host_reading(mounts=(full,)))))
    assert bad_words(judged) == {
        "disk_filling": ["/data on gpu01 has 20 GiB of 1000 GiB left"], "inodes_low": ["/data on gpu01 has 10 of 1000 inodes left"],
    }  # fmt: skip


def test_memory_that_falls_is_told_of_before_it_is_gone_and_by_when_it_would_be():
    trends, words = HostTrends(), {}
    for place in range(30):
        left = 0.9 - 0.025 * place  # of 100 GiB: 2.5 GiB each 5 s, so gone in three minutes from the start
        judged = found(AlertLook(NOW, (seen(at(a_host_reading(NOW + timedelta(seconds=5 * place), left=left))),)), trends)
        if judged["memory_low"].bad:
            words[place] = judged["memory_low"].bad["gpu01"].sentence
    first = min(words)
    assert 0.9 - 0.025 * first > 0.35, "long before the kernel has to kill"
    assert "GiB of 100 GiB memory left, and at this rate none in 1 min" in words[first]


def test_memory_that_falls_and_then_rests_is_no_trend():
    trends = HostTrends()
    for place in range(60):
        left = max(0.3, 0.9 - 0.05 * place)  # a program loads its data, and has it
        judged = found(AlertLook(NOW, (seen(at(a_host_reading(NOW + timedelta(seconds=5 * place), left=left))),)), trends)
    assert judged["memory_low"].bad == {}
    assert "gpu01" in judged["memory_low"].fine


def test_a_disk_that_will_be_full_tomorrow_is_told_of_today():
    trends = HostTrends()
    for minute in range(60):
        mount = MountReading("/", "/dev/sda1", "ext4", 1000 * GIB, int((300 - minute / 2) * GIB))
        judged = found(AlertLook(NOW + timedelta(minutes=minute), (seen(at(a_host_reading(mounts=(mount,)))),)), trends)
    assert "and at this rate none in 9 h" in judged["disk_filling"].bad["gpu01 /"].sentence


def test_a_silent_host_is_told_of_and_none_of_its_old_readings_counts():
    judged = found(AlertLook(NOW, (seen(a_host_sample("gpu01", NOW, a_reading(temperature_c=99.0)), silent=True, heard_at=NOW),)))
    assert bad_words(judged) == {"node_silent": [f"gpu01 is silent since {NOW:%Y-%m-%d %H:%M:%S} UTC"]}
    assert "gpu01" not in judged["memory_low"].fine


@pytest.mark.parametrize(("agent", "old"), [("0.0.9", True), ("0.1.0", False), ("0.2.0", False), ("", False), ("who knows", False)])
def test_an_agent_older_than_the_server_is_told_of(agent, old):
    judged = found(AlertLook(NOW, (seen(a_host_sample(), agent_version=agent),), version="0.1.0"))
    assert bool(judged["agent_old"].bad) is old


def test_certificates_backups_queue_and_leaks_are_told_of():
    day = timedelta(days=1)
    judged = found(
        AlertLook(
            NOW, certificates=(Certificate("a.pem", NOW + 3 * day), Certificate("b.pem", NOW + 90 * day), Certificate("c.pem", None, "no such file"), Certificate("d.pem", NOW - day)),
            last_backup=NOW - 3 * day, leaks=(Leak("box/abc", "box", "container abc has no seat", "It is removed by itself."),),
            queue=QueueLook(5, (("place", "disk full"),), NOW - timedelta(minutes=3), (("slow", "box", NOW - timedelta(hours=1)),)),
        )
    )
    words = bad_words(judged)
    assert words["certificate_ending"] == ["the certificate a.pem ends in 3 d", "the certificate c.pem cannot be read: no such file", "the certificate d.pem ended 1 d ago"]
    assert words["backup_old"] == ["the last good backup is 3 d old"]
    assert words["leak"] == ["container abc has no seat"]
    [stuck] = words["queue_stuck"]
    assert "the loop place fails: disk full" in stuck
    assert "session slow is starting on box for 1 h" in stuck
    assert stuck.endswith("; 5 sessions wait")


def test_no_backup_that_anybody_knows_of_says_nothing():
    judged = found(AlertLook(NOW))["backup_old"]
    assert (judged.bad, "backup" in judged.fine) == ({}, False)


HOST = {one.name for one in fields(HostReading)} - {"at", "mounts", "disks", "networks", "users", "temperatures_c"}
GPU = {one.name for one in fields(GpuReading)} - {"uuid", "at", "simulated", "processes_known"}


@given(st.sets(st.sampled_from(sorted(GPU))), st.sets(st.sampled_from(sorted(HOST))), st.booleans())
def test_nothing_fires_on_what_is_not_known(no_gpu, no_host, no_inodes):
    """Whatever readings are missing, of hosts and GPUs that are otherwise sound."""
    mount = MountReading("/", "/dev/sda1", "ext4", 1000 * GIB, 500 * GIB, None if no_inodes else 10, None if no_inodes else 9)
    host = replace(a_host_reading(mounts=(mount,)), **dict.fromkeys(no_host))
    gpu = replace(a_reading(), **dict.fromkeys(no_gpu))
    sample = NodeSample("gpu01", NOW, 5.0, host, (GpuDevice("GPU-0", "0", 0, "A100-40GB", None),), (gpu,))
    trends, ecc = HostTrends(), EccCounts()
    for place in range(8):
        moved = replace(sample, host=replace(host, at=NOW + timedelta(seconds=5 * place)))
        assert bad_words(found(look(moved), trends, ecc)) == {}


@given(st.sets(st.sampled_from(sorted(GPU)), min_size=1))
def test_what_is_not_known_is_not_fine_either(missing):
    sample = a_host_sample("gpu01", NOW, replace(a_reading(), **dict.fromkeys(GPU)))
    judged = found(look(sample))
    for rule in ("gpu_hot", "gpu_throttled", "gpu_power", "gpu_fan", "gpu_ecc", "gpu_remap"):
        assert "gpu01 GPU 0" not in judged[rule].fine, (rule, missing)
