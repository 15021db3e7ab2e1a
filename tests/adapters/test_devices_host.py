"""CPUs and memory as affinity and cgroups leave them, read from folders made for the test."""
from pathlib import Path

import pytest

from gpufairy.devices.host import cpus_milli, memory_bytes

GIB = 2**30


def a_host(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    files = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n", "proc/self/cgroup": cgroup} | files
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_limits_all_of_it_is_ours(tmp_path: Path):
    host = a_host(tmp_path, "0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"})
    assert cpus_milli(host, affinity=8) == 8000
    assert memory_bytes(host) == 16 * GIB


def test_affinity_counts(tmp_path: Path):
    assert cpus_milli(a_host(tmp_path, "", {}), affinity=2) == 2000


def test_limits_of_a_second_version_cgroup_count(tmp_path: Path):
    host = a_host(tmp_path, "0::/a\n", {"sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/a/memory.max": f"{GIB}\n"})
    assert cpus_milli(host, affinity=8) == 1500
    assert memory_bytes(host) == GIB


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path):
    limits = {"sys/fs/cgroup/a/cpu.max": "50000 100000", "sys/fs/cgroup/a/b/cpu.max": "200000 100000"}
    assert cpus_milli(a_host(tmp_path, "0::/a/b\n", limits), affinity=8) == 500


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_limits_of_a_first_version_cgroup_count(tmp_path: Path, folder: str):
    host = a_host(
        tmp_path, "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n",
        {
            f"sys/fs/cgroup/{folder}/docker/x/cpu.cfs_quota_us": "250000\n",
            f"sys/fs/cgroup/{folder}/docker/x/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": f"{2 * GIB}\n",
        },
    )  # fmt: skip
    assert cpus_milli(host, affinity=8) == 2500
    assert memory_bytes(host) == 2 * GIB


def test_in_a_container_that_names_the_hosts_path_the_top_folder_is_our_own(tmp_path: Path):
    host = a_host(tmp_path, "4:memory:/docker/not-here\n", {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"})
    assert memory_bytes(host) == GIB


def test_no_limit_of_the_first_version_is_no_limit(tmp_path: Path):
    host = a_host(
        tmp_path, "4:memory:/\n1:cpu:/\n",
        {
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )  # fmt: skip
    assert cpus_milli(host, affinity=4) == 4000
    assert memory_bytes(host) == 16 * GIB


def test_this_machine_has_something():
    assert cpus_milli() >= 1
    assert memory_bytes() > 0
