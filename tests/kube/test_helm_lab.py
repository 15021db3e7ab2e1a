"""The whole chart on a real cluster: server, SSH and agent come up by helm, sessions are pods, and a change of versions touches none of them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.server import ROOT

from fake_nvml import FakeGpu, FakeMachine
from images import BUSYBOX_IMAGE
from kube.chart_scene import UP_S, Scene, fetched
from kube.cluster import Cluster
from kube.dra_scene import SLICES
from kube.own_image import own_image
from kube.volumes import volumes
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
LAB, SESSIONS = (f"{name}-{os.getpid()}" for name in ("lab", "lab-sessions"))
SERVER = "10.204.77.1"  # there is no DNS here, so the Service has an address that agents and sessions can be told
URL = f"http://{SERVER}:8420"
LIMIT_S = 60.0


@dataclass(frozen=True)
class Lab:
    """The chart, installed; and a user on another machine, with `fairy` and ssh."""

    scene: Scene
    values: dict[str, Any]
    home: Path

    def inside(self, *words: str) -> str:
        """As the admin, in the server's pod."""
        return self.scene.admin.kubectl("--namespace", LAB, "exec", "deploy/gpufairy", "--", "fairy", *words)

    def fairy(self, *words: str, said: str = "", home: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(home or self.home), "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run([sys.executable, "-m", "gpufairy", *words], env=env, cwd=self.home, input=said, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def ssh(self, command: str, session: str) -> str:
        options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={self.home}/known_hosts", "BatchMode=yes", "LogLevel=ERROR"]
        line = ["ssh", "-F", "/dev/null", *(word for one in options for word in ("-o", one)), "-i", str(self.home / "id"), "-p", "8422", f"kim+{session}@{SERVER}", command]
        done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, look: Callable[[], Any], what: str) -> Any:
        try:
            return until(look, what, UP_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.scene.admin.kubectl('--namespace', LAB, 'logs', 'daemonset/gpufairy-agent', '--tail=40')}") from None

    def pods(self) -> dict[str, dict[str, Any]]:
        """Of sessions, by the session's name."""
        found = self.scene.cluster.ask("GET", f"/api/v1/namespaces/{SESSIONS}/pods?labelSelector=gpufairy.io/role=session")["items"]
        return {pod["metadata"]["labels"]["gpufairy.io/name"]: pod for pod in found}

    def life(self, session: str) -> tuple[str, int]:
        """Its pod's uid and the number of its first process."""
        pod = self.pods()[session]
        return pod["metadata"]["uid"], self.scene.cluster.pid(pod, "main")


@pytest.fixture(scope="module")
def lab(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    cluster.namespace(LAB)
    scene = Scene(cluster, own_image(cluster), tmp_path_factory.mktemp("chart"))
    tools, _, tag = own_image(cluster, "tools").rpartition(":")
    home = Path(tempfile.mkdtemp(prefix="fairy-lab-"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kim@home", "-f", home / "id"], check=True)
    with volumes(cluster, 3) as storage, one_driver(cluster):
        settings = {"images": {"default": f"docker.io/{BUSYBOX_IMAGE}"}, "kubernetes": {"server_url": URL}}
        values = scene.values(
            report_to=URL, server={"settings": settings, "url": URL}, service={"clusterIP": SERVER}, persistence={"storageClass": storage, "size": "1Gi"},
            sessions={
                "namespace": SESSIONS, "homes": {"storageClass": storage, "size": "1Gi"}, "toolsImage": {"repository": tools, "tag": tag}, "pullPolicy": "Never",
                "nodes": f"kubernetes.io/hostname={cluster.node}",
            },
        )  # fmt: skip
        values["agents"]["dra"] = {"enabled": True, "cdiPath": str(cluster.cdi)}
        try:
            scene.admin.helm("install", "gpufairy", ".", "--namespace", LAB, "--wait", "--timeout", "90s", values=values)
            yield Lab(scene, values, home)
        finally:
            ended(cluster, scene)
    shutil.rmtree(home)


@contextmanager
def one_driver(cluster: Cluster) -> Iterator[None]:
    """With a CDI file such as NVIDIA's toolkit makes."""
    cluster.answer("DELETE", "/apis/resource.k8s.io/v1/deviceclasses/gpu.fairy")
    vendor = cluster.cdi / "nvidia.json"
    device = {"name": FakeMachine((FakeGpu(),)).named().gpus[0].uuid, "containerEdits": {"env": ["VENDOR=1"]}}
    vendor.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device]}))
    yield
    vendor.unlink()
    for one in cluster.ask("GET", f"{SLICES}?fieldSelector=spec.driver%3Dgpu.fairy")["items"]:
        cluster.answer("DELETE", f"{SLICES}/{one['metadata']['name']}")


