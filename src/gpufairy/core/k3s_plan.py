"""From plain boxes to a cluster: what to run where, a line for each host. Only written down: nobody here runs it."""
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

HOST = re.compile(r"(?:[a-z_][a-z0-9_-]{0,31}@)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
GATES = "DRAConsumableCapacity=true,ImageVolume=true"
IMAGES = "/var/lib/rancher/k3s/agent/images"
TOKEN, JOIN = "/var/lib/rancher/k3s/server/node-token", "/etc/rancher/k3s/join-token"
INSTALL = "curl -sfL https://get.k3s.io"
LABEL = "--node-label accelerator=nvidia"


@dataclass(frozen=True, slots=True)
class PlanStep:
    about: str
    host: str  # empty: where you are
    command: str


@dataclass(frozen=True, slots=True)
class Lab:
    hosts: Sequence[str]  # the first has the cluster's own programs and gpufairy's server beside its GPUs
    shares: bool = True  # parts of GPUs, by our agents; else whole ones, by NVIDIA's device plugin
    storage_class: str = ""  # that many nodes may write to at once; empty: homes stay on one node each

    @property
    def first(self) -> str:
        return self.hosts[0]


def plan_k3s(lab: Lab) -> list[PlanStep]:
    check_hosts(lab.hosts)
    return [*prepare(lab), *join(lab), *chart(lab)]


def check_hosts(hosts: Sequence[str]) -> None:
    if not hosts:
        raise BadInput("no host was named", "Write them one after the other: gpu01 gpu02.")
    for host in hosts:
        if HOST.fullmatch(host) is None:
            raise BadInput(f"{shown(host)} is no host", "Write a name or an address as for ssh: gpu01, root@10.0.0.5.")
    if len(set(map(address, hosts))) < len(hosts):
        raise BadInput("a host is named twice", "Name each once.")


def address(host: str) -> str:
    return host.rpartition("@")[2]


def over_ssh(host: str, command: str) -> str:
    return f"ssh {host} '{command}'"


def prepare(lab: Lab) -> list[PlanStep]:
    """Driver, toolkit and images, on each."""
    check = "nvidia-smi -L && nvidia-ctk --version && sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    put = f"sudo mkdir -p {IMAGES} && sudo mv gpufairy.tar gpufairy-tools.tar {IMAGES}/"
    found = []
    for host in lab.hosts:
        about = "has NVIDIA's driver and container toolkit (else install them first), and tells containers of its GPUs"
        found.append(PlanStep(about, host, over_ssh(host, check)))
        copy = f"scp gpufairy.tar gpufairy-tools.tar {host}: && {over_ssh(host, put)}"
        found.append(PlanStep("gets gpufairy's two images, which deploy/image/build.py makes: no registry is needed", host, copy))
    return found


def join(lab: Lab) -> list[PlanStep]:
    kubelet = f" --kubelet-arg=feature-gates={GATES}" if lab.shares else ""
    control = "".join(f" --kube-{part}-arg=feature-gates={GATES}" for part in ("apiserver", "scheduler", "controller-manager"))
    named = f"--tls-san {address(lab.first)} --write-kubeconfig-mode 600"
    server = f"{INSTALL} | sudo sh -s - server {LABEL} {named}{control if lab.shares else ''}{kubelet}"
    found = [PlanStep("becomes the cluster's first node", lab.first, over_ssh(lab.first, server))]
    agent = f"{INSTALL} | sudo K3S_URL=https://{address(lab.first)}:6443 K3S_TOKEN_FILE={JOIN} sh -s - agent {LABEL}{kubelet}"
    # Through a file of root's: a token on a command line is everybody's to read.
    take = f"sudo install -D -m 600 /dev/stdin {JOIN} && {agent}"
    for host in lab.hosts[1:]:
        token = over_ssh(lab.first, f"sudo cat {TOKEN}")
        found.append(PlanStep("joins it", host, f"{token} | {over_ssh(host, take)}"))
    return found


def chart(lab: Lab) -> list[PlanStep]:
    kubeconfig = f"{over_ssh(lab.first, 'sudo cat /etc/rancher/k3s/k3s.yaml')} | sed s/127.0.0.1/{address(lab.first)}/ > lab.kubeconfig"
    plugin = (
        "helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin --namespace kube-system "
        "--set runtimeClassName=nvidia"
    )
    whole = [] if lab.shares else [PlanStep("gives whole GPUs to pods: NVIDIA's device plugin", "", plugin)]
    return [
        PlanStep("the way to the cluster, for kubectl and helm", "", f"umask 077; {kubeconfig}; export KUBECONFIG=$PWD/lab.kubeconfig"),
        PlanStep("every host is there, and Ready", "", "kubectl get nodes"),
        *whole,
        PlanStep("gpufairy itself: server, SSH, an agent on each host", "", helm_line(lab)),
        PlanStep("signs you in, once", "", "kubectl --namespace gpufairy exec deploy/gpufairy -- fairy web"),
        PlanStep(
            "takes users, homes and history of the box you had along", "",
            f"fairy move http://BOX:8420 http://{address(lab.first)}:8420 --dry-run",
        ),
    ]  # fmt: skip


def helm_line(lab: Lab) -> str:
    homes = f"sessions.homes.storageClass={lab.storage_class}" if lab.storage_class else "sessions.homes.access=one"
    values = [
        "image.repository=docker.io/library/gpufairy", "sessions.toolsImage.repository=docker.io/library/gpufairy-tools",
        "service.type=LoadBalancer", f"server.url=http://{address(lab.first)}:8420", "agents.nvidia.runtimeClassName=nvidia",
        "sessions.runtimeClassName=nvidia", homes, *(["agents.dra.enabled=true"] if lab.shares else []),
    ]  # fmt: skip
    told = " ".join(f"--set {value}" for value in values)
    return f"helm install gpufairy deploy/helm/gpufairy --namespace gpufairy --create-namespace {told}"
