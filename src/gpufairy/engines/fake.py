"""An engine in memory, for tests and journeys. Its containers outlive it, so a test can play a restart; and it fails on order.

What commands do is played by fake_shell.py; what it does not know runs until the test ends it with `containers.exit(...)`.
"""
import asyncio
import io
import os
import socket
import tarfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.node import Node
from gpufairy.core.result_file import ResultBytes, ResultFile, ResultFiles
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState, workload_id
from gpufairy.engines.archive import pumped
from gpufairy.engines.contract import Command, Door, DoorKind, ImageShelf
from gpufairy.engines.doors import connect_door
from gpufairy.engines.fake_shell import play
from gpufairy.engines.process_env import visible_devices
from gpufairy.engines.result_folder import is_text, not_there

HUNG_UP = 128 + 1
KILLED = 128 + 9
TERMINATED = 128 + 15


@dataclass(slots=True)
class Container:
    session: Session
    state: WorkloadState
    started_at: datetime
    exit_code: int | None = None
    why: str = ""
    listed: bool = True  # until cleared; its log and results stay
    log: bytearray = field(default_factory=bytearray)
    results: dict[str, bytes] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class FakeContainers:
    """The world outside the server: what runs, and what the test has ordered to go wrong."""

    running: dict[WorkloadId, Container] = field(default_factory=dict)
    launches: list[WorkloadId] = field(default_factory=list)  # every one that started something, in order
    refuse_next: list[str] = field(default_factory=list)  # each: the words of one refusal
    silent: str = ""  # while not empty: no call is answered, and this is said
    lose_answers: int = 0  # so many launches are done and not confirmed
    delay: timedelta = timedelta(0)  # before every answer
    deaf: bool = False  # stop() is heard and nothing ends: a process that cannot be killed
    opened_prints: bytes | None = None  # what any command opened beside prints, before it ends at once
    slow_start: bool = False  # new ones stay STARTING until begin()
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def exit(self, workload: WorkloadId, code: int | None, why: str = "") -> None:
        container = self.running[workload]
        container.state, container.exit_code, container.why = WorkloadState.EXITED, code, why
        self.tell(container)

    def begin(self, workload: WorkloadId) -> None:
        container = self.running[workload]
        container.state = WorkloadState.RUNNING
        self.tell(container)

    def vanish(self, workload: WorkloadId) -> None:
        """Removed from outside, with no trace."""
        self.tell(self.running.pop(workload))

    def write(self, workload: WorkloadId, text: bytes) -> None:
        self.running[workload].log += text
        self.tell(self.running[workload])

    def alive(self) -> list[WorkloadId]:
        return [known_id for known_id, container in self.running.items() if container.state is not WorkloadState.EXITED]

    def tell(self, container: Container) -> None:
        container.changed.set()
        container.changed = asyncio.Event()
        for listener in self.listeners:
            listener()