def ended(cluster: Cluster, scene: Scene) -> None:
    """Also what the chart leaves on purpose."""
    scene.admin.helm("uninstall", "gpufairy", "--namespace", LAB, "--ignore-not-found", "--wait", "--timeout", "60s")
    for namespace in (SESSIONS, LAB):
        cluster.answer("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        cluster.answer("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="module")
def kim(lab: Lab) -> Lab:
    """Signed in on another machine, by a token that the admin made; with a key."""
    assert "admin (admin)" in lab.inside("whoami")
    lab.inside("user", "add", "kim")
    token = lab.inside("token", "create", "--user", "kim").split()[-1]
    signed_in = lab.fairy("login", URL, said=f"{token}\n")
    assert "as kim (user)" in signed_in.stdout, signed_in.stderr
    assert lab.fairy("key", "add", str(lab.home / "id.pub")).returncode == 0
    return lab


def test_no_log_has_a_link_that_signs_in(lab):
    assert "/signin?code=" in lab.inside("web")
    assert "code=" not in lab.scene.admin.kubectl("--namespace", LAB, "logs", "deploy/gpufairy")


def test_a_job_from_outside_runs_on_the_node_and_its_results_come_back(kim):
    done = kim.fairy("run", "--gpus", "0", "--name", "job", "--", "sh", "-c", "hostname; echo 42 > /results/answer; exit 3")
    assert (done.returncode, done.stdout) == (3, "job\n"), done.stderr
    assert (kim.home / "results" / "job" / "answer").read_text() == "42\n"
    assert f'"node": "{kim.scene.cluster.node}"' in kim.fairy("show", "job", "--json").stdout


def test_a_part_of_the_node_s_gpu_is_given_out_by_the_agent(kim):
    kim.until(lambda: "A100" in kim.fairy("free").stdout, "the GPU to be offered")
    done = kim.fairy("run", "--gpus", "0.25", "--name", "quarter", "--", "sh", "-c", "echo $FAIRY_SHARE; cat /etc/ld.so.preload")
    assert done.returncode == 0, done.stderr + kim.fairy("why", "quarter").stdout
    share, preload = done.stdout.splitlines()
    assert share.endswith("=10240MiB/25%")
    assert preload.endswith("libfairyshare.so")


@pytest.fixture(scope="module")
def work(kim: Lab) -> str:
    """A session that stays."""
    done = kim.fairy("start", "--gpus", "0", "--memory", "256MiB", "--name", "work")
    assert done.returncode == 0, done.stderr
    return "work"


def test_ssh_lands_in_the_session_s_pod_where_fairy_knows_whose_it_is(kim, work):
    assert kim.ssh("whoami; pwd; fairy whoami; echo kept > note", work).splitlines() == ["kim", "/home/kim", f"kim (user) on {URL}, with a token for session"]


def test_a_home_moves_into_the_cluster_and_out_again(lab, tmp_path):
    moving, back = tmp_path / "moving", tmp_path / "back"
    home = moving / "homes" / "lee"
    (home / "code").mkdir(parents=True)
    (home / "code" / "train.py").write_text("print(1)\n")
    (home / "big").write_bytes(os.urandom(20 * 2**20))
    (home / "here").symlink_to("code")
    (moving / "manifest.json").write_text('{"format": 1}')
    (moving / "people.json").write_text('{"users": [{"name": "lee", "role": "user", "team": null, "share": 1, "disabled": false}]}')
    token = lab.inside("token", "create").split()[-1]
    assert lab.fairy("login", URL, said=f"{token}\n", home=tmp_path).returncode == 0
    there = lab.fairy("move", str(moving), URL, home=tmp_path)
    assert there.returncode == 0, there.stderr
    assert "home of lee: 2 files sent (20 MiB)" in there.stdout
    again = lab.fairy("move", URL, str(back), "--user", "lee", "--without", "history", home=tmp_path)
    assert again.returncode == 0, again.stderr
    assert contents(back / "homes" / "lee") == contents(home)


