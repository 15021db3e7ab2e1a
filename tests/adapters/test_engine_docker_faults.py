"""A daemon that is silent, stopped, killed, full or forgetful: nothing is declared dead, nothing runs twice, each reason in words."""
import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from docker_scene import Scene, said, scene
from engine_waits import PATIENCE_S, is_running, seen, started, stop_all, until, until_exited, until_it, until_running, whole_log

from builders import a_session
from daemons import RealDaemon, make_docker, make_podman, running
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, workload_id
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_words import BEGUN_AGAIN

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", params=["docker", "podman"])
def own_daemon(request: pytest.FixtureRequest) -> Iterator[RealDaemon]:
    """One that may be stopped: the others' is not touched."""
    make, more = (make_docker, ["--live-restore"]) if request.param == "docker" else (make_podman, [])
    with running(make, *more) as daemon:
        yield daemon


@pytest.fixture
def here(own_daemon: RealDaemon, docker_tools: Path) -> Iterator[Scene]:
    with scene(own_daemon, docker_tools) as made:
        yield made


async def until_answer(engine: DockerEngine, session: Session) -> Workload | None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(EngineSilent):
                return await seen(engine, session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_daemon_that_goes_is_silent_and_what_ran_is_adopted_when_it_is_back(here: Scene, number: int):
    changed = asyncio.Event()
    engine = here.engine()
    await engine.start(changed.set)
    session = a_session("sleep", "1000")
    await engine.launch(session)
    before = await until_running(engine, session)
    await asyncio.to_thread(here.daemon.signal, number)
    with pytest.raises(EngineSilent):
        await engine.list_mine()
    with pytest.raises(EngineSilent):
        await engine.launch(a_session("true"))
    changed.clear()
    await asyncio.to_thread(here.daemon.start)
    assert await until_answer(engine, session) == before
    assert is_running(before.pid)
    await asyncio.wait_for(changed.wait(), PATIENCE_S)
    assert "after" in await said(engine, a_session("echo", "after"))
    await stop_all(engine)
    await engine.close()


async def test_what_ended_while_nobody_listened_is_seen_afterwards(here: Scene):
    session = a_session("sh", "-c", "read line < ~/go; exit 7")
    async with started(here.engine()) as first:
        await said(first, a_session("mkfifo", "/home/student1/go"))
        await first.launch(session)
        await until_running(first, session)
    fifo = here.places.home("student1") / "go"
    await asyncio.to_thread(fifo.write_text, "on\n")
    async with started(here.engine()) as second:
        assert (await until_exited(second, session)).exit_code == 7


async def test_a_daemon_that_is_not_there_is_silent_from_the_start(docker_tools: Path, own_daemon: RealDaemon, tmp_path: Path):
    nowhere = RealDaemon("nobody", tmp_path, [])
    with pytest.raises(EngineSilent, match="gave no answer"):
        await Scene(nowhere, docker_tools, tmp_path).engine().start(lambda: None)


async def test_an_empty_database_finds_every_session_by_its_labels(here: Scene):
    sessions = [a_session("sleep", "1000", env=(("SEED", str(number)),)) for number in range(3)]
    async with started(here.engine()) as first:
        await asyncio.gather(*(first.launch(session) for session in sessions))
    async with started(here.engine()) as second:
        assert sorted((workload.session for workload in await second.list_mine()), key=lambda s: s.id) == sorted(sessions, key=lambda s: s.id)
        await stop_all(second)


async def test_one_launched_many_times_at_once_runs_once(here: Scene):
    session = a_session("sh", "-c", "echo once; sleep 1000")
    async with started(here.engine()) as one, started(here.engine()) as other:
        await asyncio.gather(*(engine.launch(session) for engine in (one, other, one, other)))
        assert len(here.containers()) == 1
        await until_running(one, session)
        await one.launch(session)
        await one.stop(workload_id(session), timedelta(0))
        assert await whole_log(one, session) == b"once\n"


async def test_one_made_and_never_started_is_not_listed_and_is_started_by_the_next_launch(here: Scene):
    session = a_session("echo", "started")
    async with started(here.engine()) as engine:
        async def never(*_: object) -> None:
            raise EngineSilent("the server died here")

        start, engine._launcher._start = engine._launcher._start, never
        with pytest.raises(EngineSilent):
            await engine.launch(session)
        engine._launcher._start = start
        assert len(here.containers()) == 1
        assert await seen(engine, session) is None
        await engine.launch(session)
        await until_exited(engine, session)
        assert await whole_log(engine, session) == b"started\n"
        assert len(here.containers()) == 1


async def test_what_a_dead_server_left_half_made_is_removed_by_the_next(here: Scene):
    session = a_session("true")
    async with started(here.engine()) as engine:
        async def never(*_: object) -> None:
            raise EngineSilent("the server died here")

        engine._launcher._start = never
        with pytest.raises(EngineSilent):
            await engine.launch(session)
    async with started(here.engine()):
        assert here.containers() == []


async def test_a_stop_while_it_is_half_made_leaves_nothing(here: Scene):
    session = a_session("true")
    async with started(here.engine()) as engine:
        async def never(*_: object) -> None:
            raise EngineSilent("the server died here")

        engine._launcher._start = never
        with pytest.raises(EngineSilent):
            await engine.launch(session)
        await engine.stop(workload_id(session), timedelta(0))
        assert here.containers() == []


async def test_one_that_is_started_again_is_not_begun_twice(here: Scene):
    session = a_session("sh", "-c", "echo begun; sleep 1000")
    async with started(here.engine()) as engine:
        await engine.launch(session)
        await until_running(engine, session)
        await until(lambda: here.places.log(str(workload_id(session))).read_bytes() == b"begun\n")
        await asyncio.to_thread(here.daemon.ask, "POST", f"/containers/{here.inspect(session)['Id']}/kill")
        assert (await until_exited(engine, session)).exit_code == 128 + signal.SIGKILL
        await asyncio.to_thread(here.daemon.ask, "POST", f"/containers/{here.inspect(session)['Id']}/start")
        assert (await until_it(engine, session, lambda found: found.why == BEGUN_AGAIN)).exit_code is None
        assert await whole_log(engine, session) == b"begun\n"


async def test_one_that_ended_before_it_was_started_again_has_the_exit_code_of_its_first_start(here: Scene):
    session = a_session("sh", "-c", "echo begun; exit 7")
    async with started(here.engine()) as engine:
        assert await said(engine, session) == "begun\n"
        await asyncio.to_thread(here.daemon.ask, "POST", f"/containers/{here.inspect(session)['Id']}/start")
        assert (await until_exited(engine, session)).exit_code == 7
        assert await whole_log(engine, session) == b"begun\n"


class Forgetful:
    """Between the engine and its daemon: does what is asked, and loses the answer to a call."""

    def __init__(self, daemon: RealDaemon, path: Path) -> None:
        self.daemon, self.socket = daemon, path
        self.lose = b""
        self.lost = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_daemon, from_daemon = await asyncio.open_unix_connection(self.daemon.socket), None
        from_daemon, to = to_daemon
        losing = asyncio.Event()

        async def there() -> None:
            while chunk := await reader.read(65536):
                if self.lose and self.lose in chunk.split(b"\r\n", 1)[0]:
                    losing.set()
                to.write(chunk)
                await to.drain()
            to.close()

        async def back() -> None:
            while chunk := await from_daemon.read(65536):
                if losing.is_set():
                    self.lost += 1
                    break
                writer.write(chunk)
                await writer.drain()
            writer.close()

        with contextlib.suppress(ConnectionError):
            await asyncio.gather(there(), back())

    def ask(self, *words: object, **more: object) -> object:
        return self.daemon.ask(*words, **more)

    def containers(self, **labels: str) -> list[dict[str, object]]:
        return self.daemon.containers(**labels)


@contextlib.asynccontextmanager
async def forgetful(here: Scene) -> AsyncIterator[Forgetful]:
    between = Forgetful(here.daemon, here.folder / "between")
    server = await asyncio.start_unix_server(between.serve, between.socket)
    try:
        yield between
    finally:
        server.close()


@pytest.mark.parametrize("call", [b"/containers/create", b"/start"])
async def test_a_lost_answer_makes_no_second_container(docker_daemon: RealDaemon, docker_tools: Path, call: bytes):
    with scene(docker_daemon, docker_tools) as here:
        async with forgetful(here) as between, started(replace(here, daemon=between).engine()) as engine:
            await said(engine, a_session("true"))  # its image is known now
            session = a_session("sh", "-c", "echo once")
            between.lose = call
            with pytest.raises(EngineSilent):
                await engine.launch(session)
            between.lose = b""
            assert between.lost == 1
            await engine.launch(session)
            await until_exited(engine, session)
            assert await whole_log(engine, session) == b"once\n"
            assert len(docker_daemon.containers(**{"gpufairy.session": session.id, "gpufairy.server": here.server_id})) == 1


async def test_a_full_disk_of_the_daemon_is_told_as_such(docker_tools: Path):
    with contextlib.ExitStack() as undo:
        daemon = undo.enter_context(running(small_docker))
        here = undo.enter_context(scene(daemon, docker_tools))
        async with started(here.engine()) as engine:
            assert "fits" in await said(engine, a_session("echo", "fits"))
            filler = daemon.folder / "data" / "filler"
            with contextlib.suppress(OSError):
                filler.write_bytes(bytes(64 * 2**20))
            with pytest.raises(EngineRefused, match="disk of the container engine is full") as refused:
                await engine.launch(a_session("true"))
            assert "Free room" in refused.value.next_step
            filler.unlink()
            assert "again" in await said(engine, a_session("echo", "again"))


def small_docker(folder: Path) -> RealDaemon:
    daemon = make_docker(folder)
    (folder / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder / "data"], check=True)
    return daemon


async def test_a_full_disk_of_ours_is_told_as_such(docker_daemon: RealDaemon, docker_tools: Path):
    with scene(docker_daemon, docker_tools) as here:
        async with started(here.engine()) as engine:
            runs = here.places.runs
            mount("-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs", str(runs))
            try:
                with pytest.raises(EngineRefused, match="No space left"):
                    await engine.launch(a_session("true"))
            finally:
                unmount(runs)
            assert here.containers() == []


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def unmount(path: Path) -> None:
    subprocess.run(["umount", path], check=True)
