"""What a server may do in a cluster: the chart's rights are enough and reach no further, and one that is missing is named."""
import asyncio
import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import PATIENCE_S, seen, started, until_exited, until_running, whole_log, whole_results
from pod_scene import PodScene, pod_scene
from test_engine_pods import pods_of

from builders import a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command
from kube.cluster import Cluster
from kube.control_plane import write_kubeconfig
from kube.helm import Admin
from kube.soon import soon

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
AT_ONCE = timedelta(0)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def own_scene(cluster_with_tools: Cluster) -> Iterator[PodScene]:
    with pod_scene(cluster_with_tools) as made:
        yield made


WHOLE: dict[str, list[str]] = {
    "pods": ["create", "get", "list", "watch", "delete"], "secrets": ["create", "get", "list", "delete"], "pods/log": ["get"],
    "pods/exec": ["create", "get"], "persistentvolumeclaims": ["create"], "events": ["list"],
}  # fmt: skip


def account(here: PodScene, folder: Path, granted: dict[str, list[str]], cluster_wide: dict[str, list[str]]) -> Path:
    """A kubeconfig of an account that may do this and nothing else."""
    cluster, name, place = here.cluster, f"fairy-{here.server_id}", f"/namespaces/{here.namespace}"
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": here.namespace}]
    cluster.put(f"/api/v1{place}/serviceaccounts", {"metadata": {"name": name}})
    for kind, path, rules in (("Role", f"{RBAC}{place}/roles", granted), ("ClusterRole", f"{RBAC}/clusterroles", cluster_wide)):
        written = [{"apiGroups": [""], "resources": [resource], "verbs": verbs} for resource, verbs in rules.items() if verbs]
        cluster.put(path, {"metadata": {"name": name}, "rules": written})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        cluster.put(path.replace("roles", "rolebindings"), {"metadata": {"name": name}, "roleRef": reference, "subjects": subject})
    return kubeconfig_of(here, folder, here.namespace, name)


def kubeconfig_of(here: PodScene, folder: Path, namespace: str, name: str) -> Path:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = here.cluster.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)["status"]["token"]
    path = folder / "account.json"
    write_kubeconfig(here.cluster, path, {"token": token})
    path.write_text(path.read_text().replace('"ca.crt"', f'"{here.cluster.authority}"'))
    return path


def forget_account(here: PodScene) -> None:
    for kind in ("clusterroles", "clusterrolebindings"):
        here.cluster.answer("DELETE", f"{RBAC}/{kind}/fairy-{here.server_id}")


SEES: dict[str, list[str]] = {"pods": ["list", "watch"], "nodes": ["list", "watch"]}


def without(granted: dict[str, list[str]], resource: str, verb: str) -> dict[str, list[str]]:
    return {**granted, resource: [one for one in granted[resource] if one != verb]}


@pytest.mark.parametrize(("resource", "verb", "what"), [
    ("pods", "create", "create pod"), ("secrets", "create", "create secret"), ("persistentvolumeclaims", "create", "create persistentvolumeclaim"),
])  # fmt: skip
async def test_a_right_that_is_missing_is_named_with_the_thing(own_scene: PodScene, tmp_path: Path, resource: str, verb: str, what: str):
    here = own_scene
    config = account(here, tmp_path, without(WHOLE, resource, verb), SEES)
    try:
        async def launched() -> None:
            async with started(here.engine(kubeconfig=config)) as engine:
                await engine.launch(a_session("true"))

        with pytest.raises(EngineRefused, match=rf'{what} {here.namespace}/.*cannot {verb} resource "{resource}"') as refused:
            await launched()
        assert "Grant that verb on that resource to the account of" in refused.value.next_step
        assert here.pods() == []
    finally:
        forget_account(here)


