"""A host's readings: this machine's own, and trees of files as other machines have them."""
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from container_scene import by_hand, pid_of

from daemons import RealDaemon
from gpufairy.core.host_reading import DiskReading, NetworkReading, Pressure, UserLoad
from gpufairy.node.cgroup_use import CgroupUse, use_of
from gpufairy.node.host import HostReader
from gpufairy.node.host_cpu import CpuMeter, CpuUse, pressure
from gpufairy.node.host_disks import DeviceCounters
from gpufairy.node.host_heat import Energy, EnergyMeter, Thermometer
from gpufairy.node.host_mounts import EVERY_S, Mounts, real_mounts
from gpufairy.node.host_users import UserLoads
from gpufairy.node.processes import cgroup_text
from waits import until

A = "a" * 64


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_this_machine_has_cpus_memory_a_disk_and_users():
    reader = HostReader()
    first = reader.read()
    assert (first.cpu_used, first.cores) == (None, ())
    second = until(lambda: (read := reader.read()).cores and read, "a tick of every CPU")
    assert second.cpus == len(second.cores) == os.cpu_count()
    assert all(0 <= used <= 1 for used in (second.cpu_used, *second.cores))
    assert 0 < second.memory_available_bytes <= second.memory_total_bytes
    assert second.up_s > 0
    assert second.load_1m >= 0
    assert sum(user.processes for user in second.users) > 1


def test_what_a_machine_does_not_tell_is_not_known(tmp_path: Path):
    (tmp_path / "proc").mkdir()
    read = HostReader(tmp_path).read()
    assert (read.cpus, read.cpu_used, read.memory_total_bytes, read.swap_used_bytes, read.energy_j, read.power_w, read.up_s, read.load_1m) == (None,) * 8
    assert (read.cpu_pressure, read.disks, read.mounts, read.networks, read.temperatures_c, read.users) == (Pressure(), (), (), (), (), ())


def test_cpu_use_is_what_was_used_between_two_looks(tmp_path: Path):
    meter = CpuMeter(str(tmp_path))
    write(tmp_path, "stat", "cpu 100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0 0 0\nintr 1\n")
    assert meter.read() == CpuUse(2, None, ())
    write(tmp_path, "stat", "cpu 130 0 120 930 20 0 0 0 0 0\ncpu0 80 0 70 400 0 0 0 0 0 0\ncpu1 50 0 50 480 20 0 0 0 0 0\nintr 1\n")
    assert meter.read() == CpuUse(2, 0.25, (1.0, 0.0))
    assert meter.read() == CpuUse(2, 0.25, (1.0, 0.0))


def test_a_cpu_that_is_switched_on_waits_for_its_second_look(tmp_path: Path):
    meter = CpuMeter(str(tmp_path))
    write(tmp_path, "stat", "cpu 0 0 0 100\ncpu0 0 0 0 100\n")
    meter.read()
    write(tmp_path, "stat", "cpu 50 0 0 150\ncpu0 50 0 0 150\ncpu1 9 0 0 9\n")
    assert meter.read() == CpuUse(2, 0.5, ())


