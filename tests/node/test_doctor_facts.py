"""What the doctor finds on a machine: made-up file systems, a fake driver that answers, fails and hangs, and this very machine."""
import gzip
import json
import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench.ports import free_port

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess
from gpufairy.core.doctor_facts import Base, Nvml, PortState
from gpufairy.devices.mps_folder import pipe_folder
from gpufairy.devices.mps_note import MpsNote, write_note
from gpufairy.node import doctor_ask
from gpufairy.node.doctor_ask import page, said
from gpufairy.node.doctor_data import data_facts, mount_of
from gpufairy.node.doctor_engine import cgroups, engine_facts, mended
from gpufairy.node.doctor_gpus import gpu_facts, mps_facts
from gpufairy.node.doctor_host import clock_synced, hidepid, host_facts, port_state, resolves, strange_pids
from gpufairy.node.doctor_watch import asked_collectors, prometheus_facts, textfile_facts
from prometheus import prometheus
from waits import until

NOBODY = 4_000_000  # no process has it: PIDs end at 2^22


@contextmanager
def serving(pages: dict[str, tuple[int, str]]) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = pages.get(self.path, (404, "no such page"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    made = FakeNvml(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_gpus_are_told_with_their_modes_instances_and_pids(fake: FakeNvml, tmp_path: Path):
    cut = FakeGpu(mig=True, instances=(FakeInstance(1, profile="1g.5gb", processes=(FakeProcess(os.getpid()),)),))
    fake.write(FakeMachine((FakeGpu(processes=(FakeProcess(NOBODY),)), cut), driver="535.104.05"))
    found = gpu_facts(tmp_path)
    assert (found.nvml, found.driver, [gpu.mig for gpu in found.gpus]) == (Nvml.ANSWERED, "535.104.05", [False, True])
    assert (found.gpus[0].pids, found.gpus[0].compute_mode, found.gpus[0].persistent) == ((NOBODY,), 0, True)
    assert len(found.gpus[1].instances) == 1
    assert found.gpus[1].instances[0].startswith("MIG-")
    assert strange_pids([pid for gpu in found.gpus for pid in gpu.pids]) == 1


@pytest.mark.slow
def test_a_driver_that_hangs_costs_the_limit_and_is_told(fake: FakeNvml, tmp_path: Path):
    fake.write(FakeMachine((FakeGpu(),), hang=("nvmlDeviceGetUUID",)))
    began = time.monotonic()
    found = gpu_facts(tmp_path, limit_s=1.0)
    assert (found.nvml, found.nvml_trouble) == (Nvml.HUNG, "no answer within 1 s")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("code", "words"), [(9, "Driver Not Loaded"), (18, "version mismatch")])
def test_a_driver_that_fails_is_told_in_its_own_words(fake: FakeNvml, tmp_path: Path, code: int, words: str):
    fake.write(FakeMachine((FakeGpu(),), init_fails=code))
    found = gpu_facts(tmp_path)
    assert found.nvml is Nvml.FAILED
    assert words in found.nvml_trouble


def test_a_lost_gpu_is_told_beside_the_others(fake: FakeNvml, tmp_path: Path):
    fake.write(FakeMachine((FakeGpu(), FakeGpu(lost=True))))
    assert [bool(gpu.lost) for gpu in gpu_facts(tmp_path).gpus] == [False, True]


def test_bus_module_and_nouveau_are_read_from_the_kernel(tmp_path: Path):
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
    root = write(tmp_path, {
        "sys/bus/pci/devices/0000:07:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:07:00.0/class": "0x030200\n",
        "sys/bus/pci/devices/0000:08:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:08:00.0/class": "0x068000\n",
        "proc/modules": "nvidia 1 0\n", "proc/driver/nvidia/version": version, "sys/module/nouveau/version": "", "dev/nvidia-caps/nvidia-cap1": "",
        "dev/char/195:0": "", ".dockerenv": "",
    })  # fmt: skip
    found = gpu_facts(root)
    assert (found.on_bus, found.module, found.nouveau, found.caps) == (1, "580.95.05", True, 1)
    assert (found.char_links, found.in_container) == (True, True)
    older = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n"
    assert gpu_facts(write(tmp_path, {"proc/driver/nvidia/version": older})).module == "535.104.05"


def test_this_machine_answers_in_time_whatever_it_has():
    began = time.monotonic()
    found = gpu_facts()
    assert found.on_bus is not None or found.nvml is not Nvml.NOT_ASKED
    host = host_facts("", lambda: (None, None))
    assert (host.python, host.uid) == ((sys.version_info.major, sys.version_info.minor), os.geteuid())
    assert engine_facts(["/nowhere/docker.sock"]).cgroups in (1, 2)
    assert time.monotonic() - began < 20


def test_pipes_of_a_daemon_that_is_gone_are_left_over_and_a_former_mode_is_seen(tmp_path: Path):
    folder = tmp_path / "mps"
    for gpu in ("GPU-a", "GPU-b"):
        (folder / gpu).mkdir(parents=True)
        write_note(folder / gpu, MpsNote(gpu, NOBODY, 1))
    pipe = pipe_folder(folder, "GPU-a")
    pipe.mkdir(parents=True)
    (pipe / "control").touch()
    (folder / "GPU-b" / "former_compute_mode").write_text("0")
    found = mps_facts(tmp_path)
    assert (found.live, found.left_over, found.exclusive_kept) == ((), ("GPU-a",), ("GPU-b",))


def test_a_socket_that_nobody_serves_or_may_open_is_no_engine(tmp_path: Path):
    found = engine_facts([str(tmp_path / "none.sock")])
    assert (found.name, found.trouble) == ("", "")


def test_a_daemon_that_never_answers_does_not_hold_up_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor_ask, "PAGE_S", 0.2)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        began = time.monotonic()
        assert engine_facts([str(tmp_path / "mute.sock")]).name == ""
        assert time.monotonic() - began < 5


@pytest.mark.system
@pytest.mark.slow
def test_a_real_docker_tells_of_itself(docker_daemon):
    found = engine_facts([str(docker_daemon.socket)])
    assert (found.name, found.socket) == ("docker", str(docker_daemon.socket))
    assert found.version[:1].isdecimal()
    assert found.cgroup_driver in ("cgroupfs", "systemd")
    assert found.live_restore is False
    assert found.runc, "its own runc is told"


@pytest.mark.system
@pytest.mark.slow
def test_a_real_podman_is_told_from_docker(podman_daemon):
    found = engine_facts([str(podman_daemon.socket)])
    assert (found.name, found.cdi_on) == ("podman", None)


def test_toolkit_and_cdi_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program(tmp_path / "bin", "nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.16.1'; echo 'commit: 1234567'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "GPU-a"}]}
    write(tmp_path / "cdi", {"nvidia.json": json.dumps(spec), "other.json": json.dumps({"kind": "intel.com/gpu", "devices": [{"name": "0"}]})})
    found = engine_facts([], cdi_folders=[tmp_path / "cdi"])
    assert (found.toolkit, found.cdi_names) == ("1.16.1", frozenset({"0", "GPU-a"}))
    assert found.cdi_files == (str(tmp_path / "cdi" / "nvidia.json"),)


def test_what_a_distribution_mended_is_read_in_the_changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program(tmp_path / "bin", "dpkg-query", "echo 'runc: /usr/sbin/runc'")
    program(tmp_path / "bin", "runc", "echo 'runc version 1.1.5'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    changelog = tmp_path / "usr/share/doc/runc/changelog.Debian.gz"
    changelog.parent.mkdir(parents=True)
    changelog.write_bytes(gzip.compress(b"runc (1.1.5+ds1-1+deb12u1)\n  * Backport fixes for CVE-2024-21626\n"))
    assert mended("runc", tmp_path) == {"CVE-2024-21626"}
    changelog.write_bytes(b"no gzip")
    assert mended("runc", tmp_path) == frozenset()


def test_on_rpm_systems_the_changelog_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program(tmp_path / "bin", "dpkg-query", "exit 1")
    program(tmp_path / "bin", "rpm", "echo '- fix CVE-2025-31133'")
    program(tmp_path / "bin", "runc", "true")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert mended("runc", tmp_path) == {"CVE-2025-31133"}


def test_a_program_that_hangs_or_is_not_there_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program(tmp_path / "bin", "stuck", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert said("stuck", limit_s=0.2) is None
    assert said("no-such-program") is None


def test_both_kinds_of_cgroups_are_known(tmp_path: Path):
    assert cgroups(write(tmp_path / "two", {"sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n"})) == (2, {"cpu", "memory", "pids"})
    table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t2\t1\t0\npids\t3\t1\t1\n"
    assert cgroups(write(tmp_path / "one", {"proc/cgroups": table, "sys/fs/cgroup/cpu,cpuacct/x": "", "sys/fs/cgroup/pids/x": ""})) == (1, {"cpu", "pids"})
    assert cgroups(tmp_path / "none") == (None, None)


def test_a_data_folder_is_looked_at_with_its_keys_and_its_room(tmp_path: Path):
    data = write(tmp_path / "data", {"ssh/host_ed25519": "key", "ssh/host_rsa": "key"})
    (data / "ssh" / "host_rsa").chmod(0o600)
    (data / "ssh" / "host_ed25519").chmod(0o644)
    data.chmod(0o755)
    found = data_facts(data, store="", config_folder=tmp_path)
    assert (found.there, found.mode, found.owner, found.host_keys) == (True, 0o755, os.geteuid(), 2)
    assert found.free_bytes
    assert found.file_system
    assert found.base is Base.ABSENT
    shut = any(not folder.stat().st_mode & 0o001 for folder in data.parents)
    assert found.open_files == (() if shut else (str(data / "ssh" / "host_ed25519"),)), "what lies in a shut folder is read by nobody"


def test_a_data_folder_that_is_not_there_yet_is_told_by_where_it_would_be(tmp_path: Path):
    found = data_facts(tmp_path / "a" / "b", store="postgresql://x", config_folder=tmp_path)
    assert (found.there, found.parent_writable, found.base, found.open_files) == (False, True, Base.ELSEWHERE, ())


def a_base(path: Path) -> Path:
    made = sqlite3.connect(path)
    made.execute("pragma journal_mode=wal")
    made.execute("create table t (x text)")
    made.executemany("insert into t values (?)", [("word" * 200,)] * 500)
    made.commit()
    made.execute("pragma wal_checkpoint(truncate)")
    made.close()
    return path


def test_a_database_is_read_beside_who_writes_it_and_damage_is_seen(tmp_path: Path):
    path = a_base(tmp_path / "fairy.db")
    writer = sqlite3.connect(path)
    writer.execute("begin immediate")
    assert data_facts(tmp_path, store="", config_folder=tmp_path).base is Base.SOUND
    writer.rollback()
    writer.close()
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 4)
    found = data_facts(tmp_path, store="", config_folder=tmp_path)
    assert found.base is Base.DAMAGED
    assert found.base_words


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path):
    (tmp_path / "fairy.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
    assert data_facts(tmp_path, store="", config_folder=tmp_path).base is Base.DAMAGED


def test_the_share_library_is_loaded_in_a_process_of_its_own(tmp_path: Path):
    folder = tmp_path / "tools" / "native-1"
    folder.mkdir(parents=True)
    (folder / "libfairyshare.so").write_bytes(b"\x7fELF, and no more of it")
    found = data_facts(tmp_path, store="", config_folder=tmp_path)
    assert found.share_library is False
    assert found.share_trouble


MOUNTS = "sysfs /sys sysfs rw 0 0\n/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sdb1 /srv xfs rw,prjquota 0 0\n/dev/sdc1 /srv/my\\040data btrfs rw 0 0\n"


@pytest.mark.parametrize(("path", "kind", "place"), [("/srv/fairy", "xfs", "/srv"), ("/home/x", "ext4", "/"), ("/srv/my data/y", "btrfs", "/srv/my data"), ("/srvx", "ext4", "/")])
def test_a_path_lies_on_the_file_system_whose_place_is_the_longest(path: str, kind: str, place: str):
    found = mount_of(Path(path), MOUNTS)
    assert found[:2] == (kind, place)


@pytest.mark.parametrize(("options", "found"), [("rw,hidepid=2", "2"), ("rw,hidepid=invisible,gid=5", "invisible"), ("rw,hidepid=0", ""), ("rw", ""), ("rw,hidepid=off", "")])
def test_hidden_processes_are_seen_in_the_options_of_proc(options: str, found: str):
    assert hidepid(f"proc /proc proc {options} 0 0\nproc /srv/proc proc rw,hidepid=2 0 0\n") == found


def test_a_port_is_free_ours_or_taken_by_somebody():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        taken = port_state("127.0.0.1", port, asked=True, ours=False, taken_by=lambda _: " by python (process 9)")
        assert (taken.state, taken.by, taken.asked) == (PortState.TAKEN, "python (process 9)", True)
        assert port_state("127.0.0.1", port, asked=False, ours=True, taken_by=str).state is PortState.OURS
    assert port_state("127.0.0.1", port, asked=False, ours=False, taken_by=str).state is PortState.FREE


def test_names_and_clock_are_asked_without_changing_anything():
    assert resolves("localhost")
    assert not resolves("no-such-host.invalid")
    assert not resolves("x" * 300)
    assert clock_synced() in (True, False, None)


PAGE = 'fairy_collector_success{collector="gpu"} 1\nfairy_collector_success{node="a",collector="pods"} 0\ngpu_total_sessions 3\n'


def test_a_collector_tells_what_it_could_not_read(tmp_path: Path):
    with serving({"/metrics": (200, PAGE), "/late": (503, "nothing was collected yet")}) as url:
        found = asked_collectors([f"{url}/late", f"{url}/metrics"])
        assert (found.status, found.collectors) == (200, (("gpu", True), ("pods", False)))
        late = asked_collectors(["http://127.0.0.1:1/metrics", f"{url}/late"])
        assert (late.status, late.words) == (503, "nothing was collected yet")
    assert asked_collectors(["http://127.0.0.1:1/metrics"]).status is None


def test_the_folder_with_our_file_is_the_one_that_counts(tmp_path: Path):
    other, ours = tmp_path / "a", tmp_path / "b"
    for folder in (other, ours):
        folder.mkdir()
    (ours / "gpu_sessions.prom").touch()
    os.utime(ours / "gpu_sessions.prom", (time.time() - 3600,) * 2)
    found = textfile_facts(asked_collectors(["http://127.0.0.1:1/"]), [str(tmp_path / "none"), str(other), str(ours)])
    assert found.folder == str(ours)
    assert found.file_age is not None
    assert abs(found.file_age - timedelta(hours=1)) < timedelta(minutes=1)


def targets(*rows: dict[str, object]) -> dict[str, tuple[int, str]]:
    return {"/api/v1/targets?state=active": (200, json.dumps({"status": "success", "data": {"activeTargets": rows}}))}


@pytest.mark.parametrize(("rows", "scraped", "trouble"), [
    ([{"labels": {"job": "node"}, "scrapeUrl": "http://a:9100/metrics", "health": "up"}], False, ""),
    ([{"labels": {"job": "fairy"}, "scrapeUrl": "http://a:8420/metrics", "health": "up"}], True, ""),
    ([{"labels": {"job": "x"}, "scrapeUrl": "http://a:9835/metrics", "health": "down", "lastError": "refused"}], True, "http://a:9835/metrics: refused"),
])  # fmt: skip
def test_prometheus_tells_whether_it_fetches_ours(rows, scraped: bool, trouble: str):
    with serving(targets(*rows)) as url:
        found = prometheus_facts(asked_collectors(["http://127.0.0.1:1/"]), url)
    assert (found.prometheus_answers, found.scraped, found.scrape_trouble) == (True, scraped, trouble)


@pytest.mark.system
@pytest.mark.slow
def test_a_real_prometheus_tells_whom_it_cannot_fetch_from(tmp_path: Path):
    nobody = asked_collectors(["http://127.0.0.1:1/"])
    with prometheus(tmp_path, {"fairy": "127.0.0.1:1", "own": f"127.0.0.1:{free_port()}"}) as real:
        down = until(lambda: prometheus_facts(nobody, real.url).scrape_trouble, "Prometheus to try")
        assert down.startswith("http://127.0.0.1:1/metrics: ")
        assert "refused" in down
    assert prometheus_facts(nobody, real.url).prometheus_answers is False


def test_a_page_that_never_ends_or_is_no_prometheus_says_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor_ask, "PAGE_S", 0.2)
    with serving({"/api/v1/targets?state=active": (200, "[1, 2")}) as url:
        assert prometheus_facts(asked_collectors(["http://127.0.0.1:1/"]), url).scraped is None
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        assert page(f"http://127.0.0.1:{mute.getsockname()[1]}/") is None
        assert time.monotonic() - began < 5
