"""Starts and ends the cluster. One for all test processes of a machine: whoever comes first starts it, whoever leaves last ends it."""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from daemons import left_over, missing
from images import Layer, busybox_image_tar, image_tar
from kube.certificates import Authority
from kube.cluster import ADMIN, Cluster
from kube.parts import CONTROL_PLANE, NODE, CannotBuild, parts
from waits import until

FOLDER = Path(tempfile.gettempdir()) / "fairy-kube"  # short: a socket's path has at most 107 bytes
NODE_NAME, BRIDGE, POD_BRIDGE = "fairy-node-1", "fairy-kn0", "fairy-kp0"
NODE_ADDRESS, POD_SUBNET, SERVICE_SUBNET = "10.203.255.1", "10.203.0.0/24", "10.204.0.0/16"
PROGRAMS = {"runc": "runc", "iptables": "iptables", "ip": "iproute2", "cc": "gcc libc6-dev", "busybox": "busybox-static", "umount": "mount"}
CNI = Path("/usr/lib/cni")
PAUSE_IMAGE = "fairy-test/pause:1"
PAUSE = """
#include <signal.h>
#include <unistd.h>
static void end(int number) { _exit(number == 0); }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, SIG_IGN); for (;;) pause(); }
"""
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")  # of every kubelet, whatever its root folder is
CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "fairy-kube"  # its kubelet clears away what it does not know: a kubelet that this machine may have must have another
START_S, END_S = 90.0, 10.0


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Shared with other test processes: make namespaces and pods of your own, and stop no part of it."""
    programs = needed_programs()
    with FOLDER.with_suffix(".start").open("a") as starting, FOLDER.with_suffix(".users").open("a") as users:
        with held(starting):
            if is_alone(users):
                end(FOLDER)  # what a run left that was killed
                try:
                    start(FOLDER, programs)
                except BaseException:
                    end(FOLDER)
                    raise
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield Cluster.load(FOLDER)
        finally:
            with held(starting):
                fcntl.flock(users, fcntl.LOCK_UN)
                if is_alone(users):
                    end(FOLDER)


@contextlib.contextmanager
def held(lock: TextIO) -> Iterator[None]:
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def is_alone(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def needed_programs() -> dict[str, Path]:
    if os.geteuid() != 0:
        missing("a Kubernetes of our own needs root")
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            missing(f"no {program}: apt-get install {package}")
    if not (CNI / "bridge").exists():
        missing(f"no {CNI}/bridge: apt-get install containernetworking-plugins")
    if any((DEVICE_PLUGINS.parent / name).exists() for name in ("config.yaml", "pods", "pki")):
        missing("this machine has a kubelet of its own, whose device plugins ours would take away")
    try:
        return parts([*CONTROL_PLANE, *NODE])
    except CannotBuild as error:
        missing(str(error))
        raise


def start(folder: Path, programs: dict[str, Path]) -> None:
    folder.mkdir(mode=0o700)  # the keys of whoever may start anything here
    (folder / "static").mkdir()
    cluster = Cluster(folder, free_port(), NODE_NAME, programs["ctr"], BRIDGE)
    authority = Authority(folder)
    authority.server("server", "127.0.0.1")
    authority.server("kubelet-server", NODE_ADDRESS)
    authority.accounts("accounts")
    authority.client("kubelet", f"system:node:{NODE_NAME}", "system:nodes")
    (folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
    write_kubeconfig(cluster, cluster.kubeconfig, {"token": ADMIN})
    write_kubeconfig(cluster, cluster.kubelet_kubeconfig, {"client-certificate": "kubelet.crt", "client-key": "kubelet.key"})
    start_control_plane(cluster, programs)
    start_containerd(cluster, programs)
    start_kubelet(cluster, programs)
    cluster.save()


def write_kubeconfig(cluster: Cluster, path: Path, user: dict[str, str]) -> None:
    """As JSON, which is YAML too."""
    told = {
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": cluster.url, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
    }  # fmt: skip
    path.write_text(json.dumps(told))


def start_control_plane(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder, etcd, peer = cluster.folder, f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    run(
        folder, programs["etcd"], f"--data-dir={folder}/etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
    )  # fmt: skip
    run(
        folder, programs["kube-apiserver"], f"--etcd-servers={etcd}", f"--secure-port={cluster.port}", "--bind-address=127.0.0.1",
        f"--cert-dir={folder}", f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key", f"--client-ca-file={folder}/ca.crt",
        f"--service-account-key-file={folder}/accounts.key", f"--service-account-signing-key-file={folder}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICE_SUBNET}", "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={folder}/ca.crt", "--profiling=false",
    )  # fmt: skip
    wait(folder, "kube-apiserver", lambda: cluster.answer("GET", "/readyz")[0] == 200)
    run(
        folder, programs["kube-controller-manager"], f"--kubeconfig={cluster.kubeconfig}", f"--service-account-private-key-file={folder}/accounts.key",
        f"--root-ca-file={folder}/ca.crt", "--use-service-account-credentials=true", f"--secure-port={free_port()}", f"--cert-dir={folder}",
        "--bind-address=127.0.0.1", "--leader-elect=false",
    )  # fmt: skip
    cluster.namespace("default")


def start_containerd(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder = cluster.folder
    (folder / "cni").mkdir()
    (folder / "cdi").mkdir()
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(pod_network()))
    (folder / "containerd.toml").write_text(containerd_settings(folder))
    run(folder, programs["containerd"], "-c", f"{folder}/containerd.toml", path=programs["containerd"].parent)
    ctr = [cluster.ctr, "-a", cluster.containerd_socket, "-n", "k8s.io"]
    wait(folder, "containerd", lambda: subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode == 0)
    for name, archive in (("pause", pause_image(folder)), ("busybox", busybox_image_tar())):
        (folder / f"{name}.tar").write_bytes(archive)
        subprocess.run([*ctr, "images", "import", folder / f"{name}.tar"], capture_output=True, check=True)


def pod_network() -> dict[str, Any]:
    address = {"type": "host-local", "ranges": [[{"subnet": POD_SUBNET}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": f"{FOLDER}/addresses"}
    bridge = {"type": "bridge", "bridge": POD_BRIDGE, "isGateway": True, "ipMasq": False, "ipam": address}
    return {"cniVersion": "1.0.0", "name": "fairy-pods", "plugins": [bridge]}


def containerd_settings(folder: Path) -> str:
    return f"""