class FakeEngine:
    name = "fake"
    isolation = "Nothing runs: this engine only pretends."
    ignores = frozenset({"image", "mounts", "workdir"})
    nodes_version = 0

    def __init__(self, nodes: tuple[Node, ...], containers: FakeContainers | None = None, shelf: ImageShelf | None = None) -> None:
        self.shelf = shelf
        self.containers = containers if containers is not None else FakeContainers()
        self._nodes = nodes
        self._on_change: Callable[[], None] | None = None

    async def start(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.containers.listeners.append(on_change)

    async def close(self) -> None:
        if self._on_change is not None:
            self.containers.listeners.remove(self._on_change)
            self._on_change = None

    async def nodes(self) -> list[Node]:
        await self._answer()
        return [replace(node, seen_at=datetime.now(UTC)) for node in self._nodes]

    def check(self, request: Request) -> None:
        """Anything goes."""

    async def launch(self, session: Session) -> None:
        await self._answer()
        known_id, world = workload_id(session), self.containers
        if world.refuse_next:
            raise EngineRefused(f"the fake engine refused session {session.name}: {world.refuse_next.pop(0)}")
        if known_id not in world.running:
            if not session.request.command and session.kind is not SessionKind.INTERACTIVE:
                raise EngineRefused(f"session {session.name} is a batch session without a command", "Give it a command to run.")
            self._run(known_id, session)
        if world.lose_answers > 0:
            world.lose_answers -= 1
            raise EngineSilent(f"the answer to the launch of {session.name} was lost on the way")

    def _run(self, known_id: WorkloadId, session: Session) -> None:
        played = play(session.request.command or ("sleep", "infinity"), environment(session))
        state = WorkloadState.STARTING if self.containers.slow_start else WorkloadState.RUNNING
        container = Container(session, state, datetime.now(UTC), log=bytearray(played.output), results=dict(played.results))
        self.containers.running[known_id] = container
        self.containers.launches.append(known_id)
        if played.exit_code is not None and not self.containers.slow_start:
            container.state, container.exit_code = WorkloadState.EXITED, played.exit_code
        self.containers.tell(container)

    async def stop(self, workload: WorkloadId, grace: timedelta) -> None:
        await self._answer()
        container = self.containers.running.get(workload)
        if container is not None and container.state is not WorkloadState.EXITED and not self.containers.deaf:
            self.containers.exit(workload, TERMINATED if grace > timedelta(0) else KILLED, "ended by the engine, which was told to stop it")

    async def forget_older_than(self, age: timedelta, now: datetime) -> int:
        await self._answer()
        old = [key for key, box in self.containers.running.items() if not box.listed and box.started_at < now - age]
        for key in old:
            del self.containers.running[key]
        return len(old)

    async def clear(self, workload: WorkloadId) -> None:
        await self._answer()
        container = self.containers.running.get(workload)
        if container is None:
            return
        if container.state is not WorkloadState.EXITED:
            raise EngineRefused(f"workload {workload} still runs, so it cannot be cleared", "Stop it first.")
        container.listed = False

    async def list_mine(self) -> list[Workload]:
        await self._answer()
        return [self._seen(known_id, container) for known_id, container in self.containers.running.items() if container.listed]

    def _seen(self, known_id: WorkloadId, container: Container) -> Workload:
        seat = container.session.seat
        return Workload(
            known_id, seat.node if seat is not None else self._nodes[0].name, container.state, exit_code=container.exit_code,
            why=container.why, started_at=container.started_at, session=container.session,
        )  # fmt: skip

    async def logs(self, workload: WorkloadId, follow: bool, from_bytes: int = 0) -> AsyncIterator[bytes]:
        offset = from_bytes
        while True:
            container = self.containers.running.get(workload)
            changed = container.changed if container is not None else None
            if container is not None and offset > len(container.log):
                offset = 0
            if container is not None and len(container.log) > offset:
                yield bytes(container.log[offset:])
                offset = len(container.log)
            elif not follow or (container is not None and container.state is WorkloadState.EXITED):
                return
            elif changed is not None:
                await changed.wait()
            else:
                await asyncio.sleep(0.02)  # not launched yet: there is nothing to wait on

    async def log_size(self, workload: WorkloadId) -> int:
        container = self.containers.running.get(workload)
        return 0 if container is None else len(container.log)

    async def results(self, workload: WorkloadId) -> AsyncIterator[bytes]:
        container = self.containers.running.get(workload)
        if container is not None and container.results:
            yield tar_of(container.results)

    async def result_files(self, workload: WorkloadId, most: int) -> ResultFiles:
        files = [ResultFile(path, len(content)) for path, content in sorted(self._results(workload).items())]
        named = [file for file in files if is_text(file.path)]
        return ResultFiles(tuple(named[:most]), len(files), sum(file.size_bytes for file in files))

    async def result_file(self, workload: WorkloadId, path: str) -> ResultBytes:
        files = self._results(workload)
        if path not in files:
            raise not_there(path)
        return ResultBytes(len(files[path]), pumped(piece for piece in [files[path]]))

    def _results(self, workload: WorkloadId) -> dict[str, bytes]:
        container = self.containers.running.get(workload)
        return {} if container is None else container.results

    async def open(self, workload: WorkloadId, command: Command) -> "FakeStream":
        await self._answer()
        container = self.containers.running.get(workload)
        if container is None or container.state is WorkloadState.EXITED:
            raise EngineRefused(f"workload {workload} does not run here, so nothing can be opened in it", "See `fairy ps`.")
        if self.containers.opened_prints is not None:
            return FakeStream(self.containers.opened_prints, 0, container, self.containers)
        played = play(command.argv, environment(container.session) | dict(command.env))
        return FakeStream(played.output, played.exit_code, container, self.containers)

    async def door(self, workload: WorkloadId) -> Door:
        await self._answer()
        if workload not in self.containers.alive():
            raise EngineRefused(f"workload {workload} does not run here, so nothing can be opened in it", "See `fairy ps`.")
        return Door(DoorKind.PROCESS, "/", "/bin/sh")

    async def files_door(self, owner: str) -> Door:
        await self._answer()
        return Door(DoorKind.PROCESS, "/", "/bin/sh", (("USER", owner),))

    async def connect(self, workload: WorkloadId, where: int | str) -> socket.socket:
        return await connect_door(await self.door(workload), where)

    async def _answer(self) -> None:
        if self.containers.delay:
            await asyncio.sleep(self.containers.delay.total_seconds())
        if self.containers.silent:
            raise EngineSilent(f"the fake engine gives no answer: {self.containers.silent}")


class FakeStream:
    """Its output is written at once, into real pipes; a command that goes on ends with its container, or when closed."""

    def __init__(self, output: bytes, exit_code: int | None, container: Container, world: FakeContainers) -> None:
        theirs, self.stdin = os.pipe()
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        os.write(out, output)
        os.close(err)
        self._theirs = [theirs, out]
        self._exit_code, self._container, self._world = exit_code, container, world
        if exit_code is not None:
            self._hang_up()

    def resize(self, columns: int, rows: int) -> None:
        """Nobody looks."""

    def signal(self, number: int) -> None:
        """Nobody hears."""

    async def wait(self) -> int:
        while self._exit_code is None:
            if self._container.state is WorkloadState.EXITED:
                self._exit_code = KILLED
                self._hang_up()
                break
            await self._container.changed.wait()
        return self._exit_code

    async def close(self) -> None:
        for descriptor in {self.stdin, self.stdout, self.stderr} - {-1}:
            os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1
        self._hang_up()
        if self._exit_code is None:
            self._exit_code = HUNG_UP
            self._world.tell(self._container)

    def _hang_up(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())


def environment(session: Session) -> dict[str, str]:
    gpus = session.seat.gpus if session.seat is not None else ()
    return {**dict(session.request.env), "FAIRY_SESSION": session.name, "USER": session.owner, **visible_devices(gpus)}


def tar_of(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
