"""What the doctor says of what was found: bad where something is, with lines that are right for the distribution; nothing where nobody could look."""
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.doctor import Finding, Verdict, path_of
from gpufairy.core.doctor import bad as bad_
from gpufairy.core.doctor import ok as ok_
from gpufairy.core.doctor import warn as warn_
from gpufairy.core.doctor_checks import CHECKS, GUIDES, checked_names, look
from gpufairy.core.doctor_facts import (
    Base,
    DataFacts,
    EngineFacts,
    Facts,
    GpuFact,
    GpuFacts,
    HostFacts,
    Kube,
    KubeFacts,
    MetricsFacts,
    MpsFacts,
    Nvml,
    PortFact,
    PortState,
    Right,
)
from gpufairy.core.doctor_kube import needed_rights
from gpufairy.core.doctor_merge import merged
from gpufairy.core.doctor_os import Family, Os, install, install_driver, install_engine, install_toolkit, parse_os_release, upgrade
from gpufairy.core.doctor_shape import finding_shape, shaped_finding
from gpufairy.core.doctor_versions import RUNC_HOLES, TOOLKIT_HOLES, open_holes, parse_version
from gpufairy.core.errors import NoSuchThing

UBUNTU = Os(Family.UBUNTU, "Ubuntu 24.04 LTS", "24.04")
GIB = 2**30
A100 = GpuFact(0, "GPU-a", persistent=True, compute_mode=0, mig=False, mig_pending=False)
SOUND_GPU = GpuFacts(1, "580.95.05", False, Nvml.ANSWERED, "", "580.95.05", (A100,), caps=2, char_links=True)
SOUND_ENGINE = EngineFacts(
    "docker", "/var/run/docker.sock", "", "28.3.0", "systemd", live_restore=True, cdi_on=True, runc="1.3.3", toolkit="1.17.8",
    cdi_names=frozenset({"0", "GPU-a"}), cdi_files=("/etc/cdi/nvidia.yaml",), cgroups=2, controllers=frozenset({"cpu", "memory", "pids"}), nft=True,
)  # fmt: skip
SOUND_DATA = DataFacts(
    "/srv/fairy", there=True, owner=0, mode=0o700, parent_writable=True, free_bytes=500 * GIB, total_bytes=1000 * GIB, free_inodes=90, total_inodes=100,
    file_system="xfs", mount_point="/srv", mount_options=frozenset({"rw", "prjquota"}), base=Base.SOUND, open_files=(), host_keys=2, share_library=True,
    compiler=True, backup_age=timedelta(hours=5), backups_kept=True,
)  # fmt: skip
SOUND_HOST = HostFacts(
    (3, 12), 0, clock_synced=True, name="gpu01", name_resolves=True, http=PortFact(8420, PortState.OURS), ssh=PortFact(8422, PortState.OURS),
    hosts_pids=True, pids_match=True, strange_pids=0, server="http://127.0.0.1:8420", server_runs_here=True,
)  # fmt: skip
SOUND_METRICS = MetricsFacts(
    "http://127.0.0.1:9835/metrics", 200, "", (("gpu", True), ("host", True)), "/var/lib/node_exporter/textfile_collector", True, timedelta(seconds=2),
    node_exporter=True, scrape_error=False, prometheus="http://127.0.0.1:9090", prometheus_answers=True, scraped=True,
)  # fmt: skip
SOUND_KUBE = KubeFacts(
    Kube.ANSWERS, "kubeconfig", True, (1, 36), "gpufairy-sessions", True, "system:serviceaccount:gpufairy:gpufairy", (), "restricted", ("nfs",), "nfs",
    gpu_resources=("nvidia.com/gpu",), dra_gpus=0, dra_trouble="", agents=(3, 3),
)  # fmt: skip
SOUND = Facts(UBUNTU, SOUND_GPU, MpsFacts(True), SOUND_ENGINE, SOUND_DATA, SOUND_HOST, SOUND_METRICS, SOUND_KUBE)


