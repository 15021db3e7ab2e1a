"""etcd, API server, controller manager and scheduler: what a cluster is before it has nodes."""
import json
from pathlib import Path

from bench.ports import free_port

from kube.certificates import Authority
from kube.cluster import ADMIN, Cluster
from kube.processes import run, wait

SERVICE_SUBNET, API_SERVICE = "10.204.0.0/16", "10.204.0.1"
# Shares of a GPU by DRA take the first, which is off below 1.36; folders out of images the second.
GATES = {"DRAConsumableCapacity": True, "ImageVolume": True}
GATES_WORD = "--feature-gates=" + ",".join(f"{name}={str(on).lower()}" for name, on in GATES.items())
# Not kube-scheduler's usual 50 a second: what it can do is to be measured, not what it may ask.
SCHEDULER_PACE = ("--kube-api-qps=1000", "--kube-api-burst=2000")
BINDER_PACE = ("--pvclaimbinder-sync-period=1s",)  # not 15: a claim that is seen before its volume waits that long


def start_control_plane(cluster: Cluster, authority: Authority, programs: dict[str, Path]) -> None:
    authority.server("server", "127.0.0.1", cluster.address, API_SERVICE)
    authority.client("to-kubelets", "kube-apiserver", "system:masters")
    authority.accounts("accounts")
    (cluster.folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
    write_kubeconfig(cluster, cluster.kubeconfig, {"token": ADMIN})
    start_api_server(cluster, programs)
    start_controllers(cluster, programs)
    cluster.namespace("default")


def write_kubeconfig(cluster: Cluster, path: Path, user: dict[str, str]) -> None:
    """As JSON, which is YAML too."""
    told = {
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": cluster.url, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
    }  # fmt: skip
    path.write_text(json.dumps(told))


def start_api_server(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder, etcd, peer = cluster.folder, f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    run(
        folder, programs["etcd"], f"--data-dir={folder}/etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
    )  # fmt: skip
    run(
        folder, programs["kube-apiserver"], f"--etcd-servers={etcd}", f"--secure-port={cluster.port}", f"--bind-address={cluster.address}",
        f"--cert-dir={folder}", f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key", f"--client-ca-file={folder}/ca.crt",
        f"--service-account-key-file={folder}/accounts.key", f"--service-account-signing-key-file={folder}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICE_SUBNET}", "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={folder}/ca.crt", f"--kubelet-client-certificate={folder}/to-kubelets.crt", f"--kubelet-client-key={folder}/to-kubelets.key", GATES_WORD, "--profiling=false",
    )  # fmt: skip
    wait(folder, "kube-apiserver", lambda: cluster.answer("GET", "/readyz")[0] == 200)


def start_controllers(cluster: Cluster, programs: dict[str, Path]) -> None:
    folder = cluster.folder
    accounts = f"--service-account-private-key-file={folder}/accounts.key", f"--root-ca-file={folder}/ca.crt", "--use-service-account-credentials=true"
    for name, more in (("kube-controller-manager", (*accounts, *BINDER_PACE)), ("kube-scheduler", SCHEDULER_PACE)):
        usual = f"--kubeconfig={cluster.kubeconfig}", f"--secure-port={free_port()}", f"--cert-dir={folder}", "--bind-address=127.0.0.1", "--leader-elect=false"
        run(folder, programs[name], *usual, GATES_WORD, *more)
