"""What every engine must do, said only through the contract. A new engine joins by an entry in ENGINES."""
import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from docker_scene import scene
from engine_waits import (
    PATIENCE_S,
    read_to_end,
    seen,
    started,
    stop_all,
    until_exited,
    until_running,
    whole_log,
    whole_results,
)
from pod_scene import pod_scene

from builders import a_gpu_seat, a_node, a_seat, a_session
from gpufairy.core.errors import EngineRefused, NoSuchThing
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.engines.contract import Command, Credentials, Engine
from gpufairy.engines.fake import FakeContainers, FakeEngine
from gpufairy.engines.process import ProcessEngine

AT_ONCE, SOON = timedelta(0), timedelta(seconds=10)
Maker = Callable[[], Engine]  # each call: another server's engine over the same machine


def fake(_: Path) -> Maker:
    containers = FakeContainers()
    return lambda: FakeEngine((a_node(),), containers)


def process(folder: Path) -> Maker:
    return lambda: ProcessEngine(folder, a_node(), lambda _: Credentials("http://127.0.0.1:8420", "secret-token"))


ENGINES = {"fake": fake, "process": process}
PODS = pytest.param("kubernetes", marks=[pytest.mark.system, pytest.mark.kubernetes])  # on a real kubelet
DAEMONS = [pytest.param(name, marks=pytest.mark.system) for name in ("docker", "podman")]  # the docker engine on each of two


@pytest.fixture(params=[*ENGINES, *DAEMONS, PODS])
def make_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maker]:
    if request.param in ENGINES:
        yield ENGINES[request.param](tmp_path)
        return
    if request.param == "kubernetes":
        with pod_scene(request.getfixturevalue("cluster_with_tools")) as there:
            yield there.engine
        return
    with scene(request.getfixturevalue(f"{request.param}_daemon"), request.getfixturevalue("docker_tools")) as here:
        yield here.engine


@pytest.fixture
async def engine(make_engine: Maker) -> AsyncIterator[Engine]:
    async with started(make_engine()) as running:
        yield running
        await stop_all(running)


async def test_a_command_runs_and_its_exit_code_is_seen(engine: Engine):
    session = a_session("sh", "-c", "echo hello; exit 3")
    await engine.launch(session)
    assert (await until_exited(engine, session)).exit_code == 3
    assert await whole_log(engine, session) == b"hello\n"


async def test_success_is_exit_code_zero(engine: Engine):
    session = a_session("true")
    await engine.launch(session)
    assert (await until_exited(engine, session)).exit_code == 0