version = 3
root = "{folder}/containerd"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[debug]
address = "{folder}/containerd-debug.sock"
[plugins."io.containerd.nri.v1.nri"]
disable = true
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "docker.io/{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true
cdi_spec_dirs = ["{folder}/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI}"]
conf_dir = "{folder}/cni"
"""


def pause_image(folder: Path) -> bytes:
    """What holds a pod's namespaces."""
    (folder / "pause.c").write_text(PAUSE)
    subprocess.run(["cc", "-O2", "-static", "-o", folder / "pause", folder / "pause.c"], check=True)
    layer = Layer()
    layer.file("pause", (folder / "pause").read_bytes(), 0o755)
    return image_tar(PAUSE_IMAGE, layer, {"Entrypoint": ["/pause"], "Cmd": []})


def start_kubelet(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder = cluster.folder
    # A kubelet refuses a loopback address for its node. A bridge is the one device that every kernel here can make.
    for words in (f"link add {BRIDGE} type bridge", f"addr replace {NODE_ADDRESS}/32 dev {BRIDGE}", f"link set {BRIDGE} up"):
        subprocess.run(["ip", *words.split()], check=True)
    make_cgroups()
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet_settings(cluster)))
    run(
        folder, programs["kubelet"], f"--config={folder}/kubelet.yaml", f"--kubeconfig={cluster.kubelet_kubeconfig}", f"--root-dir={cluster.kubelet}",
        f"--hostname-override={NODE_NAME}", f"--cert-dir={folder}/pki", f"--node-ip={NODE_ADDRESS}",
    )  # fmt: skip
    wait(folder, "kubelet", lambda: is_ready(cluster))


