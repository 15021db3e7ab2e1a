"""Sessions as pods on a real kubelet: what is said when one does not begin or is ended, what is kept, and what can be opened in it."""
import asyncio
import io
import os
import signal
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from engine_waits import PATIENCE_S, is_running, read_to_end, seen, started, stop_all, until_exited, until_running, whole_log, whole_results
from pod_scene import TOKEN, UIDS, PodScene, pod_scene
from test_pod_spec import HOSTILE, asking

from builders import GIB, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, workload_id
from gpufairy.engines.contract import Command
from gpufairy.engines.doors import open_door
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.pod_settings import ClaimFolder, HomeClaims, ToolsBy
from gpufairy.engines.pod_spec import Here, pod_body, pod_name
from kube.cluster import Cluster
from kube.soon import soon

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
AT_ONCE, SOON = timedelta(0), timedelta(seconds=10)
MIB = 2**20


@pytest.fixture(scope="module")
def here(cluster_with_tools: Cluster) -> Iterator[PodScene]:
    with pod_scene(cluster_with_tools) as made:
        yield made


@pytest.fixture
async def engine(here: PodScene) -> AsyncIterator[KubernetesEngine]:
    async with started(here.engine()) as running:
        yield running
        await stop_all(running)
        for workload in await running.list_mine():
            await running.clear(workload.id)


async def until_why(engine: KubernetesEngine, session: Session, words: str) -> Workload:
    async def look() -> Workload | None:
        found = await seen(engine, session)
        return found if found is not None and words in found.why else None

    found: Workload = await soon(look, f"{words!r} to be said of {session.name}")
    return found


def pod_of(here: PodScene, session: Session) -> dict[str, Any]:
    told: dict[str, Any] = here.cluster.ask("GET", path_of(here, session))
    return told


def path_of(here: PodScene, session: Session) -> str:
    return f"/api/v1/namespaces/{here.namespace}/pods/{pod_name(session)}"


def pods_of(here: PodScene, session: Session) -> list[str]:
    """By label, in all namespaces, read past the engine."""
    found = here.cluster.ask("GET", f"/api/v1/pods?labelSelector=gpufairy.io/session={session.id},gpufairy.io/server={here.server_id}")["items"]
    return [one["metadata"]["uid"] for one in found]


@pytest.mark.parametrize("tools", [ToolsBy.VOLUME, ToolsBy.COPY])
@pytest.mark.parametrize("session", [a_session("true"), a_session(), HOSTILE], ids=["batch", "interactive", "hostile"])
def test_pod_security_restricted_takes_every_pod_of_ours(here: PodScene, session: Session, tools: ToolsBy):
    settings = replace(here.settings, folders={"data": ClaimFolder("datasets"), "scratch": ClaimFolder("scratch", writable=True)})
    body = pod_body(session, Here(20_001, here.server_id, tools, "home"), settings)
    made = here.cluster.ask("POST", f"/api/v1/namespaces/{here.namespace}/pods?dryRun=All&fieldValidation=Strict", body)
    assert made["spec"]["containers"][0]["command"] == body["spec"]["containers"][0]["command"]


async def test_a_command_is_run_to_the_letter(engine: KubernetesEngine):
    session = a_session("echo", "$(USER)", "$$(HOME)", "$HOME", "$$", "a\nb", "ü💥")
    await engine.launch(session)
    await until_exited(engine, session)
    assert (await whole_log(engine, session)).decode() == "$(USER) $$(HOME) $HOME $$ a\nb ü💥\n"


async def test_one_that_wants_too_much_memory_is_told_so(engine: KubernetesEngine):
    session = a_session("sh", "-c", "exec head -c 1000000000 /dev/zero | tail -c 999999999 >/dev/null", seat=a_seat(memory_bytes=32 * MIB))
    await engine.launch(session)
    found = await until_exited(engine, session)
    assert "out of memory: it wanted more than its 32 MiB. Ask for more by --memory" in found.why
    assert found.exit_code == 137


async def test_an_image_that_cannot_be_had_is_a_refusal_and_nothing_is_left_of_it(here: PodScene):
    async with started(here.engine(pull_policy="Never")) as engine:
        session = asking(a_session("true"), image="registry.invalid/none:1")
        await engine.launch(session)
        found = await until_exited(engine, session)
        assert found.refused
        assert f"its image cannot be had on {here.cluster.node}" in found.why
        assert "registry.invalid/none:1" in found.why
        await engine.clear(workload_id(session))
        assert await seen(engine, session) is None
        await soon(lambda: not pods_of(here, session), "its pod to go")
        assert here.cluster.answer("GET", f"/api/v1/namespaces/{here.namespace}/secrets/{pod_name(session)}")[0] == 404


