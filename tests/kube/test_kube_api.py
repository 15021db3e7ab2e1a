"""The client on a real API server: ways in, calls, refusals in words, and what is kept by a watch while the way is cut."""
import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.watch import Watched
from kube.cluster import Cluster
from kube.connect_proxy import connect_proxy
from kube.fake_api import write_config
from kube.relay import relay
from kube.soon import soon

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
NAMESPACE = f"client-{os.getpid()}"  # the cluster is shared with other test processes
MAPS, PODS = f"/api/v1/namespaces/{NAMESPACE}/configmaps", f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> None:
    cluster.namespace(NAMESPACE)


def by(path: Path, **env: str) -> KubeApi:
    return KubeApi(load_access(path, None, {"PATH": os.environ["PATH"], **env}))


def config(folder: Path, cluster: Cluster, user: dict[str, Any] | None = None, *, server: str = "", **more: Any) -> Path:
    told = {"certificate-authority": str(cluster.authority), **more}
    return write_config(folder, server or cluster.url, {"token": cluster.token} if user is None else user, **{name: value for name, value in told.items() if value})


def gated(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that no scheduler touches."""
    held = {"name": "main", "image": "none", "command": ["true"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {"containers": [held], "schedulingGates": [{"name": "test/held"}]}}


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"kept": "yes"}}, "data": data}


async def test_a_token_and_a_certificate_open_the_door(cluster):
    for path in (cluster.kubeconfig, cluster.kubelet_kubeconfig):
        async with by(path) as api:
            assert (await api.version())[0] == 1
            assert (await api.get(f"/api/v1/nodes/{cluster.node}"))["metadata"]["name"] == cluster.node


async def test_a_service_account_is_used_in_a_pod_and_its_token_read_again_when_it_is_rotated(cluster, tmp_path):
    made = cluster.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    (tmp_path / "token").write_text(made["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(cluster.authority.read_bytes())
    (tmp_path / "namespace").write_text(NAMESPACE)
    access = load_access(None, None, {"KUBERNETES_SERVICE_HOST": cluster.address, "KUBERNETES_SERVICE_PORT": str(cluster.port)}, tmp_path)
    assert access.namespace == NAMESPACE
    async with KubeApi(access) as api:
        with pytest.raises(KubeRefused, match=rf"refused to list pods in namespace {NAMESPACE}: pods is forbidden: User .*{NAMESPACE}:default.* cannot list") as told:
            _ = [one async for one in api.list(PODS)]
        assert (told.value.status, told.value.reason) == (403, "Forbidden")
        assert "Grant that verb on that resource to the account of service account in" in told.value.next_step
        (tmp_path / "new").write_text(cluster.token)
        (tmp_path / "new").rename(tmp_path / "token")
        assert [one async for one in api.list(PODS)] == []


async def test_a_program_of_the_kubeconfig_whose_token_is_no_longer_taken_is_asked_anew(cluster, tmp_path):
    script = tmp_path / "give-token"
    script.write_text(f"""#!/bin/sh
token={cluster.token}; [ -e {tmp_path}/asked ] || token=expired
touch {tmp_path}/asked
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "'$token'"}}}}'
""")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}}
    async with by(config(tmp_path, cluster, user)) as api:
        assert (await api.create(f"{MAPS}?", a_map("by-program")))["metadata"]["name"] == "by-program"
        await api.delete(f"{MAPS}/by-program")


async def test_a_program_may_give_a_certificate(cluster, tmp_path):
    given = {"clientCertificateData": (cluster.folder / "kubelet.crt").read_text(), "clientKeyData": (cluster.folder / "kubelet.key").read_text()}
    (tmp_path / "given").write_text(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": given}))
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(tmp_path / "given")]}}
    async with by(config(tmp_path, cluster, user)) as api:
        assert (await api.get(f"/api/v1/nodes/{cluster.node}"))["metadata"]["name"] == cluster.node


async def test_a_token_that_nobody_knows_is_refused_in_words(cluster, tmp_path):
    async with by(config(tmp_path, cluster, {"token": "wrong"})) as api:
        with pytest.raises(KubeRefused, match=r"Unauthorized \(401 Unauthorized\)"):
            await api.get(f"/api/v1/nodes/{cluster.node}")


async def test_the_servers_name_is_looked_at_and_may_be_another_than_its_address(cluster, tmp_path):
    with relay(cluster.port) as way:
        server = f"https://localhost:{way.port}"
        async with by(config(tmp_path, cluster, server=server)) as api:
            with pytest.raises(KubeSilent, match=r"shows a certificate that kubeconfig .* does not trust \(.*localhost") as told:
                await api.get("/version")
            assert told.value.reason == "certificate"
        async with by(config(tmp_path, cluster, server=server, **{"tls-server-name": "127.0.0.1"})) as api:
            assert await api.version()
        async with by(config(tmp_path, cluster, server=server, **{"insecure-skip-tls-verify": True})) as api:
            assert await api.version()
        async with by(config(tmp_path, cluster, server=server, **{"certificate-authority": str(cluster.folder / "kube-controller-manager.crt"), "tls-server-name": "127.0.0.1"})) as api:
            with pytest.raises(KubeSilent, match=r"does not trust"):
                await api.version()


@pytest.mark.parametrize("where", ["kubeconfig", "environment"])
async def test_a_proxy_is_gone_through(cluster, tmp_path, where):
    with connect_proxy() as proxy:
        path = config(tmp_path, cluster, **({"proxy-url": proxy.url} if where == "kubeconfig" else {}))
        async with by(path, **({"HTTPS_PROXY": proxy.url} if where == "environment" else {})) as api:
            assert await api.version()
        assert proxy.asked == [f"{cluster.address}:{cluster.port}"]


async def test_things_are_made_read_changed_and_deleted(cluster):
    async with by(cluster.kubeconfig) as api:
        made = await api.create(MAPS, a_map("one", a="1"))
        assert "managedFields" not in made["metadata"]
        with pytest.raises(KubeRefused, match=rf'refused to create configmap {NAMESPACE}/one: configmaps "one" already exists \(409 AlreadyExists\)'):
            await api.create(MAPS, a_map("one"))
        assert (await api.patch(f"{MAPS}/one", {"data": {"b": "2"}}))["data"] == {"a": "1", "b": "2"}
        assert (await api.patch(f"{MAPS}/one", [{"op": "remove", "path": "/data/a"}], kind="json"))["data"] == {"b": "2"}
        assert (await api.patch(f"{MAPS}/one", {"data": {"c": "3"}}, kind="strategic"))["data"] == {"b": "2", "c": "3"}
        assert (await api.get(f"{MAPS}/one"))["metadata"]["uid"] == made["metadata"]["uid"]
        await api.delete(f"{MAPS}/one", uid="11111111-2222-3333-4444-555555555555")
        await api.get(f"{MAPS}/one")
        await api.delete(f"{MAPS}/one", uid=made["metadata"]["uid"])
        await api.delete(f"{MAPS}/one")
        with pytest.raises(KubeRefused, match=r"\(404 NotFound\)"):
            await api.get(f"{MAPS}/one")


async def test_what_is_applied_is_made_or_brought_to_it_and_anothers_fields_are_taken_only_by_force(cluster):
    async with by(cluster.kubeconfig) as api:
        await api.apply(f"{MAPS}/two", a_map("two", a="1"), manager="fairy")
        assert (await api.apply(f"{MAPS}/two", a_map("two", b="2"), manager="fairy"))["data"] == {"b": "2"}
        with pytest.raises(KubeRefused, match=r'conflict with "fairy"') as told:
            await api.apply(f"{MAPS}/two", a_map("two", b="3"), manager="other", force=False)
        assert told.value.causes[0].field == ".data.b"
        await api.delete(f"{MAPS}/two")


async def test_a_dry_run_changes_nothing_and_a_field_that_nobody_knows_is_refused(cluster):
    async with by(cluster.kubeconfig) as api:
        assert (await api.create(MAPS, a_map("three"), dry_run=True))["metadata"]["uid"]
        assert (await api.apply(f"{MAPS}/three", a_map("three"), manager="fairy", dry_run=True))["metadata"]["name"] == "three"
        with pytest.raises(KubeRefused, match="NotFound"):
            await api.get(f"{MAPS}/three")
        with pytest.raises(KubeRefused, match=r'unknown field "spec.oops"'):
            await api.create(PODS, {**gated("odd"), "spec": {**gated("odd")["spec"], "oops": 1}})


async def test_lists_come_in_pages_and_by_label_or_field(cluster):
    async with by(cluster.kubeconfig) as api:
        await asyncio.gather(*(api.create(MAPS, a_map(f"page-{number}")) for number in range(7)))
        names = [one["metadata"]["name"] async for one in api.list(MAPS, labels="kept=yes", limit=3)]
        assert names == [f"page-{number}" for number in range(7)]
        assert [one["metadata"]["name"] async for one in api.list(MAPS, fields="metadata.name=page-3")] == ["page-3"]
        await api.delete(MAPS)
        assert "page-0" not in [one["metadata"]["name"] async for one in api.list(MAPS)]


async def test_parts_of_things_are_reached_status_binding_and_eviction(cluster):
    async with by(cluster.kubeconfig) as api:
        body = gated("bound")
        del body["spec"]["schedulingGates"]
        await api.create(PODS, {**body, "spec": {**body["spec"], "schedulerName": "nobody"}})
        await api.patch(f"{PODS}/bound/status", {"status": {"message": "ours"}})
        assert (await api.get(f"{PODS}/bound"))["status"]["message"] == "ours"
        await api.create(f"{PODS}/bound/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"}, "target": {"kind": "Node", "name": cluster.node}})
        assert (await api.get(f"{PODS}/bound"))["spec"]["nodeName"] == cluster.node
        await api.create(f"{PODS}/bound/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "bound"}, "deleteOptions": {"gracePeriodSeconds": 0}})

        async def is_gone() -> bool:
            return not [one async for one in api.list(PODS, fields="metadata.name=bound")]

        await soon(is_gone, "it to go")


async def test_a_quota_and_a_rule_for_pods_are_refusals_that_say_what_to_do(cluster):
    tight, strict = f"tight-{os.getpid()}", f"strict-{os.getpid()}"
    cluster.namespace(tight)
    cluster.put("/api/v1/namespaces", {"metadata": {"name": strict, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    cluster.put(f"/api/v1/namespaces/{tight}/resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    async with by(cluster.kubeconfig) as api:
        async def refused(namespace: str) -> KubeRefused | None:
            try:
                await api.create(f"/api/v1/namespaces/{namespace}/pods", gated("a"))
            except KubeRefused as error:
                return error
            await api.delete(f"/api/v1/namespaces/{namespace}/pods/a", grace_s=0)
            return None

        told = await soon(lambda: refused(tight), "the quota to be known to all")
        assert "exceeded quota: none" in str(told) or "status unknown for quota" in str(told)
        cluster.namespace(strict)
        told = await refused(strict)
        assert told is not None
        assert "violates PodSecurity" in str(told)
        assert "pod-security.kubernetes.io/enforce" in told.next_step
    for name in (tight, strict):
        cluster.ask("DELETE", f"/api/v1/namespaces/{name}")


async def test_a_refusal_has_the_id_of_the_servers_audit_log(cluster):
    async with by(cluster.kubeconfig) as api:
        with pytest.raises(KubeRefused) as told:
            await api.get(f"{MAPS}/none")
        assert len(told.value.request_id) == 36


def slim(one: dict[str, Any]) -> tuple[str, str]:
    return one["metadata"]["name"], one["metadata"].get("annotations", {}).get("note", "")


async def test_what_happens_is_kept_also_over_a_cut_and_with_odd_signs(cluster, tmp_path):
    changes: list[Any] = []
    with relay(cluster.port) as way:
        async with by(cluster.kubeconfig) as direct, by(config(tmp_path, cluster, server=f"https://127.0.0.1:{way.port}")) as api:
            await direct.create(PODS, gated("a", annotations={"note": "x\u0085y\u2028z"}))
            watched = Watched(api, PODS, slim=slim, on_change=lambda old, new: changes.append((old, new)))
            running = asyncio.create_task(watched.run())
            await watched.ready.wait()
            assert dict(watched.items) == {f"{NAMESPACE}/a": ("a", "x\u0085y\u2028z")}
            await direct.create(PODS, gated("b"))
            await soon(lambda: f"{NAMESPACE}/b" in watched.items, "b")
            way.cut()
            await soon(lambda: watched.stale_since is not None and isinstance(watched.trouble, KubeSilent), "the cut to be known")
            await direct.delete(f"{PODS}/a", grace_s=0)
            await direct.create(PODS, gated("c"))
            assert set(watched.items) == {f"{NAMESPACE}/a", f"{NAMESPACE}/b"}
            way.mend()
            await soon(lambda: set(watched.items) == {f"{NAMESPACE}/b", f"{NAMESPACE}/c"}, "what happened meanwhile")
            assert (watched.stale_since, watched.trouble) == (None, None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await direct.delete(PODS, grace_s=0)
    assert [(old and old[0], new and new[0]) for old, new in changes if old is None or new is None] == [(None, "a"), (None, "b"), ("a", None), (None, "c")]


async def test_a_kind_that_nobody_defined_is_waited_for(cluster):
    async with by(cluster.kubeconfig) as api:
        watched = Watched(api, "/apis/none.test/v1/things", slim=slim)
        running = asyncio.create_task(watched.run())
        await soon(lambda: watched.trouble is not None, "the refusal")
        assert isinstance(watched.trouble, KubeRefused)
        assert "is what defines that kind of object installed?" in watched.trouble.next_step
        assert not watched.ready.is_set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