def of(check: str, facts: Facts) -> Finding:
    (found,) = look(facts, [check])
    return found


def gpus(*found: GpuFact, **other: object) -> Facts:
    return replace(SOUND, gpu=replace(SOUND_GPU, gpus=found or (A100,), **other))


def engine(**other: object) -> Facts:
    return replace(SOUND, engine=replace(SOUND_ENGINE, **other))


def data(**other: object) -> Facts:
    return replace(SOUND, data=replace(SOUND_DATA, **other))


def host(**other: object) -> Facts:
    return replace(SOUND, host=replace(SOUND_HOST, **other))


def metrics(**other: object) -> Facts:
    return replace(SOUND, metrics=replace(SOUND_METRICS, **other))


def kube(**other: object) -> Facts:
    return replace(SOUND, kube=replace(SOUND_KUBE, **other))


def test_a_sound_machine_has_nothing_but_good_findings():
    verdicts = {one.check: (one.verdict, one.found) for one in look(SOUND)}
    fine = {Verdict.OK, Verdict.SKIPPED}
    assert {check: found for check, found in verdicts.items() if found[0] not in fine} == {}
    assert {check for check, (verdict, _) in verdicts.items() if verdict is Verdict.SKIPPED} == {"mig-not-seen"}, "all else is there"


def test_of_what_nobody_could_look_at_nothing_is_said():
    for found in look(Facts()):
        assert found.verdict in (Verdict.UNKNOWN, Verdict.SKIPPED) or found.check in SAID_OF_NOTHING, found


SAID_OF_NOTHING = {"no-metrics"}  # a collector that does not answer is not there