async def test_one_that_was_refused_and_comes_again_has_one_pod(here: PodScene):
    session = a_session("echo", "at last")
    async with started(here.engine(pull_policy="Never")) as engine:
        await engine.launch(asking(session, image="registry.invalid/none:1"))
        await until_exited(engine, session)
        await engine.launch(session)
        assert len(pods_of(here, session)) == 1
        await soon(lambda: over_well(engine, session), "it to be done")
        assert await whole_log(engine, session) == b"at last\n"
        await engine.clear(workload_id(session))


async def over_well(engine: KubernetesEngine, session: Session) -> bool:
    found = await seen(engine, session)
    return found is not None and found.exit_code == 0


async def test_what_no_node_can_hold_is_told_with_kubernetes_reason(engine: KubernetesEngine):
    session = a_session("true", seat=a_seat(memory_bytes=2**50))
    await engine.launch(session)
    found = await until_why(engine, session, "Kubernetes finds no node for it yet: 0/")
    assert "Insufficient memory" in found.why


async def test_a_volume_that_cannot_be_mounted_is_told_by_its_events(here: PodScene):
    """Nothing on the pod says so."""
    name = f"nowhere-{here.server_id}"
    spec = {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadOnlyMany"], "hostPath": {"path": "/no/such/folder", "type": "Directory"}, "storageClassName": name}
    here.cluster.put("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    claim = {"accessModes": ["ReadOnlyMany"], "storageClassName": name, "resources": {"requests": {"storage": "1Mi"}}}
    here.cluster.put(f"/api/v1/namespaces/{here.namespace}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
    try:
        async with started(here.engine(shared_claim=name)) as engine:
            session = a_session("true")
            await engine.launch(session)
            found = await until_why(engine, session, "which has trouble: FailedMount")
            assert "/no/such/folder is not a directory" in found.why
            await stop_all(engine)
            await engine.clear(workload_id(session))
    finally:
        here.cluster.answer("DELETE", f"/api/v1/persistentvolumes/{name}")


async def test_a_pod_deleted_by_hand_is_told_as_such_and_its_log_is_kept(here: PodScene, engine: KubernetesEngine):
    session = a_session("sh", "-c", "echo so far; sleep 1000")
    await engine.launch(session)
    await until_running(engine, session)
    here.cluster.ask("DELETE", f"{path_of(here, session)}?gracePeriodSeconds=1")
    found = await until_exited(engine, session)
    assert found.why == "its pod was deleted in Kubernetes, not by gpufairy"
    assert await whole_log(engine, session) == b"so far\n"


async def test_a_pod_forced_away_is_over_without_an_exit_code(here: PodScene, engine: KubernetesEngine):
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await until_running(engine, session)
    here.cluster.ask("DELETE", f"{path_of(here, session)}?gracePeriodSeconds=0")
    found = await until_exited(engine, session)
    assert (found.exit_code, found.refused, found.why) == (None, False, "its pod was deleted in Kubernetes, not by gpufairy")


async def test_a_node_that_is_drained_is_named_as_the_reason(here: PodScene, engine: KubernetesEngine):
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await until_running(engine, session)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod_name(session)}, "deleteOptions": {"gracePeriodSeconds": 1}}
    here.cluster.ask("POST", f"{path_of(here, session)}/eviction", eviction)
    assert "its node is being drained" in (await until_exited(engine, session)).why


async def test_one_stopped_at_once_is_not_gone_before_its_processes_are(here: PodScene, engine: KubernetesEngine):
    """With a grace of 0 Kubernetes would forget it, and give its GPUs to somebody else, while it still runs."""
    session = a_session("sh", "-c", "trap '' TERM; sleep 1000")
    await engine.launch(session)
    await until_running(engine, session)
    pid = here.cluster.pid(pod_of(here, session), "main")
    await engine.stop(workload_id(session), AT_ONCE)
    await soon(lambda: here.cluster.answer("GET", path_of(here, session))[0] == 404, "its pod to go")
    assert not is_running(pid)
    assert "told to stop" in (await until_exited(engine, session)).why


async def test_one_stopped_as_soon_as_it_was_launched_goes(here: PodScene, engine: KubernetesEngine):
    """Before any watch has shown it."""
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await engine.stop(workload_id(session), AT_ONCE)
    await until_exited(engine, session)
    await soon(lambda: not pods_of(here, session), "its pod to go")


async def test_it_is_listed_as_soon_as_it_was_launched(engine: KubernetesEngine):
    session = a_session("sleep", "1000")
    await engine.launch(session)
    assert (await seen(engine, session)).session == session


async def test_an_empty_database_finds_every_session_with_the_values_of_its_variables(here: PodScene):
    sessions = [a_session("sleep", "1000", env=(("SEED", str(number)), ("EMPTY", ""), ("TEXT", "a\n$(USER) ü"))) for number in range(2)]
    async with started(here.engine()) as first:
        await asyncio.gather(*(first.launch(session) for session in sessions))
    async with started(here.engine()) as second:
        found = [workload.session for workload in await second.list_mine()]
        assert sorted(found, key=lambda one: one.id) == sessions
        await stop_all(second)


async def test_variables_come_as_they_were_given_and_the_image_brings_none_of_ours(engine: KubernetesEngine):
    session = a_session("sh", "-c", 'printf "%s|" "$TEXT" "$EMPTY" "$FAIRY_URL" "$HOME" "${LD_PRELOAD-unset}"', env=(("TEXT", "a\n$(USER) ü"), ("EMPTY", "")))
    await engine.launch(session)
    await until_exited(engine, session)
    assert (await whole_log(engine, session)).decode() == "a\n$(USER) ü||http://127.0.0.1:8420|/home/student1||"


async def test_the_token_is_the_sessions_alone_and_no_account_of_kubernetes_is_inside(engine: KubernetesEngine):
    session = a_session("sh", "-c", "cat $FAIRY_TOKEN_FILE; echo; stat -c %a $FAIRY_TOKEN_FILE; ls /var/run/secrets/kubernetes.io 2>&1; id -u")
    await engine.launch(session)
    await until_exited(engine, session)
    lines = (await whole_log(engine, session)).decode().splitlines()
    assert lines[:2] == [TOKEN, "600"]
    assert "No such file" in lines[2]
    assert lines[3:] == [str(UIDS["student1"])]


async def test_what_a_stopped_one_wrote_is_kept_to_its_last_word(engine: KubernetesEngine):
    session = a_session("sh", "-c", "trap 'echo last; exit 0' TERM; echo first; while :; do sleep 0.1; done")
    await engine.launch(session)
    chunks = engine.logs(workload_id(session), follow=True)
    assert await anext(chunks) == b"first\n"
    await engine.stop(workload_id(session), SOON)
    assert b"last\n" in b"".join([chunk async for chunk in chunks])  # its shell may say a word of its own about the sleep
    await until_exited(engine, session)
    await engine.clear(workload_id(session))
    assert b"last\n" in await whole_log(engine, session)


async def test_of_a_large_log_its_kubelet_keeps_the_newest_file_and_that_is_read_whole(engine: KubernetesEngine):
    session = a_session("sh", "-c", "head -c 6750000 /dev/urandom | base64 -w 99 | head -c 8999999; echo; echo end")
    await engine.launch(session)
    await until_exited(engine, session)
    text = await whole_log(engine, session)
    assert text.endswith(b"end\n")
    assert len(text) == await engine.log_size(workload_id(session)) == 9_000_004
    rest = b"".join([chunk async for chunk in engine.logs(workload_id(session), False, from_bytes=9_000_000)])
    assert rest == b"end\n"
    await engine.clear(workload_id(session))
    assert await whole_log(engine, session) == text


async def test_a_log_whose_kubelet_begins_another_file_is_read_on_from_there(engine: KubernetesEngine):
    session = a_session("sh", "-c", "mkfifo ~/go; head -c 8000000 /dev/urandom | base64 -w 99; read line < ~/go; echo after; sleep 1000")
    await engine.launch(session)
    await until_running(engine, session)
    before = 0

    async def begun_anew() -> bool:
        """The kubelet looks every few seconds whether it is over 10 MB: that may be before all of it is written."""
        nonlocal before
        last, before = before, max(before, size := await engine.log_size(workload_id(session)))
        return size < last

    await soon(begun_anew, "the kubelet to begin another file")
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "echo on > ~/go")))
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 0
    await stream.close()
    await soon(lambda: more_than(engine, session, 1), "the last word")
    rest = b"".join([chunk async for chunk in engine.logs(workload_id(session), False, from_bytes=before)])
    assert rest.endswith(b"after\n")
    assert len(rest) < before


