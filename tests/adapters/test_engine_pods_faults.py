"""An API server that is away, busy, forgetful or says no: nothing is declared dead, no second pod, and each no names its thing and what to do."""
import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import PATIENCE_S, seen, started, stop_all, until_exited, until_running, whole_log
from pod_scene import PodScene, pod_scene
from test_engine_pods import pods_of, until_why

from builders import a_session
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadState, workload_id
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.pod_settings import ToolsBy
from gpufairy.engines.pod_spec import Here, pod_body, pod_name
from kube.between import GONE, Between, too_many
from kube.cluster import Cluster
from kube.relay import Relay, relay
from kube.soon import soon
from waits import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
AT_ONCE = timedelta(0)
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def here(cluster_with_tools: Cluster) -> Iterator[PodScene]:
    with pod_scene(cluster_with_tools) as made:
        yield made


@pytest.fixture
def own_scene(cluster_with_tools: Cluster) -> Iterator[PodScene]:
    """With a namespace in which nobody else is hindered."""
    with pod_scene(cluster_with_tools) as made:
        yield made


@contextlib.asynccontextmanager
async def in_between(here: PodScene, folder: Path) -> AsyncIterator[tuple[Between, KubernetesEngine]]:
    async with Between(here.cluster).open() as way, started(here.engine(kubeconfig=way.kubeconfig(folder))) as engine:
        yield way, engine
        way.lose, way.says = None, {}
        await stop_all(engine)


def secrets_of(here: PodScene, session: Session) -> int:
    return int(here.cluster.answer("GET", f"/api/v1/namespaces/{here.namespace}/secrets/{pod_name(session)}")[0] == 200)


def relayed(here: PodScene, way: Relay, folder: Path) -> Path:
    path = folder / "config.json"
    there = here.cluster.kubeconfig.read_text().replace(here.cluster.url, f"https://127.0.0.1:{way.port}")
    path.write_text(there.replace('"ca.crt"', f'"{here.cluster.authority}"'))
    return path


async def until_answer(engine: KubernetesEngine, session: Session) -> Workload | None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(EngineSilent):
                return await seen(engine, session)
            await asyncio.sleep(0.05)


async def test_an_api_server_that_is_away_for_a_while_costs_nobody_anything(here: PodScene, tmp_path: Path):
    with relay(here.cluster.port) as way:
        async with started(here.engine(kubeconfig=relayed(here, way, tmp_path))) as engine:
            session = a_session("sh", "-c", "echo on; read line < ~/go; echo off", owner="kim")
            await make_fifo(engine, "kim")
            await engine.launch(session)
            before, pods = await until_running(engine, session), pods_of(here, session)
            following = asyncio.create_task(whole_log(engine, session))
            way.cut()
            assert await seen(engine, session) == before
            with pytest.raises(EngineSilent, match="The API server at 127"):
                await engine.launch(a_session("true"))
            engine._pods.longest_stale_s = 0.1
            await soon(lambda: is_silent(engine), "it to be silent")
            way.mend()
            assert await until_answer(engine, session) == before
            assert pods_of(here, session) == pods
            go = a_session("sh", "-c", "echo on > ~/go", owner="kim")
            await engine.launch(go)
            assert (await until_exited(engine, session)).exit_code == 0
            assert await following == b"on\noff\n"
            await until_exited(engine, go)


async def make_fifo(engine: KubernetesEngine, owner: str) -> None:
    session = a_session("mkfifo", f"/home/{owner}/go", owner=owner)
    await engine.launch(session)
    await until_exited(engine, session)


async def is_silent(engine: KubernetesEngine) -> bool:
    try:
        await engine.list_mine()
    except EngineSilent as error:
        return "Kubernetes gives no news of pods" in str(error)
    return False


async def test_what_ended_while_the_api_server_was_away_is_seen_when_it_is_back(here: PodScene, tmp_path: Path):
    with relay(here.cluster.port) as way:
        async with started(here.engine(kubeconfig=relayed(here, way, tmp_path))) as engine:
            session, doomed = a_session("sh", "-c", "sleep 3; exit 7"), a_session("sleep", "1000")
            for one in (session, doomed):
                await engine.launch(one)
                await until_running(engine, one)
            way.cut()
            here.cluster.ask("DELETE", f"/api/v1/namespaces/{here.namespace}/pods/{pod_name(doomed)}?gracePeriodSeconds=0")
            path = f"/api/v1/namespaces/{here.namespace}/pods/{pod_name(session)}"
            await soon(lambda: here.cluster.ask("GET", path)["status"]["phase"] == "Failed", "it to end")
            assert (await seen(engine, session)).state is WorkloadState.RUNNING
            way.mend()
            assert (await until_exited(engine, session)).exit_code == 7
            assert "deleted in Kubernetes" in (await until_exited(engine, doomed)).why


async def test_an_api_server_that_has_too_much_to_do_is_asked_again(here: PodScene, tmp_path: Path):
    async with in_between(here, tmp_path) as (way, engine):
        session = a_session("echo", "once")
        way.says = {("POST", "/pods"): too_many(3), ("POST", "/secrets"): too_many(2)}
        await engine.launch(session)
        assert not any(way.says.values())
        await until_exited(engine, session)
        assert len(pods_of(here, session)) == 1