def contents(root: Path) -> dict[str, object]:
    paths = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return {str(path.relative_to(root)): path.readlink() if path.is_symlink() else path.read_bytes() for path in paths}


ALLOWED = [
    ("create", "pods", SESSIONS), ("get", "pods/exec", SESSIONS), ("get", "pods/log", SESSIONS), ("create", "secrets", SESSIONS), ("list", "nodes", ""), ("watch", "pods", LAB),
]  # fmt: skip
REFUSED = [
    ("create", "pods", LAB), ("get", "pods/exec", LAB), ("get", "secrets", LAB), ("get", "secrets", "kube-system"), ("list", "secrets", ""), ("delete", "persistentvolumeclaims", SESSIONS),
    ("delete", "persistentvolumeclaims", LAB), ("patch", "nodes", ""), ("create", "namespaces", ""), ("create", "rolebindings", SESSIONS), ("escalate", "roles", SESSIONS),
    ("impersonate", "users", ""), ("create", "serviceaccounts/token", SESSIONS), ("create", "clusterrolebindings", ""), ("get", "nodes/proxy", ""),
]  # fmt: skip


@pytest.mark.parametrize(("rights", "answer"), [(ALLOWED, True), (REFUSED, False)], ids=["what it needs", "no more"])
def test_the_server_may_do_what_sessions_need_and_no_more(lab, rights, answer):
    assert [right for right in rights if may(lab.scene.cluster, *right) is not answer] == []


def may(cluster: Cluster, verb: str, resource: str, namespace: str) -> bool:
    group = {"rolebindings": "rbac.authorization.k8s.io", "roles": "rbac.authorization.k8s.io", "clusterrolebindings": "rbac.authorization.k8s.io"}
    kind, _, below = resource.partition("/")
    asked = {"verb": verb, "resource": kind, "subresource": below, "namespace": namespace, "group": group.get(kind, "")}
    who = {"user": f"system:serviceaccount:{LAB}:gpufairy", "groups": [f"system:serviceaccounts:{LAB}", "system:serviceaccounts", "system:authenticated"]}
    return bool(cluster.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {**who, "resourceAttributes": asked}})["status"]["allowed"])


def test_an_upgrade_and_a_rollback_leave_sessions_and_what_is_known_as_they_were(kim, work):
    before, server = kim.life(work), kim.scene.address(LAB, "server")
    told = kim.values["server"]
    changed = {**kim.values, "server": {**told, "settings": {**told["settings"], "policy": {"half_life": "3d"}}}}
    for words, given in ((["upgrade", "gpufairy", "."], changed), (["rollback", "gpufairy", "1"], None)):
        kim.scene.admin.helm(*words, "--namespace", LAB, "--wait", "--timeout", "90s", values=given)
        server, old = kim.scene.address(LAB, "server"), server
        assert server != old
        until(lambda: fetched(f"{URL}/readyz"), "the server", UP_S)
        assert '"state": "RUNNING"' in kim.fairy("show", work, "--json").stdout
        assert "job" in kim.fairy("ps", "-a").stdout
        assert kim.life(work) == before
        assert kim.ssh("cat note", work) == "kept\n"


def test_the_agent_asks_is_let_in_and_reports(lab):
    node = lab.scene.cluster.node
    lab.until(lambda: node in lab.inside("node", "waiting"), "the agent to ask")
    lab.inside("node", "accept", node)
    lab.until(lambda: "A100" in lab.inside("smi"), "its readings")


def test_taking_the_chart_away_leaves_sessions_homes_and_data(kim, work):
    before = kim.life(work)
    kim.scene.admin.helm("uninstall", "gpufairy", "--namespace", LAB, "--wait", "--timeout", "60s")
    assert kim.life(work) == before
    claims = {place: kim.scene.cluster.ask("GET", f"/api/v1/namespaces/{place}/persistentvolumeclaims")["items"] for place in (LAB, SESSIONS)}
    assert [claim["metadata"]["name"] for claim in claims[LAB]] == ["gpufairy-data"]
    assert {claim["metadata"]["labels"]["gpufairy.io/owner"] for claim in claims[SESSIONS]} == {"kim", "lee"}
    kept = kim.scene.cluster.ask("GET", f"/apis/networking.k8s.io/v1/namespaces/{SESSIONS}/networkpolicies")["items"]
    assert len(kept) == 1, "what holds them stays with them"
    assert kim.scene.cluster.answer("GET", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SESSIONS}/roles/gpufairy-sessions")[0] == 404