async def more_than(engine: KubernetesEngine, session: Session, size: int) -> int:
    found = await engine.log_size(workload_id(session))
    return found if found > size else 0


async def test_a_terminal_knows_its_new_size(engine: KubernetesEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    looks = 'until [ "$(stty size 2>/dev/null)" = "43 132" ]; do sleep 0.1; done; echo seen'  # sizes travel beside what is typed
    stream = await engine.open(workload_id(session), Command(("sh", "-c", looks), terminal=True, columns=80, rows=24))
    stream.resize(132, 43)
    async with asyncio.timeout(20):
        assert b"seen" in await read_to_end(stream.stdout)
    await stream.close()


async def test_the_end_of_the_input_is_heard_and_what_is_still_said_comes(engine: KubernetesEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "cat; echo all; exit 7")))
    await asyncio.to_thread(os.write, stream.stdin, b"some\n")
    os.close(stream.stdin)
    stream.stdin = -1
    assert await read_to_end(stream.stdout) == b"some\nall\n"
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 7
    await stream.close()


async def test_a_signal_reaches_a_command_without_a_terminal(engine: KubernetesEngine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "trap 'echo heard; exit 9' USR1; echo ready; while :; do sleep 0.1; done")))
    assert await asyncio.to_thread(os.read, stream.stdout, 6) == b"ready\n"
    stream.signal(signal.SIGUSR1)
    assert await read_to_end(stream.stdout) == b"heard\n"
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 9
    await stream.close()


