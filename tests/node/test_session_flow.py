"""What a session moves from and to disks and the network, and how long it waits: of real processes, and of cgroups as kernels write them."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from container_scene import by_hand, pid_of
from test_session_use import running

from gpufairy.core.mean_sample import mean_sample
from gpufairy.core.node_sample import NodeSample, SessionReading
from gpufairy.node.cgroup_use import io_of
from gpufairy.node.session_flow import SessionFlows, by_process, is_blocked, network_of
from gpufairy.node.session_use import SessionUse
from waits import until

A = "a" * 64
V2 = f"0::/system.slice/docker-{A}.scope\n"
V1 = f"5:blkio:/docker/{A}\n4:memory:/docker/{A}\n"
READS = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED); os.lseek(file, 0, 0)
    while os.read(file, 1 << 20): pass
"""


def test_a_plain_process_that_reads_is_seen_to_and_has_no_network_of_its_own(tmp_path):
    large = Path(os.environ.get("FAIRY_TEST_DISK", tmp_path)) / "large"
    large.write_bytes(os.urandom(8 << 20))
    os.sync()
    process = subprocess.Popen([sys.executable, "-c", READS, str(large)])
    try:
        flows = SessionFlows()
        flows.read({"s": [process.pid]}, {})
        if not until(lambda: by_process([process.pid])[0], "its counters"):
            pytest.skip("this kernel counts no bytes of processes")
        seen = until(lambda: (flow := flows.read({"s": [process.pid]}, {})["s"]).read_bytes_per_s and flow, "bytes to be read from the disk")
    finally:
        process.kill()
        process.wait()
    assert seen.read_bytes_per_s > 0
    assert seen.received_bytes_per_s is None
    assert 0 <= seen.io_waited <= 1


def test_the_first_look_knows_no_rates():
    with running("import time; time.sleep(60)") as [process]:
        flow = SessionFlows().read({"s": [process.pid]}, {})["s"]
    assert (flow.read_bytes_per_s, flow.written_bytes_per_s, flow.received_bytes_per_s) == (None, None, None)
    assert flow.io_waited in (0.0, 1.0, None)


def test_a_process_that_is_gone_says_nothing():
    process = subprocess.Popen(["true"])
    process.wait()
    assert by_process([process.pid]) == ({}, {})
    assert is_blocked([process.pid]) is None
    assert network_of(process.pid) is None


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_container_by_version_2_with_the_time_it_waited(tmp_path):
    folder = f"system.slice/docker-{A}.scope"
    pressure = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    root = written(tmp_path, {f"{folder}/io.stat": "8:0 rbytes=100 wbytes=20 rios=3 wios=4\n8:16 rbytes=1 wbytes=2\n", f"{folder}/io.pressure": pressure})
    found = io_of(V2, A, root)
    assert (found.read_bytes, found.written_bytes, found.waited_s) == (101, 22, 2.5)


def test_a_container_by_version_1_which_tells_no_waiting(tmp_path):
    root = written(tmp_path, {f"blkio/docker/{A}/blkio.throttle.io_service_bytes": "8:0 Read 70\n8:0 Write 5\n8:0 Total 75\nTotal 75\n"})
    found = io_of(V1, A, root)
    assert (found.read_bytes, found.written_bytes, found.waited_s) == (70, 5, None)


@pytest.mark.parametrize("text", ["", "8:0", "8:0 rbytes= wbytes=x", "\0\n=\n"])
def test_what_is_no_counter_is_not_known(tmp_path, text):
    assert io_of(V2, A, written(tmp_path, {f"system.slice/docker-{A}.scope/io.stat": text})).read_bytes is None


def test_a_report_has_the_means_of_what_flows():
    from_looks = [SessionReading("s", 1.0, 100, None, 10.0, io_waited=1.0), SessionReading("s", 3.0, 200, None, None, io_waited=0.0)]
    samples = [NodeSample("here", None, 1.0, sessions=(reading,)) for reading in from_looks]
    (mean,) = mean_sample(samples).sessions
    assert (mean.cpus, mean.memory_bytes, mean.read_bytes_per_s, mean.io_waited) == (2.0, 200, 10.0, 0.5)


WRITES = "while :; do dd if=/dev/zero of=/tmp/large bs=1M count=4 conv=fsync 2>/dev/null; done"


@pytest.mark.system
def test_a_container_has_a_network_and_disks_of_its_own(docker_daemon):
    with by_hand(docker_daemon, "writes", None, "sh", "-c", WRITES) as container:
        use, pid = SessionUse(), pid_of(docker_daemon, container)
        use.read({"s": [pid]})
        seen = until(lambda: (flow := use.read({"s": [pid]})[0]).written_bytes_per_s and flow, "bytes to be written")
    assert seen.written_bytes_per_s > 0
    assert seen.received_bytes_per_s is not None
    assert 0 <= seen.io_waited <= 1