async def test_one_that_stays_busy_has_refused_nothing(here: PodScene, tmp_path: Path):
    async with in_between(here, tmp_path) as (way, engine):
        session = a_session("echo", "once")
        way.says = {("POST", "/pods"): too_many(50)}
        with pytest.raises(EngineSilent, match=f"create pod {here.namespace}/{pod_name(session)}.*Too many requests"):
            await engine.launch(session)
        assert secrets_of(here, session) == 0
        way.says = {}
        await engine.launch(session)
        assert (await until_exited(engine, session)).exit_code == 0
        assert len(pods_of(here, session)) == 1


@pytest.mark.parametrize("lost", [("POST", "/pods"), ("POST", "/secrets")], ids=["pod", "secret"])
async def test_a_lost_answer_makes_no_second_pod(here: PodScene, tmp_path: Path, lost: tuple[str, str]):
    async with in_between(here, tmp_path) as (way, engine):
        session = a_session("echo", "once", env=(("SEED", "7"),))
        way.lose = lost
        with pytest.raises(EngineSilent, match="broke off"):
            await engine.launch(session)
        way.lose = None
        assert way.lost == 1
        await engine.launch(session)
        found = await until_exited(engine, session)
        assert (found.exit_code, found.session) == (0, session)
        assert await whole_log(engine, session) == b"once\n"
        assert len(pods_of(here, session)) == 1


async def test_two_servers_that_launch_the_same_at_once_make_one_pod(here: PodScene):
    session = a_session("sleep", "1000")
    async with started(here.engine()) as one, started(here.engine()) as other:
        await asyncio.gather(*(engine.launch(session) for engine in (one, other, one, other)))
        assert len(pods_of(here, session)) == 1
        await until_running(other, session)
        await stop_all(one)


async def test_a_place_in_the_watch_that_was_forgotten_is_found_again(here: PodScene, tmp_path: Path):
    async with in_between(here, tmp_path) as (way, engine):
        doomed, spared = a_session("sleep", "1000"), a_session("sleep", "1000")
        for session in (doomed, spared):
            await engine.launch(session)
            await until_running(engine, session)
        way.watch_says = GONE
        here.cluster.ask("DELETE", f"/api/v1/namespaces/{here.namespace}/pods/{pod_name(doomed)}?gracePeriodSeconds=1")
        await soon(lambda: way.ended_watches, "the watch to end")
        way.watch_says = b""
        assert "deleted in Kubernetes" in (await until_exited(engine, doomed)).why
        assert (await seen(engine, spared)).state is WorkloadState.RUNNING


async def test_a_full_quota_is_named_and_waited_for(own_scene: PodScene):
    here, name = own_scene, "two-pods"
    quotas = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    here.cluster.put(quotas, {"metadata": {"name": name}, "spec": {"hard": {"pods": "1"}}})
    until(lambda: "hard" in here.cluster.ask("GET", f"{quotas}/{name}").get("status", {}), "the quota to count")
    async with started(here.engine()) as engine:
        first, second = a_session("sleep", "1000"), a_session("echo", "my turn")
        await engine.launch(first)
        await until_running(engine, first)
        await engine.launch(second)
        found = await until_why(engine, second, f"exceeded quota: {name}")
        assert found.state is WorkloadState.STARTING
        assert f"create pod {here.namespace}/{pod_name(second)}" in found.why
        assert "kubectl describe quota" in found.why
        assert (pods_of(here, second), secrets_of(here, second)) == ([], 0)
        await engine.stop(workload_id(first), AT_ONCE)
        await until_exited(engine, first)
        assert (await until_exited(engine, second)).exit_code == 0


async def test_one_that_waits_for_a_quota_can_be_stopped(own_scene: PodScene):
    here = own_scene
    quotas = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    here.cluster.put(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    until(lambda: "hard" in here.cluster.ask("GET", f"{quotas}/none").get("status", {}), "the quota to count")
    async with started(here.engine()) as engine:
        session = a_session("true")
        await engine.launch(session)
        assert (await seen(engine, session)).state is WorkloadState.STARTING
        await engine.stop(workload_id(session), AT_ONCE)
        assert await seen(engine, session) is None


@contextlib.contextmanager
def policy(here: PodScene, name: str, words: str) -> Iterator[None]:
    """Denies every session's pod of that namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": words}]}
    only = {"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": here.namespace}}}}
    here.cluster.put(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"], **only}}
    here.cluster.put(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    body = pod_body(a_session("true"), Here(20_001, here.server_id, ToolsBy.VOLUME), here.settings)
    try:
        until(lambda: words in str(here.cluster.answer("POST", f"/api/v1/namespaces/{here.namespace}/pods?dryRun=All", body)[1]), "the policy to be heeded")
        yield
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            here.cluster.answer("DELETE", f"{ADMISSION}/{kind}/{name}")


async def test_a_rule_of_the_cluster_that_says_no_is_passed_on_in_its_words(own_scene: PodScene):
    here = own_scene
    async with started(here.engine()) as engine:
        session = a_session("true")
        with policy(here, f"no-pods-{here.server_id}", "sessions need the label cost-centre"):
            with pytest.raises(EngineRefused, match=f"create pod {here.namespace}/{pod_name(session)}.*sessions need the label cost-centre") as refused:
                await engine.launch(session)
            assert f"no-pods-{here.server_id}" in str(refused.value)
            assert "A rule of this cluster says so" in refused.value.next_step
            assert (pods_of(here, session), secrets_of(here, session)) == ([], 0)


async def test_a_namespace_that_is_not_there_is_named(here: PodScene):
    with pytest.raises(EngineRefused, match='namespaces "no-such-namespace" not found'):
        await here.engine(namespace="no-such-namespace").start(lambda: None)