CASES = [
    ("python", host(python=(3, 9)), Verdict.BAD, "Python 3.9 is too old"),
    ("driver", gpus(driver="460.91.03", module="460.91.03"), Verdict.BAD, "older than 470"),
    ("driver", gpus(driver="515.65", module="515.65"), Verdict.WARN, "no security fixes"),
    ("driver", gpus(driver="535.54.03", module="535.54.03"), Verdict.WARN, "the host's PIDs; from 535.113 on"),
    ("driver", gpus(driver="535.113.01", module="535.113.01"), Verdict.OK, "driver 535.113.01 is in use"),
    ("driver", replace(SOUND, gpu=GpuFacts(2, "", False, Nvml.NO_LIBRARY)), Verdict.BAD, "no driver of NVIDIA's"),
    ("driver", replace(SOUND, gpu=GpuFacts(0, "", False, Nvml.NO_LIBRARY)), Verdict.SKIPPED, "no NVIDIA GPU"),
    ("nvml", replace(SOUND, gpu=GpuFacts(1, "580.1", nvml=Nvml.HUNG, nvml_trouble="no answer within 12 s")), Verdict.BAD, "no answer within 12 s"),
    ("nvml", replace(SOUND, gpu=GpuFacts(1, "580.1", nvml=Nvml.FAILED, nvml_trouble="Driver/library version mismatch")), Verdict.BAD, "differ"),
    ("nvml", gpus(GpuFact(0, "GPU-a", lost="GPU is lost")), Verdict.BAD, "GPU 0 does not answer"),
    ("nvml", replace(SOUND, gpu=GpuFacts(1, "", nvml=Nvml.NO_LIBRARY, in_container=True)), Verdict.SKIPPED, "given no GPU"),
    ("kernel-module", gpus(nvml=Nvml.FAILED, module=""), Verdict.BAD, "not loaded"),
    ("kernel-module", gpus(module="570.1"), Verdict.BAD, "changed under a running system"),
    ("nouveau", gpus(nouveau=True), Verdict.BAD, "nouveau is loaded"),
    ("persistence", gpus(replace(A100, persistent=False)), Verdict.WARN, "off on GPU 0"),
    ("mig", gpus(replace(A100, mig_pending=True)), Verdict.WARN, "goes on with its next reset"),
    ("mig", gpus(replace(A100, mig=True, mig_pending=True)), Verdict.WARN, "no instances"),
    ("mig", gpus(replace(A100, mig=None, mig_pending=None)), Verdict.SKIPPED, "can be cut"),
    ("mps", replace(SOUND, mps=MpsFacts(False)), Verdict.WARN, "in turns"),
    ("mps", replace(host(server_runs_here=False), mps=MpsFacts(True, left_over=("GPU-a",))), Verdict.WARN, "pipes of an MPS daemon that is gone"),
    ("mps", replace(SOUND, mps=MpsFacts(True, left_over=("GPU-a",))), Verdict.OK, "MPS is there"),
    ("mps", replace(host(server_runs_here=False), gpu=replace(SOUND_GPU, gpus=(replace(A100, compute_mode=3),)), mps=MpsFacts(True, exclusive_kept=("GPU-a",))), Verdict.BAD, "EXCLUSIVE_PROCESS"),
    ("engine", engine(name="", trouble="/var/run/docker.sock: Permission denied"), Verdict.UNKNOWN, "look as root"),
    ("engine", engine(name="", trouble=""), Verdict.SKIPPED, "plain processes"),
    ("engine", engine(version="19.03.5"), Verdict.WARN, "19.03.5 is old"),
    ("live-restore", engine(live_restore=False), Verdict.WARN, "ends all sessions"),
    ("cgroup-driver", engine(cdi_on=False), Verdict.WARN, "a reload of systemd takes the GPUs"),
    ("cgroup-driver", engine(cgroup_driver="cgroupfs", cdi_on=False), Verdict.OK, "cgroupfs"),
    ("cgroup-driver", replace(SOUND, gpu=replace(SOUND_GPU, char_links=False)), Verdict.WARN, "/dev/char has no links"),
    ("cgroups", engine(controllers=frozenset({"cpu", "pids"})), Verdict.BAD, "lack the controllers memory"),
    ("cgroups", engine(cgroups=1), Verdict.WARN, "v1"),
    ("runc", engine(runc="1.1.11"), Verdict.BAD, "CVE-2024-21626"),
    ("runc", engine(runc="1.1.12"), Verdict.BAD, "CVE-2025-31133"),
    ("runc", engine(runc="1.2.7"), Verdict.BAD, "CVE-2025-31133"),
    ("runc", engine(runc="1.2.8"), Verdict.OK, "runc 1.2.8"),
    ("runc", engine(runc="1.1.5+ds1", runc_mended=frozenset({"CVE-2024-21626", "CVE-2025-31133"})), Verdict.OK, "mended by the distribution"),
    ("runc", engine(runc="1.1.5", name=""), Verdict.WARN, "CVE-2024-21626"),
    ("runc", engine(runc=""), Verdict.SKIPPED, "no runc"),
    ("toolkit", engine(toolkit="1.16.1"), Verdict.BAD, "CVE-2024-0132"),
    ("toolkit", engine(toolkit="1.17.7"), Verdict.BAD, "CVE-2025-23266"),
    ("toolkit", engine(toolkit=""), Verdict.BAD, "not installed"),
    ("cdi", engine(cdi_names=frozenset({"1"})), Verdict.BAD, "does not name GPU-a"),
    ("cdi", engine(cdi_names=frozenset()), Verdict.WARN, "no CDI file names a GPU"),
    ("cdi", engine(cdi_names=frozenset(), name=""), Verdict.SKIPPED, "neither Docker nor Podman"),
    ("cdi", engine(cdi_names=frozenset(), name="podman"), Verdict.BAD, "Podman knows GPUs by nothing else"),
    ("cdi", engine(cdi_names=frozenset({"0", "GPU-gone"})), Verdict.WARN, "names GPU-gone, which is not there any more"),
    ("cdi", engine(cdi_on=False), Verdict.WARN, "Docker does not look at CDI files"),
    ("cdi", gpus(replace(A100, mig=True, mig_pending=True, instances=("MIG-1",))), Verdict.BAD, "does not name MIG-1"),
    ("nft", engine(nft=False), Verdict.BAD, "no nft"),
    ("data-folder", data(mode=0o755), Verdict.WARN, "open to everybody"),
    ("data-folder", data(mode=0o777), Verdict.BAD, "open to everybody"),
    ("data-folder", data(there=False), Verdict.OK, "made by the first"),
    ("data-folder", data(there=False, parent_writable=False), Verdict.BAD, "cannot be made"),
    ("secrets", data(open_files=("/srv/fairy/ssh/host_rsa",)), Verdict.BAD, "others can read"),
    ("disk", data(free_bytes=GIB // 2), Verdict.BAD, "512 MiB of"),
    ("disk", data(free_bytes=50 * GIB), Verdict.WARN, "50 GiB of"),
    ("disk", data(free_bytes=5000 * GIB, total_bytes=90_000 * GIB), Verdict.OK, "are free"),
    ("inodes", data(free_inodes=2), Verdict.WARN, "2 % of the inodes"),
    ("inodes", data(free_inodes=0), Verdict.BAD, "0 % of the inodes"),
    ("inodes", data(total_inodes=0, file_system="btrfs"), Verdict.SKIPPED, "btrfs makes inodes"),
    ("disk-quota", data(mount_options=frozenset({"rw"})), Verdict.WARN, "project quotas are off"),
    ("disk-quota", data(mount_options=frozenset({"rw"}), kernel_quotas=False), Verdict.SKIPPED, "this kernel has no quotas for xfs"),
    ("disk-quota", data(file_system="btrfs"), Verdict.SKIPPED, "no project quotas"),
    ("clock", host(clock_synced=False), Verdict.WARN, "nothing keeps the clock right"),
    ("clock", host(clock_skew=timedelta(minutes=7)), Verdict.BAD, "7 min apart"),
    ("clock", host(wrong_clocks=("gpu02 (12 minutes behind)",)), Verdict.BAD, "gpu02 (12 minutes behind)"),
    ("dns", host(name_resolves=False), Verdict.WARN, "own name, gpu01"),
    ("dns", host(url_name="fairy.lab", url_resolves=False), Verdict.BAD, "fairy.lab, is not known"),
    ("port-http", host(http=PortFact(8420, PortState.TAKEN, "python3 (process 9)")), Verdict.WARN, "taken by python3 (process 9); the next free one"),
    ("port-http", host(http=PortFact(8420, PortState.TAKEN, "nginx (process 9)", asked=True)), Verdict.BAD, "taken by nginx"),
    ("port-ssh", host(ssh=PortFact(22, PortState.TAKEN, "sshd (process 9)", asked=True)), Verdict.BAD, "own sshd"),
    ("port-ssh", host(ssh_off=True, ssh=None), Verdict.SKIPPED, "switched off"),
    ("ssh-keys", host(ssh_off=True), Verdict.SKIPPED, "switched off"),
    ("share-library", data(share_library=False, share_trouble="wrong ELF class"), Verdict.BAD, "wrong ELF class"),
    ("share-library", data(share_library=None, compiler=False), Verdict.WARN, "no C compiler"),
    ("database", data(base=Base.DAMAGED, base_words="row 3 missing"), Verdict.BAD, "row 3 missing"),
    ("database", data(base=Base.SLOW), Verdict.UNKNOWN, "so large"),
    ("backup", data(backup_age=timedelta(days=9)), Verdict.WARN, "9 d old"),
    ("backup", data(backups_kept=False, backup_age=None), Verdict.WARN, "there is no backup"),
    ("server", host(server_trouble="Connection refused"), Verdict.BAD, "Connection refused"),
    ("server", host(server=""), Verdict.SKIPPED, "not signed in"),
    ("textfile", metrics(file_age=timedelta(hours=2)), Verdict.BAD, "2 h old: nobody writes it any more"),
    ("textfile", metrics(scrape_error=True), Verdict.BAD, "cannot read a file"),
    ("prometheus", metrics(scraped=False), Verdict.WARN, "fetches nothing of gpufairy"),
    ("prometheus", metrics(scrape_trouble="connection refused"), Verdict.BAD, "connection refused"),
    ("kubernetes", kube(state=Kube.SILENT, words="no answer"), Verdict.BAD, "no answer"),
    ("kubernetes", kube(namespace_there=False), Verdict.BAD, "no namespace gpufairy-sessions"),
    ("kubernetes", kube(namespace_there=False, in_use=False), Verdict.SKIPPED, "runs no sessions in this cluster"),
    ("kubernetes", kube(version=(1, 27)), Verdict.WARN, "Kubernetes 1.27 is old"),
    ("kubernetes-rights", kube(denied=(Right("create", "pods"),)), Verdict.BAD, "may not create pods"),
    ("pod-security", kube(pod_security=""), Verdict.WARN, "enforces no Pod Security"),
    ("storage-class", kube(wanted_class="fast"), Verdict.BAD, "no storage class fast"),
    ("storage-class", kube(default_class=""), Verdict.BAD, "no storage class is the default one"),
    ("device-plugin", kube(gpu_resources=()), Verdict.WARN, "no node of the cluster offers a GPU"),
    ("device-plugin", kube(dra_gpus=2), Verdict.WARN, "offered twice"),
    ("dra", kube(dra_trouble="its cluster knows no shares of devices", version=(1, 35)), Verdict.WARN, "knows no shares"),
    ("dra", kube(dra_trouble="there is no device class gpu.fairy"), Verdict.SKIPPED, "no DRA driver"),
    ("dra", kube(dra_trouble="no such API", version=(1, 32)), Verdict.SKIPPED, "take Kubernetes 1.34"),
    ("agents", kube(agents=(2, 3)), Verdict.BAD, "1 of 3 agents are not ready"),
    ("agents", kube(agents=(0, 0)), Verdict.WARN, "no agent of gpufairy"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "facts", "verdict", "words"), CASES, ids=[f"{check}: {words}" for check, _, _, words in CASES])
def test_each_trouble_is_found_and_told(check: str, facts: Facts, verdict: Verdict, words: str):
    found = of(check, facts)
    assert (found.verdict, words in found.found) == (verdict, True), found
    if verdict in (Verdict.BAD, Verdict.WARN) and "is newer than" not in found.found:
        assert found.fix, "what is wrong comes with what to do"


def test_every_check_has_a_trouble_that_it_finds():
    tried = {check for check, _, verdict, _ in CASES if verdict in (Verdict.BAD, Verdict.WARN)}
    assert set(CHECKS) - tried == {"ssh-keys", *GUIDES}


RELEASES = {
    'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n': Family.UBUNTU,
    'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n': Family.DEBIAN,
    'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n': Family.RHEL,
    'NAME="AlmaLinux"\nID="almalinux"\nID_LIKE="rhel centos fedora"\n': Family.RHEL,
    'ID="ol"\nID_LIKE="fedora"\n': Family.FEDORA,
    "ID=fedora\nVERSION_ID=41\n": Family.FEDORA,
    'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n': Family.SUSE,
    'ID="sles"\nVERSION_ID="15.6"\n': Family.SUSE,
    "ID=arch\n": Family.ARCH,
    "ID=linuxmint\nID_LIKE='ubuntu debian'\n": Family.UBUNTU,
    "ID=nixos\n": Family.OTHER,
    "": Family.OTHER,
}


@pytest.mark.parametrize(("text", "family"), RELEASES.items(), ids=[text.split("\n")[0] or "nothing" for text in RELEASES])
def test_distributions_are_known_by_their_os_release(text: str, family: Family):
    assert parse_os_release(text).family is family


@given(st.text(max_size=300))
def test_any_os_release_can_be_read(text: str):
    assert parse_os_release(text).family in set(Family)


LINES = [
    (install(UBUNTU, "nftables"), ("sudo apt-get install -y nftables",)),
    (install(Os(Family.RHEL, root=True), "nftables"), ("dnf install -y nftables",)),
    (install(Os(Family.SUSE), "chrony"), ("sudo zypper install -y chrony",)),
    (install(Os(Family.ARCH), "gcc"), ("sudo pacman -S --needed --noconfirm gcc",)),
    (install(Os(Family.OTHER, "NixOS"), "gcc"), ("Install gcc with the package tool of NixOS.",)),
    (upgrade(Os(Family.DEBIAN, root=True), "runc"), ("apt-get update", "apt-get install --only-upgrade -y runc")),
    (upgrade(Os(Family.FEDORA), "runc"), ("sudo dnf upgrade -y runc",)),
    (install_engine(Os(Family.RHEL)), ("sudo dnf install -y podman", "sudo systemctl enable --now podman.socket")),
    (install_driver(UBUNTU), ("sudo apt-get install -y ubuntu-drivers-common", "sudo ubuntu-drivers install --gpgpu", "sudo reboot")),
]


@pytest.mark.parametrize(("told", "lines"), LINES)
def test_lines_are_those_of_the_distribution_with_sudo_for_who_needs_it(told: tuple[str, ...], lines: tuple[str, ...]):
    assert told == lines


def test_the_toolkit_comes_from_nvidia_s_own_packages_on_each_distribution():
    for family, word in {Family.UBUNTU: "apt-get", Family.DEBIAN: "apt-get", Family.RHEL: "dnf", Family.FEDORA: "dnf", Family.SUSE: "zypper", Family.ARCH: "pacman"}.items():
        assert word in install_toolkit(Os(family))[-1]
        assert "nvidia-container-toolkit" in install_toolkit(Os(family))[-1]
    assert "https://docs.nvidia.com/" in install_toolkit(Os())[0]


def test_every_finding_of_every_trouble_has_lines_on_every_distribution():
    for family in Family:
        for check, facts, verdict, _ in CASES:
            found = of(check, replace(facts, os=Os(family, "Some Linux")))
            assert found.fix or verdict not in (Verdict.BAD, Verdict.WARN), (family, check)
            assert not any("None" in line or "\n" in line for line in found.fix), found.fix


VERSIONS = {"1.17.8-rc.1": (1, 17, 8), "v1.3.3": (1, 3, 3), "580.159.04": (580, 159, 4), "28.3": (28, 3, 0), "5": (5, 0, 0), "": None, "none": None}


@pytest.mark.parametrize(("text", "version"), VERSIONS.items())
def test_versions_are_read(text: str, version: tuple[int, int, int] | None):
    assert parse_version(text) == version


@pytest.mark.parametrize(("version", "cves"), [
    ((1, 1, 11), {"CVE-2024-21626", "CVE-2025-31133"}), ((1, 1, 15), {"CVE-2025-31133"}), ((1, 2, 8), set()), ((1, 3, 2), {"CVE-2025-31133"}),
    ((1, 3, 3), set()), ((1, 4, 0), set()),
])  # fmt: skip
def test_each_line_of_runc_is_judged_by_its_own_mended_release(version, cves):
    assert {hole.cve for hole in open_holes(version, RUNC_HOLES)} == cves
    assert open_holes(version, RUNC_HOLES, cves) == []


def test_the_toolkit_is_sound_from_1_17_8_on():
    assert [hole.cve for hole in open_holes((1, 16, 2), TOOLKIT_HOLES)] == ["CVE-2025-23266"]
    assert open_holes((1, 17, 8), TOOLKIT_HOLES) == open_holes((1, 18, 0), TOOLKIT_HOLES) == []


def steps(found: Finding) -> list[tuple[str, str]]:
    return [(step.asks, step.verdict.value) for step in found.steps]


def test_no_metrics_walks_from_the_gpu_to_prometheus():
    assert [verdict for _, verdict in steps(of("no-metrics", SOUND))] == ["ok"] * 5
    failed = of("no-metrics", metrics(collectors=(("gpu", True), ("pods", False))))
    assert (failed.verdict, failed.found) == (Verdict.BAD, "the collector could not read: pods")
    assert steps(failed)[-1] == ("Did it read all that it should?", "bad"), "what comes after hangs on it"
    assert "right to list pods" in failed.fix[0]


def test_no_metrics_without_a_gpu_or_a_collector_is_nothing_to_worry_about():
    bare = replace(SOUND, gpu=GpuFacts(0, "", False, Nvml.NO_LIBRARY), metrics=MetricsFacts("http://127.0.0.1:9835/metrics"))
    assert of("no-metrics", bare).verdict is Verdict.SKIPPED
    assert of("no-metrics", bare).steps, "whoever asks is still told what was looked at"
    assert of("no-metrics", replace(SOUND, metrics=MetricsFacts("http://127.0.0.1:9835/metrics"))).found == "no collector answers here"


WRONG_PIDS = [
    (host(hosts_pids=False), "PIDs of its own"), (host(pids_match=False), "another namespace"), (host(hidepid="2", uid=1000), "hidepid=2"),
    (replace(gpus(replace(A100, pids=(1, 2, 3))), host=replace(SOUND_HOST, strange_pids=2)), "2 of 3 PIDs"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "words"), WRONG_PIDS)
def test_wrong_pids_are_traced_to_their_cause(facts: Facts, words: str):
    found = of("wrong-pids", facts)
    assert found.verdict is Verdict.BAD
    assert words in found.found
    assert found.fix


def test_root_sees_processes_that_hidepid_hides_from_others():
    assert of("wrong-pids", host(hidepid="2")).verdict is Verdict.OK


CUT = replace(A100, mig=True, mig_pending=True, instances=("MIG-1",))
SEEN_CUT = replace(gpus(CUT), engine=replace(SOUND_ENGINE, cdi_names=frozenset({"MIG-1"})), kube=KubeFacts(Kube.ABSENT))
MIG_NOT_SEEN = [
    (gpus(replace(A100, mig_pending=True)), "waits for a reset"), (gpus(replace(CUT, instances=())), "without instances"),
    (replace(SEEN_CUT, gpu=replace(SEEN_CUT.gpu, caps=0)), "/dev/nvidia-caps"), (gpus(CUT), "MIG-1 is in no CDI file"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "words"), MIG_NOT_SEEN)
def test_mig_that_is_not_seen_is_traced_to_its_cause(facts: Facts, words: str):
    found = of("mig-not-seen", facts)
    assert found.verdict is Verdict.BAD
    assert words in found.found


def test_where_nobody_wants_mig_nothing_is_wrong():
    assert (of("mig-not-seen", SOUND).verdict, of("mig-not-seen", SOUND).fix[-1]) == (Verdict.SKIPPED, "sudo nvidia-smi -i 0 -mig 1")


def test_mig_that_is_seen_is_said_to_be():
    assert of("mig-not-seen", SEEN_CUT).verdict is Verdict.OK
    offered = replace(SEEN_CUT, kube=replace(SOUND_KUBE, gpu_resources=("nvidia.com/gpu",)))
    assert "no node of the cluster offers MIG" in of("mig-not-seen", offered).found


def test_a_path_tells_its_worst_step_and_goes_no_further_than_what_is_bad():
    path = path_of([("a?", ok_("fine")), ("b?", warn_("odd", "mend it")), ("c?", ok_("fine"))], "all well")
    assert (path.verdict, path.found, path.fix, len(path.steps)) == (Verdict.WARN, "odd", ("mend it",), 3)
    path = path_of([("a?", warn_("odd")), ("b?", bad_("broken")), ("c?", ok_("fine"))], "all well")
    assert (path.verdict, path.found, len(path.steps)) == (Verdict.BAD, "broken", 2)


def test_missing_rights_come_with_the_lines_that_grant_them_and_no_others():
    denied = (Right("create", "pods/exec"), Right("get", "pods/exec"), Right("list", "nodes", everywhere=True), Right("get", "resourceclaims", "resource.k8s.io"))
    lines = of("kubernetes-rights", kube(denied=denied)).fix
    assert "kubectl create role gpufairy-pods-exec -n gpufairy-sessions --verb=create,get --resource=pods/exec" in lines
    assert "kubectl create clusterrolebinding gpufairy-nodes --clusterrole=gpufairy-nodes --serviceaccount=gpufairy:gpufairy" in lines
    assert "kubectl create role gpufairy-resourceclaims-resource-k8s-io -n gpufairy-sessions --verb=get --resource=resourceclaims.resource.k8s.io" in lines
    assert len(lines) == 7


def test_only_what_is_safe_says_that_it_can_be_mended():
    fixable = {check for check, facts, _, _ in CASES if of(check, facts).fixable}
    assert fixable == {"data-folder", "secrets", "cdi", "mps"}


def test_scripts_get_the_promised_fields():
    told = finding_shape(of("persistence", gpus(replace(A100, persistent=False))))
    assert (told["check"], told["ok"], told["found"]) == ("persistence", True, "persistence mode is off on GPU 0")
    assert told["fix"] == "sudo systemctl enable --now nvidia-persistenced\nsudo nvidia-smi -pm 1"
    assert [finding_shape(of(check, facts))["ok"] for check, facts in (("nouveau", gpus(nouveau=True)), ("driver", Facts()), ("driver", SOUND))] == [False, None, True]


@pytest.mark.parametrize("check", CHECKS)
def test_a_finding_survives_the_way_through_json(check: str):
    found = of(check, SOUND)
    assert shaped_finding(json.loads(json.dumps(finding_shape(found)))) == replace(found, fixable=False)


def test_a_verdict_of_a_newer_server_is_not_known():
    assert shaped_finding({"check": "x", "verdict": "splendid"}).verdict is Verdict.UNKNOWN


def finding(check: str, verdict: Verdict, where: str = "", *, fixable: bool = False) -> Finding:
    return Finding(check, check, verdict, f"{verdict} by {where or 'us'}", "", fixable=fixable, where=where)


def test_of_two_looks_at_one_host_the_one_that_saw_more_counts():
    ours = [finding("database", Verdict.UNKNOWN), finding("disk", Verdict.BAD, fixable=True), finding("engine", Verdict.OK), finding("server", Verdict.OK)]
    servers = [finding("database", Verdict.OK, "gpu01"), finding("disk", Verdict.BAD, "gpu01"), finding("engine", Verdict.WARN, "gpu01"), finding("server", Verdict.BAD, "gpu01")]
    told = {one.check: one for one in merged(ours, servers, same_host=True)}
    assert [(one.verdict, one.where, one.fixable) for one in told.values()] == [
        (Verdict.OK, "", False), (Verdict.BAD, "", True), (Verdict.WARN, "", False), (Verdict.OK, "", False)
    ]  # fmt: skip


def test_another_hosts_findings_stand_beside_ours():
    told = merged([finding("disk", Verdict.OK)], [finding("disk", Verdict.BAD, "gpu01"), finding("python", Verdict.OK, "gpu01")], same_host=False)
    assert [(one.check, one.where) for one in told] == [("disk", ""), ("disk", "gpu01")]


def test_an_unknown_check_is_refused_with_the_nearest():
    assert checked_names(["disk,clock", " dns", "disk"]) == ["disk", "clock", "dns"]
    with pytest.raises(NoSuchThing, match="did you mean no-metrics"):
        checked_names(["no-metric"])


def test_the_rights_that_are_asked_for_are_those_of_the_engine():
    words = {right.words for right in needed_rights(parts=True)}
    assert {"create pods", "get pods/log", "create pods/exec", "delete secrets", "create persistentvolumeclaims", "watch nodes"} <= words
    assert "create resourceclaims.resource.k8s.io" in words
    assert len(needed_rights(parts=False)) == len(needed_rights(parts=True)) - 6
