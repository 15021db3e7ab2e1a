"""The doctor at a real cluster: what the chart grants is all that is asked for, a missing verb is named with the line that grants it, nothing is made."""
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pod_scene import PodScene, pod_scene
from test_engine_pods_rights import SEES, WHOLE, account, as_charted, forget_account, without

from gpufairy.core.doctor import Finding, Verdict
from gpufairy.core.doctor_checks import look
from gpufairy.core.doctor_facts import Facts, Kube, KubeFacts
from gpufairy.engines.kube_doctor import KubeWanted, kube_facts
from kube.cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[PodScene]:
    with pod_scene(cluster) as made:
        yield made


async def found(here: PodScene, config: Path | None = None, **wanted: object) -> KubeFacts:
    asked = KubeWanted(str(config or here.cluster.kubeconfig), namespace=here.namespace, in_use=True)
    return await kube_facts(replace(asked, **wanted), {})


def of(check: str, facts: KubeFacts) -> Finding:
    (one,) = look(Facts(kube=facts), [check])
    return one


async def test_the_admin_of_a_cluster_sees_all_of_it_and_nothing_is_made(scene: PodScene):
    facts = await found(scene, storage_class=scene.storage_class)
    assert (facts.state, facts.denied, facts.pod_security) == (Kube.ANSWERS, (), "restricted")
    assert facts.version is not None
    assert facts.storage_classes is not None
    assert scene.storage_class in facts.storage_classes
    assert [of(check, facts).verdict for check in ("kubernetes", "kubernetes-rights", "pod-security", "storage-class")] == [Verdict.OK] * 4
    assert of("device-plugin", facts).verdict in (Verdict.OK, Verdict.WARN)
    assert scene.pods() == []


async def test_what_the_chart_grants_is_all_that_the_doctor_asks_for(scene: PodScene, tmp_path: Path):
    with as_charted(scene, tmp_path) as config:
        facts = await found(scene, config)
    assert facts.denied == ()
    assert facts.account.startswith(f"system:serviceaccount:{scene.namespace}:")
    assert facts.pod_security == "restricted", "which the account may not read, and finds by trying"
    assert facts.agents is not None
    assert facts.gpu_resources is not None
    assert facts.storage_classes is not None


@pytest.mark.parametrize(("resource", "verb"), [("pods", "create"), ("pods/exec", "get"), ("secrets", "delete")])
async def test_a_verb_that_is_missing_is_named_with_the_line_that_grants_it(scene: PodScene, tmp_path: Path, resource: str, verb: str):
    granted = {**WHOLE, "persistentvolumeclaims": ["create", "get"]}
    config = account(scene, tmp_path, without(granted, resource, verb), SEES)
    try:
        facts = await found(scene, config)
    finally:
        forget_account(scene)
    rights = of("kubernetes-rights", facts)
    assert (rights.verdict, rights.found) == (Verdict.BAD, f"the account may not {verb} {resource}")
    name = f"gpufairy-{resource.replace('/', '-')}"
    assert f"kubectl create role {name} -n {scene.namespace} --verb={verb} --resource={resource}" in rights.fix
    assert rights.fix[-1].endswith(f"--serviceaccount={scene.namespace}:fairy-{scene.server_id}")


async def test_a_namespace_that_enforces_nothing_is_told(scene: PodScene):
    bare = f"{scene.namespace}-bare"
    scene.cluster.namespace(bare, {})
    try:
        judged = of("pod-security", await found(scene, namespace=bare))
    finally:
        scene.cluster.answer("DELETE", f"/api/v1/namespaces/{bare}")
    assert (judged.verdict, judged.found) == (Verdict.WARN, f"the namespace {bare} enforces no Pod Security")
    assert judged.fix == (f"kubectl label --overwrite namespace {bare} pod-security.kubernetes.io/enforce=restricted",)


async def test_a_namespace_or_class_that_is_not_there_is_told(scene: PodScene):
    assert of("kubernetes", await found(scene, namespace="no-such-namespace")).verdict is Verdict.BAD
    assert of("kubernetes", await found(scene, namespace="no-such-namespace", in_use=False)).verdict is Verdict.SKIPPED
    assert of("storage-class", await found(scene, storage_class="no-such-class")).verdict is Verdict.BAD


async def test_a_cluster_that_does_not_answer_is_silent_and_none_is_absent(tmp_path: Path):
    config = tmp_path / "config"
    user, where = {"name": "u", "user": {"token": "t"}}, {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
    text = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "clusters": [where], "users": [user]}
    config.write_text(str(text).replace("True", "true").replace("'", '"'))
    silent = await kube_facts(KubeWanted(str(config), in_use=True), {}, limit_s=2.0)
    assert (silent.state, of("kubernetes", silent).verdict) == (Kube.SILENT, Verdict.BAD)
    absent = await kube_facts(KubeWanted(), {"HOME": str(tmp_path)})
    assert (absent.state, of("kubernetes", absent).verdict) == (Kube.ABSENT, Verdict.SKIPPED)
