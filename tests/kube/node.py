"""The node of a cluster, which is this machine: containerd, kubelet and kube-proxy, with images made here, in folders and networks of their own.

Its network is a plain bridge: NetworkPolicies are kept by the API server, and nobody enforces them. There is no DNS; Services have addresses.
"""
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench.ports import free_port

from images import Layer, busybox_image_tar, image_tar
from kube.certificates import Authority
from kube.cluster import Cluster
from kube.control_plane import GATES, write_kubeconfig
from kube.processes import END_S, run, wait

NODE_NAME, BRIDGE, POD_BRIDGE = "here", "fairy-kn0", "fairy-kp0"
NODE_ADDRESS, POD_SUBNET = "10.203.255.1", "10.203.0.0/24"
NODE_LABELS = "accelerator=nvidia"
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
# Docker lets nothing through this machine that is not its own; what goes to a Service and so to another pod must pass.
PASS_PODS = ["FORWARD", "-i", POD_BRIDGE, "-o", POD_BRIDGE, "-j", "ACCEPT"]


def make_networks() -> None:
    """A kubelet refuses a loopback address for its node, and pods could not reach an API server there. Every kernel here can make a bridge."""
    for words in (f"link add {BRIDGE} type bridge", f"addr replace {NODE_ADDRESS}/32 dev {BRIDGE}", f"link set {BRIDGE} up"):
        subprocess.run(["ip", *words.split()], check=True)
    subprocess.run(["iptables", "-w", "-I", *PASS_PODS], check=True)


def remove_networks() -> None:
    for bridge in (BRIDGE, POD_BRIDGE):
        subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
    subprocess.run(["iptables", "-w", "-D", *PASS_PODS], check=False, capture_output=True)
    for family in ("ip", "ip6"):
        subprocess.run(["nft", "delete", "table", family, "kube-proxy"], check=False, capture_output=True)


def start_node(cluster: Cluster, authority: Authority, programs: dict[str, Path]) -> None:
    authority.server("kubelet-server", NODE_ADDRESS)
    authority.client("kubelet", f"system:node:{NODE_NAME}", "system:nodes")
    (cluster.folder / "static").mkdir()
    write_kubeconfig(cluster, cluster.kubelet_kubeconfig, {"client-certificate": "kubelet.crt", "client-key": "kubelet.key"})
    start_proxy(cluster, programs)
    start_containerd(cluster, programs)
    start_kubelet(cluster, programs)


def start_proxy(cluster: Cluster, programs: dict[str, Path]) -> None:
    """So that the addresses of Services lead to pods, and pods find the API server as in any cluster."""
    settings = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables", "clusterCIDR": POD_SUBNET,
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)}, "hostnameOverride": NODE_NAME, "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "bindAddress": NODE_ADDRESS, "metricsBindAddress": f"127.0.0.1:{free_port()}", "healthzBindAddress": f"127.0.0.1:{free_port()}",
    }  # fmt: skip
    (cluster.folder / "kube-proxy.yaml").write_text(json.dumps(settings))
    run(cluster.folder, programs["kube-proxy"], f"--config={cluster.folder}/kube-proxy.yaml")


def start_containerd(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder = cluster.folder
    (folder / "cni").mkdir()
    (folder / "cdi").mkdir()
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(pod_network(folder)))
    (folder / "containerd.toml").write_text(containerd_settings(folder))
    run(folder, programs["containerd"], "-c", f"{folder}/containerd.toml", env={"PATH": f"{programs['containerd'].parent}:{os.environ['PATH']}"})
    wait(folder, "containerd", lambda: subprocess.run([*cluster.ctr_command, "version"], capture_output=True, check=False).returncode == 0)
    for archive in (pause_image(folder), busybox_image_tar()):
        cluster.import_image(archive)


def pod_network(folder: Path) -> dict[str, Any]:
    address = {"type": "host-local", "ranges": [[{"subnet": POD_SUBNET}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": f"{folder}/addresses"}
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
    make_cgroups()
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet_settings(cluster)))
    run(
        folder, programs["kubelet"], f"--config={folder}/kubelet.yaml", f"--kubeconfig={cluster.kubelet_kubeconfig}", f"--root-dir={cluster.kubelet}",
        f"--hostname-override={NODE_NAME}", f"--cert-dir={folder}/pki", f"--node-ip={NODE_ADDRESS}", f"--node-labels={NODE_LABELS}",
    )  # fmt: skip
    wait(folder, "kubelet", lambda: cluster.is_ready(NODE_NAME))


def kubelet_settings(cluster: Cluster) -> dict[str, Any]:
    folder = cluster.folder
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False, "cgroupDriver": "cgroupfs", "failSwapOn": False,
        "featureGates": {**GATES, "KubeletInUserNamespace": True},  # it may not lower the OOM scores of others here
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


def remove_node() -> None:
    """What lies outside the cluster's folder."""
    remove_networks()
    for top in cgroup_tops():
        for folder, _, _ in os.walk(top / CGROUP, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    shutil.rmtree(DEVICE_PLUGINS, ignore_errors=True)
    with contextlib.suppress(OSError):
        DEVICE_PLUGINS.parent.rmdir()


def end_pods(cluster: Cluster) -> None:
    """They outlive the kubelet, and containerd."""
    for task in cluster.tasks():
        subprocess.run([*cluster.ctr_command, "task", "kill", "-s", "KILL", task], capture_output=True, check=False, timeout=END_S)
        subprocess.run([*cluster.ctr_command, "task", "rm", "-f", task], capture_output=True, check=False, timeout=END_S)