def kubelet_settings(cluster: Cluster) -> dict[str, Any]:
    folder = cluster.folder
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False, "cgroupDriver": "cgroupfs", "failSwapOn": False,
        "featureGates": {"KubeletInUserNamespace": True},  # it may not lower the OOM scores of others here
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}, "x509": {"clientCAFile": f"{folder}/ca.crt"}},
        "authorization": {"mode": "AlwaysAllow"}, "tlsCertFile": f"{folder}/kubelet-server.crt", "tlsPrivateKeyFile": f"{folder}/kubelet-server.key",
        "containerRuntimeEndpoint": f"unix://{cluster.containerd_socket}", "enforceNodeAllocatable": [], "localStorageCapacityIsolation": False,
        "resolvConf": "", "port": free_port(), "healthzPort": 0, "staticPodPath": str(cluster.static_pods), "fileCheckFrequency": "1s", "nodeStatusUpdateFrequency": "1s",
        "podLogsDir": f"{folder}/logs", "evictionHard": {"memory.available": "1Mi"}, "makeIPTablesUtilChains": False, "cgroupRoot": f"/{CGROUP}",
    }  # fmt: skip


def cgroup_tops() -> list[Path]:
    """Version 2: one. Version 1: one for each controller, and those of both beside them."""
    return [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else [top for top in CGROUPS.iterdir() if (top / "cgroup.procs").exists()]


def make_cgroups() -> None:
    for top in cgroup_tops():
        for controller in ("cpu", "cpuset", "io", "memory", "hugetlb", "pids"):
            with contextlib.suppress(OSError):  # not there, or of version 1
                (top / "cgroup.subtree_control").write_text(f"+{controller}")
        (top / CGROUP).mkdir(exist_ok=True)


def remove_cgroups() -> None:
    for top in cgroup_tops():
        for folder, _, _ in os.walk(top / CGROUP, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def is_ready(cluster: Cluster) -> bool:
    status, node = cluster.answer("GET", f"/api/v1/nodes/{NODE_NAME}")
    return status == 200 and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))


def run(folder: Path, program: Path, *words: str, path: Path | None = None) -> None:
    """In a session of its own, and nobody's child: it outlives the test process that started it."""
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    with (folder / f"{program.name}.log").open("ab") as log:
        begin = ["setsid", "--fork", "sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / f"{program.name}.pid"), str(program)]
        subprocess.run([*begin, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=folder, check=True)


def wait(folder: Path, name: str, look: Any) -> None:
    def looked() -> bool:
        with contextlib.suppress(OSError):
            return bool(look())
        return False

    try:
        until(looked, f"{name} to answer", START_S)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n{(folder / f'{name}.log').read_text()[-3000:]}") from None


def end(folder: Path) -> None:
    """All of it, and what a run left that was killed."""
    stop(folder, "kubelet")  # first, or it starts pods again
    with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError, KeyError):
        end_pods(Cluster.load(folder))
    for name in ("kube-controller-manager", "containerd", "kube-apiserver", "etcd"):
        stop(folder, name)
    for pid in left_over(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
    for bridge in (BRIDGE, POD_BRIDGE):
        subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
    remove_cgroups()
    shutil.rmtree(DEVICE_PLUGINS, ignore_errors=True)
    with contextlib.suppress(OSError):
        DEVICE_PLUGINS.parent.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def end_pods(cluster: Cluster) -> None:
    """They outlive the kubelet, and containerd."""
    ctr = [cluster.ctr, "-a", cluster.containerd_socket, "-n", "k8s.io", "task"]
    for task in cluster.tasks():
        subprocess.run([*ctr, "kill", "-s", "KILL", task], capture_output=True, check=False, timeout=END_S)
        subprocess.run([*ctr, "rm", "-f", task], capture_output=True, check=False, timeout=END_S)


def stop(folder: Path, name: str) -> None:
    """By its number, if that is still its own."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / f"{name}.pid").read_text())
        for number in (signal.SIGTERM, signal.SIGKILL):
            if is_ours(pid, folder):
                os.kill(pid, number)
                with contextlib.suppress(AssertionError):
                    until(lambda: not is_ours(pid, folder), f"{name} to end", END_S)


def is_ours(pid: int, folder: Path) -> bool:
    """A process that has ended has no command line, also before somebody asks how it ended."""
    try:
        return f"{folder}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