def test_pressure_is_a_part_of_the_time(tmp_path: Path):
    write(tmp_path, "pressure/io", "some avg10=12.50 avg60=1.00 avg300=0.50 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    assert pressure(str(tmp_path), "io") == Pressure(0.125, 0.0)
    assert pressure(str(tmp_path), "cpu") == Pressure()


def test_disks_are_counted_once(tmp_path: Path):
    rows = {"sda": 2048, "sda1": 2048, "dm-0": 2048, "loop0": 4, "ram0": 4, "nvme0n1": 4096, "nvme0n1p1": 4096, "zram0": 8}
    write(tmp_path, "proc/diskstats", "".join(f"   8 0 {name} 1 2 {sectors} 3 4 5 {sectors * 2} 6 0 1500 9 0 0 0 0\n" for name, sectors in rows.items()) + "half a li")
    wanted = (DiskReading("sda", 2**20, 2**21, 1.5), DiskReading("nvme0n1", 2**21, 2**22, 1.5))
    assert DeviceCounters(str(tmp_path)).disks() == wanted
    for name in ("sda", "nvme0n1", "dm-0", "loop0"):
        (tmp_path / "sys/block" / name / "slaves").mkdir(parents=True)
    assert DeviceCounters(str(tmp_path)).disks() == wanted


def test_only_networks_that_lead_out_are_counted(tmp_path: Path):
    lines = "".join(f"{name}: {number} 0 0 0 0 0 0 0 {number * 2} 0 0 0 0 0 0 0\n" for number, name in enumerate(("lo", "eth0", "veth12", "docker0", "bond0", "br-1f"), 1))
    write(tmp_path, "proc/net/dev", "Inter-|   Receive  |  Transmit\n face |bytes packets\n" + lines)
    assert [one.device for one in DeviceCounters(str(tmp_path)).networks()] == ["eth0", "bond0"]
    (tmp_path / "sys/class/net/eth0/device").mkdir(parents=True)
    (tmp_path / "sys/class/net/bond0").mkdir()
    assert DeviceCounters(str(tmp_path)).networks() == (NetworkReading("eth0", 2, 4),)


MOUNTS = r"""proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
/dev/sda1 /var/lib/docker/btrfs ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0
filer:/home /home nfs4 rw 0 0
/dev/sdb /data\040sets xfs rw 0 0
nsfs /run/docker/netns/default nsfs rw 0 0
broken
"""


def test_file_systems_are_told_once_each_and_only_real_ones():
    assert [(mount.path, mount.kind) for mount in real_mounts(MOUNTS)] == [("/", "ext4"), ("/home", "nfs4"), ("/data sets", "xfs")]
    assert len(real_mounts("".join(f"d{number} /m{number} ext4 rw 0 0\n" for number in range(1000)))) == 64


def test_a_dead_file_server_is_dropped_named_and_asked_once(tmp_path: Path):
    write(tmp_path, "proc/self/mounts", MOUNTS)
    (tmp_path / "home").mkdir()
    (tmp_path / "data sets").mkdir()
    back, clock = threading.Event(), Time()

    def statvfs(path: str) -> os.statvfs_result:
        if path.endswith("/home"):
            back.wait(60)
        return os.statvfs(path)

    mounts, threads, began = Mounts(str(tmp_path), clock, statvfs), threading.active_count(), time.monotonic()
    until(lambda: len(mounts.read()) == 2, "those that live")
    for _ in range(10):
        assert [one.path for one in mounts.read()] == ["/", "/data sets"]
        assert mounts.trouble == ("/home (nfs4 from filer:/home) gives no answer",)
        clock.now_s += EVERY_S
    assert threading.active_count() == threads + 1
    assert time.monotonic() - began < 2
    back.set()
    until(lambda: [one.path for one in mounts.read()] == ["/", "/home", "/data sets"], "the file server")
    assert mounts.trouble == ()


def test_a_file_server_that_dies_later_is_dropped_after_one_round(tmp_path: Path):
    write(tmp_path, "proc/self/mounts", "filer:/home / nfs4 rw 0 0\n")
    alive, clock = threading.Event(), Time()
    alive.set()
    mounts = Mounts(str(tmp_path), clock, lambda path: (alive.wait(60), os.statvfs(path))[1])
    until(mounts.read, "the first answer")
    alive.clear()
    clock.now_s += EVERY_S
    assert len(mounts.read()) == 1
    clock.now_s += EVERY_S
    assert mounts.read() == ()
    assert len(mounts.trouble) == 1
    alive.set()
    until(mounts.read, "the file server")


def test_sixty_file_systems_are_all_asked_at_once(tmp_path: Path):
    write(tmp_path, "proc/self/mounts", "".join(f"d{number} /m{number} ext4 rw 0 0\n" for number in range(60)))
    for number in range(60):
        (tmp_path / f"m{number}").mkdir()
    mounts = Mounts(str(tmp_path), Time())
    until(lambda: len(mounts.read()) == 60, "all of them")


def test_temperatures_are_told_by_sensor(tmp_path: Path):
    chip = "sys/class/hwmon/hwmon2"
    for name, text in {"name": "coretemp\n", "temp1_label": "Package id 0\n", "temp1_input": "45000\n", "temp2_label": "Core 0\n", "temp2_input": "44000\n", "temp3_input": "-273000\n", "temp4_input": "junk\n"}.items():
        write(tmp_path, f"{chip}/{name}", text)
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "30000\n")
    assert Thermometer(str(tmp_path)).read() == (("coretemp/Package id 0 hwmon2", 45.0),)


def test_a_machine_without_chips_has_zones(tmp_path: Path):
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "30500\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
    (tmp_path / "sys/class/thermal/cooling_device0").mkdir()
    assert Thermometer(str(tmp_path)).read() == (("x86_pkg_temp thermal_zone0", 30.5),)


def test_a_stuck_sensor_holds_nobody_up(tmp_path: Path):
    """A FIFO without a writer waits as a stuck disk does."""
    (tmp_path / "sys/class/hwmon/hwmon0").mkdir(parents=True)
    os.mkfifo(tmp_path / "sys/class/hwmon/hwmon0/name")
    write(tmp_path, "sys/class/hwmon/hwmon0/temp1_input", "45000\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/name", "nvme\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/temp1_input", "50000\n")
    clock = Time()
    read, threads = Thermometer(str(tmp_path), clock).read, threading.active_count()
    for _ in range(5):
        until(lambda: read() == (("nvme/temp1 hwmon1", 50.0),), "the other sensor")
        clock.now_s += EVERY_S
    until(lambda: threading.active_count() == threads + 1, "one thread")
    (tmp_path / "sys/class/hwmon/hwmon0/name").write_text("late\n")
    until(lambda: len(read()) == 2, "the late one")