@pytest.mark.parametrize("resource", ["pods", "nodes"])
async def test_a_server_that_may_not_see_what_there_is_says_so_at_once(own_scene: PodScene, tmp_path: Path, resource: str):
    config = account(own_scene, tmp_path, without(WHOLE, "pods", "watch"), without(SEES, resource, "watch"))
    try:
        async with asyncio.timeout(15):
            with pytest.raises(EngineRefused, match=f'watch {resource}.*cannot watch resource "{resource}"') as refused:
                await own_scene.engine(kubeconfig=config).start(lambda: None)
        assert "Grant that verb" in refused.value.next_step
    finally:
        forget_account(own_scene)


@contextlib.contextmanager
def as_charted(here: PodScene, folder: Path) -> Iterator[Path]:
    """A kubeconfig with what the chart grants to the server, and nothing else."""
    values = {"sessions": {"namespace": here.namespace, "createNamespace": False}, "agents": {"enabled": False}}
    documents = Admin(here.cluster, folder).rendered("--show-only", "templates/rbac.yaml", namespace=here.namespace, values=values)
    paths = {
        "ServiceAccount": f"/api/v1/namespaces/{here.namespace}/serviceaccounts", "Role": f"{RBAC}/namespaces/{here.namespace}/roles",
        "RoleBinding": f"{RBAC}/namespaces/{here.namespace}/rolebindings", "ClusterRole": f"{RBAC}/clusterroles", "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    }  # fmt: skip
    try:
        for one in documents:
            here.cluster.put(paths[one["kind"]], one)
        (name,) = [one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount"]
        yield kubeconfig_of(here, folder, here.namespace, name)
    finally:
        for one in documents:
            here.cluster.answer("DELETE", f"{paths[one['kind']]}/{one['metadata']['name']}")


async def test_what_the_chart_grants_is_enough(own_scene: PodScene, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A session's whole life: launched, read, entered, its results fetched, adopted by the next server with its variables, stopped, cleared."""
    session = a_session("sh", "-c", "echo hello; echo 42 > /results/answer; read line < /dev/zero", env=(("SEED", "7"),))
    with as_charted(own_scene, tmp_path) as config:
        async with started(own_scene.engine(kubeconfig=config)) as first:
            await first.launch(session)
            await until_running(first, session)
            assert await first.nodes() != []
        async with started(own_scene.engine(kubeconfig=config)) as second:
            assert (await seen(second, session)).session == session
            stream = await second.open(workload_id(session), Command(("sh", "-c", "exit 5")))
            assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 5
            await stream.close()
            await second.stop(workload_id(session), AT_ONCE)
            await until_exited(second, session)
            await second.clear(workload_id(session))
            assert await whole_log(second, session) == b"hello\n"
            assert await whole_results(second, session) != b""
            await soon(lambda: not pods_of(own_scene, session), "its pod to go")
    assert [one.getMessage() for one in caplog.records if "cannot" in one.getMessage() or "403" in one.getMessage()] == []


async def test_no_right_that_the_chart_grants_reaches_other_namespaces_secrets_or_changes_anything_there(own_scene: PodScene, tmp_path: Path):
    with as_charted(own_scene, tmp_path) as config:
        token = json.loads(config.read_text())["users"][0]["user"]["token"]
        allowed = {what: is_allowed(own_scene, token, *what) for what in FORBIDDEN}
    assert not any(allowed.values()), allowed


FORBIDDEN = [
    ("get", "", "secrets", "default"), ("create", "", "pods", "default"), ("delete", "", "pods", "kube-system"), ("create", "", "pods/exec", "default"),
    ("patch", "", "nodes", ""), ("create", "rbac.authorization.k8s.io", "roles", ""), ("impersonate", "", "users", ""), ("list", "", "secrets", ""),
    ("create", "", "serviceaccounts/token", ""),
]  # fmt: skip


def is_allowed(here: PodScene, token: str, verb: str, group: str, resource: str, namespace: str) -> bool:
    kind, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": kind, "subresource": part, **({"namespace": namespace} if namespace else {})}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    return bool(here.cluster.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, token=token)["status"]["allowed"])