async def test_a_workload_carries_the_session_it_was_launched_for(engine: Engine):
    session = a_session("sleep", "1000", seat=a_seat("here", a_gpu_seat(0, PARTS // 2)))
    await engine.launch(session)
    workload = await until_running(engine, session)
    assert workload.session == session
    assert workload.node == "here"
    assert workload.started_at is not None


async def test_launching_twice_runs_once(engine: Engine):
    session = a_session("echo", "once")
    await engine.launch(session)
    await engine.launch(session)
    await until_exited(engine, session)
    await engine.launch(session)
    assert await whole_log(engine, session) == b"once\n"


async def test_another_attempt_is_another_workload(engine: Engine):
    first = a_session("echo", "tried")
    second = replace(first, attempt=2)
    for session in (first, second):
        await engine.launch(session)
        await until_exited(engine, session)
    assert {workload.id.attempt for workload in await engine.list_mine()} == {1, 2}
    assert await whole_log(engine, second) == b"tried\n"


async def test_an_interactive_session_runs_until_it_is_stopped(engine: Engine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    await engine.stop(workload_id(session), SOON)
    assert not (await until_exited(engine, session)).alive


async def test_a_batch_session_without_a_command_is_refused(engine: Engine):
    session = a_session("true")
    with pytest.raises(EngineRefused):
        await engine.launch(replace(session, request=replace(session.request, command=())))
    assert await engine.list_mine() == []


async def test_stopping_at_once_ends_it(engine: Engine):
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await until_running(engine, session)
    await engine.stop(workload_id(session), AT_ONCE)
    assert "told to stop" in (await until_exited(engine, session)).why


async def test_stopping_and_clearing_what_is_not_there_is_fine(engine: Engine):
    await engine.stop(WorkloadId("nobody", 1), SOON)
    await engine.clear(WorkloadId("nobody", 1))


async def test_stopping_one_leaves_the_others_alone(engine: Engine):
    doomed, spared = a_session("sleep", "1000"), a_session("sleep", "1000")
    for session in (doomed, spared):
        await engine.launch(session)
        await until_running(engine, session)
    await engine.stop(workload_id(doomed), AT_ONCE)
    await until_exited(engine, doomed)
    assert (await until_running(engine, spared)).alive


async def test_a_cleared_workload_is_no_longer_listed_but_keeps_its_log_and_results(engine: Engine):
    session = a_session("sh", "-c", 'echo kept; echo result > "$FAIRY_RESULTS/out.txt"')
    await engine.launch(session)
    await until_exited(engine, session)
    await engine.clear(workload_id(session))
    assert await seen(engine, session) is None
    assert await whole_log(engine, session) == b"kept\n"
    assert await whole_results(engine, session) != b""


async def test_what_still_runs_cannot_be_cleared(engine: Engine):
    session = a_session("sleep", "1000")
    await engine.launch(session)
    await until_running(engine, session)
    with pytest.raises(EngineRefused):
        await engine.clear(workload_id(session))


async def test_an_exit_is_told_without_being_asked(make_engine: Maker):
    engine, changed = make_engine(), asyncio.Event()
    await engine.start(changed.set)
    session = a_session("true")
    await engine.launch(session)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await seen(engine, session)) is None or found.alive:
            changed.clear()
            await changed.wait()
    await engine.close()


async def test_a_restarted_server_finds_what_runs_and_what_ended(make_engine: Maker):
    running, ended = a_session("sleep", "1000"), a_session("sh", "-c", "exit 4")
    async with started(make_engine()) as first:
        for session in (running, ended):
            await first.launch(session)
        before = await until_running(first, running)
        await until_exited(first, ended)
    async with started(make_engine()) as second:
        assert await seen(second, running) == before
        assert (await until_exited(second, ended)).exit_code == 4
        await second.launch(running)
        assert await seen(second, running) == before
        await second.stop(workload_id(running), AT_ONCE)
        await until_exited(second, running)


async def test_an_adopted_workload_is_told_of_too(make_engine: Maker):
    session, changed = a_session("sleep", "1000"), asyncio.Event()
    async with started(make_engine()) as first:
        await first.launch(session)
        await until_running(first, session)
    second = make_engine()
    await second.start(changed.set)
    await second.stop(workload_id(session), AT_ONCE)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await seen(second, session)) is None or found.alive:
            changed.clear()
            await changed.wait()
    await second.close()


async def test_following_a_log_ends_with_the_workload(engine: Engine):
    session = a_session("sh", "-c", "echo first; sleep 1000")
    await engine.launch(session)
    chunks = engine.logs(workload_id(session), follow=True)
    assert await anext(chunks) == b"first\n"
    await engine.stop(workload_id(session), AT_ONCE)
    async with asyncio.timeout(PATIENCE_S):
        _ = [chunk async for chunk in chunks]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_log_is_read_on_from_an_offset(engine: Engine, follow: bool):
    session = a_session("echo", "0123456789")
    await engine.launch(session)
    await until_exited(engine, session)
    assert await engine.log_size(workload_id(session)) == 11
    for begin, rest in ((0, b"0123456789\n"), (7, b"789\n"), (11, b"")):
        assert b"".join([chunk async for chunk in engine.logs(workload_id(session), follow, from_bytes=begin)]) == rest


async def test_an_offset_beyond_the_end_is_of_a_log_that_was_emptied_and_begins_anew(engine: Engine):
    session = a_session("echo", "anew")
    await engine.launch(session)
    await until_exited(engine, session)
    assert b"".join([chunk async for chunk in engine.logs(workload_id(session), False, from_bytes=1000)]) == b"anew\n"


async def test_the_log_of_nobody_has_no_size(engine: Engine):
    assert await engine.log_size(WorkloadId("nobody", 1)) == 0


async def test_a_log_can_be_followed_before_the_launch(engine: Engine):
    session = a_session("echo", "early")
    following = asyncio.create_task(whole_log(engine, session))
    await asyncio.sleep(0)
    await engine.launch(session)
    assert await following == b"early\n"


async def test_the_log_of_nobody_is_empty(engine: Engine):
    assert await whole_log(engine, a_session("true"), follow=False) == b""


async def test_results_come_as_a_tar(engine: Engine):
    session = a_session("sh", "-c", 'echo 42 > "$FAIRY_RESULTS/answer.txt"')
    await engine.launch(session)
    await until_exited(engine, session)
    with tarfile.open(fileobj=io.BytesIO(await whole_results(engine, session))) as archive:
        assert archive.getnames() == ["answer.txt"]
        assert archive.extractfile("answer.txt").read() == b"42\n"


async def test_results_are_listed_and_read_one_by_one(engine: Engine):
    session = a_session("sh", "-c", 'echo 42 > "$FAIRY_RESULTS/answer.txt"')
    await engine.launch(session)
    await until_exited(engine, session)
    listed = await engine.result_files(workload_id(session), 10)
    assert ([(one.path, one.size_bytes) for one in listed.named], listed.count) == ([("answer.txt", 3)], 1)
    found = await engine.result_file(workload_id(session), "answer.txt")
    assert b"".join([chunk async for chunk in found.chunks]) == b"42\n"
    with pytest.raises(NoSuchThing):
        await engine.result_file(workload_id(session), "../answer.txt")


async def test_no_results_are_an_empty_stream(engine: Engine):
    session = a_session("true")
    await engine.launch(session)
    await until_exited(engine, session)
    assert await whole_results(engine, session) == b""
    assert await whole_results(engine, a_session("true")) == b""


async def test_a_command_can_be_opened_beside_it(engine: Engine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sh", "-c", "echo beside; exit 5")))
    assert await read_to_end(stream.stdout) == b"beside\n"
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) == 5
    await stream.close()


async def test_what_was_opened_ends_with_the_workload(engine: Engine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    stream = await engine.open(workload_id(session), Command(("sleep", "1000")))
    await engine.stop(workload_id(session), AT_ONCE)
    assert await asyncio.wait_for(stream.wait(), PATIENCE_S) > 128
    await stream.close()


async def test_nothing_can_be_opened_in_what_does_not_run(engine: Engine):
    with pytest.raises(EngineRefused):
        await engine.open(WorkloadId("nobody", 1), Command(("true",)))


async def test_a_server_in_the_session_is_reached_and_answers(engine: Engine):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    async with echo_server(engine, session) as port:
        with await engine.connect(workload_id(session), port) as connected:
            connected.sendall(b"hello")
            assert await asyncio.wait_for(asyncio.to_thread(connected.recv, 100), PATIENCE_S) == b"hello"


@pytest.mark.parametrize("where", [1, 0, 65536, -1, "/no/such/socket", "/etc/passwd", ""])
async def test_where_nobody_listens_is_refused(engine: Engine, where: int | str):
    session = a_session()
    await engine.launch(session)
    await until_running(engine, session)
    with pytest.raises(EngineRefused):
        await engine.connect(workload_id(session), where)


async def test_what_does_not_run_has_no_door_and_no_ports(engine: Engine):
    with pytest.raises(EngineRefused):
        await engine.door(WorkloadId("nobody", 1))
    with pytest.raises(EngineRefused):
        await engine.connect(WorkloadId("nobody", 1), 80)


@asynccontextmanager
async def echo_server(engine: Engine, session: Session) -> AsyncIterator[int]:
    """In the session; the fake engine runs nothing, so there it is ours."""
    if isinstance(engine, FakeEngine):
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]
        return
    stream = await engine.open(workload_id(session), Command(("python3", "-u", "-c", ECHO_SERVER)))
    try:
        yield int(await asyncio.wait_for(asyncio.to_thread(os.read, stream.stdout, 100), PATIENCE_S))
    finally:
        await stream.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(100))
    await writer.drain()
    writer.close()


ECHO_SERVER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1])
connected = server.accept()[0]
connected.sendall(connected.recv(100))
"""


async def test_the_request_may_not_widen_what_gpus_it_sees(engine: Engine):
    session = a_session(
        "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SEED",
        env=(("CUDA_VISIBLE_DEVICES", "all"), ("SEED", "7")), seat=a_seat("here", a_gpu_seat(1)),
    )  # fmt: skip
    await engine.launch(session)
    await until_exited(engine, session)
    assert (await whole_log(engine, session)).splitlines()[-1] == b"GPU-simulated-1 7"


async def test_nodes_say_when_they_were_seen(engine: Engine):
    (node,) = await engine.nodes()
    assert node.name == "here"
    assert node.seen_at is not None


async def test_every_engine_says_what_holds_sessions_apart(engine: Engine):
    assert engine.isolation
    assert engine.name