def test_energy_is_summed_over_packages_and_past_their_wrap(tmp_path: Path):
    clock, folder = Time(), "sys/class/powercap"
    for name, kind in (("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1"), ("intel-rapl:0:0", "core"), ("intel-rapl:2", "psys"), ("intel-rapl-mmio:0", "package-0")):
        write(tmp_path, f"{folder}/{name}/name", f"{kind}\n")
        write(tmp_path, f"{folder}/{name}/max_energy_range_uj", "1000000000\n")
        write(tmp_path, f"{folder}/{name}/energy_uj", "900000000\n")
    meter = EnergyMeter(str(tmp_path), clock)
    assert meter.read() == Energy(0.0, None)
    clock.now_s += 2
    write(tmp_path, f"{folder}/intel-rapl:0/energy_uj", "100000000\n")  # 200 J, over the wrap
    write(tmp_path, f"{folder}/intel-rapl:1/energy_uj", "950000000\n")  # 50 J
    assert meter.read() == Energy(250.0, 125.0)


def test_energy_that_only_root_may_read_is_not_known(tmp_path: Path):
    write(tmp_path, "sys/class/powercap/intel-rapl:0/name", "package-0\n")
    assert EnergyMeter(str(tmp_path)).read() == Energy()


def a_process(proc: Path, pid: int, *, parent: int = 1, start: int = 100, ticks: int = 0, pages: int = 1) -> None:
    write(proc, f"{pid}/stat", f"{pid} (a b) c) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 1000 {pages} 0\n")


def test_users_are_charged_for_what_their_processes_used_since_the_last_look(tmp_path: Path):
    clock, page = Time(), os.sysconf("SC_PAGE_SIZE")
    second = os.sysconf("SC_CLK_TCK")
    loads = UserLoads(str(tmp_path), lambda uid: "alice", clock)
    a_process(tmp_path, 10, ticks=100 * second, pages=3)
    a_process(tmp_path, 11, ticks=0, pages=4)
    a_process(tmp_path, 12, parent=2)
    assert loads.read() == (UserLoad("alice", 2, None, 7 * page),)
    clock.now_s += 10
    a_process(tmp_path, 10, ticks=105 * second, pages=3)
    a_process(tmp_path, 11, ticks=5 * second, start=200, pages=4)  # the number again, of another process
    assert loads.read() == (UserLoad("alice", 2, 1.0, 7 * page),)


def test_users_are_looked_at_each_few_seconds_only(tmp_path: Path):
    clock = Time()
    loads = UserLoads(str(tmp_path), str, clock)
    assert loads.read() == ()
    a_process(tmp_path, 10)
    clock.now_s += 1
    assert loads.read() == ()


def test_a_busy_process_of_this_machine_is_seen_as_its_users():
    loads = UserLoads("/proc", str, clock := Time())
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        loads.read()

        def used() -> float | None:
            clock.now_s += 10
            return next((one.cpus for one in loads.read() if one.user == str(os.geteuid())), None)

        until(used, "CPU time")
        busy.kill()


def test_a_container_is_measured_by_its_cgroup(tmp_path: Path):
    top = tmp_path / "sys/fs/cgroup"
    write(top, f"docker/{A}/cpu.stat", "usage_usec 2500000\nuser_usec 1\n")
    write(top, f"docker/{A}/memory.current", "1000\n")
    write(top, f"docker/{A}/memory.stat", "anon 5\ninactive_file 400\n")
    assert use_of(f"0::/docker/{A}/deeper", A, tmp_path) == CgroupUse(2.5, 600)
    write(top, f"cpu,cpuacct/x/{A}/cpuacct.usage", "3000000000\n")
    write(top, f"memory/x/{A}/memory.usage_in_bytes", "1000\n")
    assert use_of(f"4:memory:/x/{A}\n3:cpu,cpuacct:/x/{A}\n0::/", A, tmp_path) == CgroupUse(3.0, 1000)


def test_a_container_whose_cgroup_is_not_to_be_seen_is_not_known(tmp_path: Path):
    for text in ("", f"0::/../{A}", f"0::/docker/{A}", "0::/docker/" + "b" * 64):
        assert use_of(text, A, tmp_path) == CgroupUse()


@pytest.mark.system
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_real_container_is_measured(request: pytest.FixtureRequest, engine: str):
    daemon: RealDaemon = request.getfixturevalue(f"{engine}_daemon")
    with by_hand(daemon, "busy", None, "sh", "-c", "while :; do :; done") as made:
        text = cgroup_text(pid_of(daemon, made))
        before = use_of(text, made)
        assert before.memory_bytes
        until(lambda: use_of(text, made).cpu_s > before.cpu_s + 0.1, "CPU time")