async def test_the_pod_for_files_leaves_when_it_is_unused_and_comes_again(here: PodScene, engine: KubernetesEngine):
    engine._files.idle_s = 4
    path = f"/api/v1/namespaces/{here.namespace}/pods/files-home-student2-{UIDS['student2']}"
    door = await engine.files_door("student2")
    stream = await open_door(door, Command((door.shell, "-c", "echo kept > note; pwd")))
    assert await read_to_end(stream.stdout) == b"/home/student2\n"
    await stream.close()
    await soon(lambda: here.cluster.ask("GET", path)["status"]["phase"] == "Succeeded", "the pod for files to leave")
    stream = await open_door(await engine.files_door("student2"), Command((door.shell, "-c", "read x < note; echo $x")))
    assert await read_to_end(stream.stdout) == b"kept\n"
    await stream.close()


async def test_tools_by_copy_do_the_same_as_by_a_volume(here: PodScene):
    async with started(here.engine(tools_by=ToolsBy.COPY)) as engine:
        session = a_session("sh", "-c", "test -x /opt/fairy/bin/fairy && echo 42 > /results/answer; touch /opt/fairy/x 2>/dev/null || echo read-only")
        await engine.launch(session)
        await until_exited(engine, session)
        assert await whole_log(engine, session) == b"read-only\n"
        with tarfile.open(fileobj=io.BytesIO(await whole_results(engine, session))) as archive:
            assert archive.extractfile("answer").read() == b"42\n"
        await engine.clear(workload_id(session))


async def test_a_home_of_one_node_is_shared_by_the_sessions_of_its_owner_there(here: PodScene):
    async with started(here.engine(homes=HomeClaims(here.storage_class, "1Gi", one_node=True))) as engine:
        writer, reader = (a_session("sh", "-c", command, owner="kim") for command in ("echo from one > ~/note; sleep 1000", "cat ~/note"))
        await engine.launch(writer)
        await until_running(engine, writer)
        claim = here.cluster.ask("GET", f"/api/v1/namespaces/{here.namespace}/persistentvolumeclaims/home-kim-{UIDS['kim']}")
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        await engine.launch(reader)
        await until_exited(engine, reader)
        assert await whole_log(engine, reader) == b"from one\n"
        await stop_all(engine)


async def test_a_folder_that_the_cluster_does_not_have_is_named(here: PodScene):
    async with started(here.engine(folders={"data": ClaimFolder("no-such-claim")})) as engine:
        session = asking(a_session("true"), mounts=("data",))
        await engine.launch(session)
        await until_why(engine, session, 'persistentvolumeclaim "no-such-claim" not found')
        await stop_all(engine)
        await engine.clear(workload_id(session))


async def test_nothing_can_be_opened_in_one_that_has_not_begun(engine: KubernetesEngine):
    session = a_session("true", seat=a_seat(memory_bytes=GIB * 2**20))
    await engine.launch(session)
    with pytest.raises(EngineRefused, match="does not run here"):
        await engine.open(workload_id(session), Command(("true",)))
