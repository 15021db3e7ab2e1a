"""Sessions as child processes of this machine: for trying it out. Nothing holds them apart, and the engine says so.

A workload is its run folder (run_folder.py) and its shim (shim.py); a restarted server finds what runs by them. Followed is a
workload's session and what was opened beside it: a process that makes itself a session of its own (setsid) is not.
"""
import asyncio
import contextlib
import itertools
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpufairy.core import failpoints
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.node import Node
from gpufairy.core.result_file import ResultBytes, ResultFiles
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.workload import Workload, WorkloadId, workload_id
from gpufairy.engines.archive import tar_stream
from gpufairy.engines.contract import Command, Credentials, Door, DoorKind
from gpufairy.engines.cpu_pins import pick_cpus
from gpufairy.engines.doors import connect_door, open_beside
from gpufairy.engines.joblog import cut_log, log_size, open_log, read_log
from gpufairy.engines.proc import pids_by_sid
from gpufairy.engines.process_env import Surroundings, folder_environment, left_out, session_environment
from gpufairy.engines.result_folder import result_file, result_files
from gpufairy.engines.run_folder import Places, forget_old, mark_stopped, read_url, remove_half_removed, remove_run, take_claim, write_label
from gpufairy.engines.runs import SOON_S, Runs
from gpufairy.engines.shim import WAIT_FOR_EVER, pinned, shim_argv, spawn
from gpufairy.engines.streams import DescriptorStream

LOG_CAP_BYTES = 64 * 2**20
ROUND_S = 1.0  # how often logs are measured and strays ended: a flood of 1 GB/min writes 17 MB meanwhile
GOODBYE_S = 2.0  # for what ended sessions left behind to die, when the server leaves
ROUNDS_A_SEARCH = 5  # for what others opened in sessions: it reads every process's environment, which takes some ten milliseconds

log = logging.getLogger(__name__)


class ProcessEngine:
    name = "process"
    isolation = "None: sessions are processes of one system user, and can see and end each other. Memory and GPUs are only accounted."
    ignores = frozenset({"image", "mounts"})
    nodes_version = 0
    shelf = None

    def __init__(
        self,
        folder: Path,
        node: Node,
        credentials: Callable[[Session], Credentials],
        *,
        log_cap_bytes: int = LOG_CAP_BYTES,
        path_prepend: str = "",
    ) -> None:
        self._places = Places(folder.resolve())
        self._node = node
        self._credentials = credentials
        self._log_cap_bytes = log_cap_bytes
        self._path_prepend = path_prepend
        self._runs = Runs(self._places, node.name, on_gone=self._cut_log)
        self._cpus = os.sched_getaffinity(0)
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # what sessions get: the server raises its own, after this
        self._null = -1
        self._have_homes: set[str] = set()
        self._hands = ThreadPoolExecutor(4, thread_name_prefix="process-engine")
        self._rounds: asyncio.Task[None] | None = None

    async def start(self, on_change: Callable[[], None]) -> None:
        try:
            self._places.make()
            remove_half_removed(self._places.runs)
        except OSError as error:
            raise EngineRefused(f"the process engine cannot use {self._places.root}: {error}", "Choose another by --data.") from error
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        await self.list_mine()  # adopts what runs
        await self._runs.adopt_beside()
        await self._runs.find_orphans()
        self._runs.changed = on_change
        self._rounds = asyncio.create_task(self._look_after(), name="process engine: logs and strays")

    async def close(self) -> None:
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.wait([self._rounds])
            await self._end_strays()
        self._hands.shutdown(wait=True)
        self._runs.close()
        if self._null >= 0:
            os.close(self._null)
            self._null = -1

    async def nodes(self) -> list[Node]:
        return [replace(self._node, seen_at=datetime.now(UTC))]

    async def list_mine(self) -> list[Workload]:
        try:
            return self._runs.look_at_all()
        except OSError as error:
            raise EngineSilent(f"the process engine cannot read {self._places.runs}: {error}") from error

    def check(self, request: Request) -> None:
        """What it cannot honour it ignores, and says so."""

    async def launch(self, session: Session) -> None:
        name = str(workload_id(session))
        if name in self._runs.launching or (self._places.run(name).exists() and not self._made_void(name)):
            return
        if not session.request.command and session.kind is not SessionKind.INTERACTIVE:
            raise EngineRefused(f"session {session.name} is a batch session without a command", "Give it a command to run.")
        cpus = self._cpus_for(session)
        self._runs.launching[name] = cpus or frozenset()
        try:
            # On a thread of its own: the files and the spawn take a millisecond or two.
            pid = await asyncio.get_running_loop().run_in_executor(self._hands, self._launched, session, name, cpus)
        finally:
            del self._runs.launching[name]
        failpoints.passing("after_spawn_before_watched")
        try:
            self._runs.begin(name, session, pid, cpus or frozenset())
        except OSError as error:  # out of descriptors: it may run all the same, and is found again by its claim
            raise EngineSilent(f"session {session.name} was started and cannot be watched: {error}", "Raise `ulimit -n`.") from error

    def _launched(self, session: Session, name: str, cpus: frozenset[int] | None) -> int:
        run, credentials = self._places.run(name), self._credentials(session)
        try:
            # Label first, spawn second: a shim without a label would hold GPUs for nobody; a label without a shim is made void.
            write_label(run, session, credentials)
            failpoints.passing("after_label_before_spawn")
            return self._spawned(session, name, cpus, credentials.url)
        except (OSError, ValueError) as error:
            take_claim(run)
            remove_run(run)
            raise EngineRefused(f"the process engine on {self._node.name} could not start session {session.name}: {error}") from error

    def _made_void(self, name: str) -> bool:
        try:
            return self._runs.made_void(name)
        except OSError as error:
            raise EngineRefused(f"the process engine cannot write to {self._places.runs}: {error}", "Free room there.") from error

    def _spawned(self, session: Session, name: str, cpus: frozenset[int] | None, url: str) -> int:
        home, results, request = self._places.home(session.owner), self._places.results(name), session.request
        with contextlib.suppress(FileExistsError):  # of a launch that was made void
            os.mkdir(results, 0o700)
        if session.owner not in self._have_homes:
            home.mkdir(mode=0o700, exist_ok=True)
            self._have_homes.add(session.owner)
        env = session_environment(session, self._surroundings(session, name, url))
        argv = shim_argv(self._places.run(name), work_folder(session, home), self._most_files, request.command or WAIT_FOR_EVER)
        descriptor = open_log(self._places.log(name))
        try:
            if dropped := left_out(request.env):
                os.write(descriptor, f"fairy: not passed on, since sessions may not set them: {', '.join(dropped)}\n".encode())
            with pinned(cpus):
                return spawn(argv, env, stdin=self._null, stdout=descriptor, stderr=descriptor)
        finally:
            os.close(descriptor)

    def _surroundings(self, session: Session, name: str, url: str) -> Surroundings:
        run, home = self._places.run(name), self._places.home(session.owner)
        return Surroundings(home, self._places.results(name), run / "token", url, self._path_prepend, os.environ)

    def _cpus_for(self, session: Session) -> frozenset[int] | None:
        if session.seat is None:
            return None
        return pick_cpus(session.seat.cpus_milli, self._cpus, self._runs.pins())

    async def stop(self, workload: WorkloadId, grace: timedelta) -> None:
        name = str(workload)
        if not self._runs.alive(name):
            return
        with contextlib.suppress(OSError):  # a full disk must not keep anything running
            mark_stopped(self._places.run(name))
        failpoints.passing("after_stop_marked_before_signal")
        live = self._runs.live.get(name)
        if live is None:
            await self._runs.strays.end()
        elif grace <= timedelta(0):
            live.kill()
        else:
            live.ask_to_leave(grace.total_seconds())

    async def clear(self, workload: WorkloadId) -> None:
        name = str(workload)
        found = self._runs.look(name)
        if found is None:
            return
        if found.alive:
            raise EngineRefused(f"workload {workload} still runs, so it cannot be cleared", "Stop it first.")
        await asyncio.get_running_loop().run_in_executor(self._hands, remove_run, self._places.run(name))
        self._runs.forget(name)

    async def forget_older_than(self, age: timedelta, now: datetime) -> int:
        # Files carry the wall clock's time, which may have been set: by either clock they must be old enough.
        before_s = min(now, datetime.now(UTC)).timestamp() - age.total_seconds()
        kept = {*self._runs.live, *self._runs.launching}
        return await asyncio.to_thread(forget_old, self._places, before_s, kept)

    def logs(self, workload: WorkloadId, follow: bool, from_bytes: int = 0) -> AsyncIterator[bytes]:
        name = str(workload)
        log, over = self._places.log(name), lambda: not self._runs.alive(name)
        return read_log(log, self._log_cap_bytes, follow=follow, over=over, from_bytes=from_bytes)

    async def log_size(self, workload: WorkloadId) -> int:
        return log_size(self._places.log(str(workload)))

    def results(self, workload: WorkloadId) -> AsyncIterator[bytes]:
        return tar_stream(self._places.all_results, self._places.results(str(workload)).name)

    async def result_files(self, workload: WorkloadId, most: int) -> ResultFiles:
        return await result_files(self._places.all_results, self._places.results(str(workload)).name, most)

    async def result_file(self, workload: WorkloadId, path: str) -> ResultBytes:
        return await result_file(self._places.all_results, self._places.results(str(workload)).name, path)

    async def door(self, workload: WorkloadId) -> Door:
        door = self._door(workload)
        self._runs.live[str(workload)].door_told = True
        return door

    def _door(self, workload: WorkloadId) -> Door:
        name = str(workload)
        session = self._runs.label(name) if self._runs.alive(name) else None
        live = self._runs.live.get(name)
        if session is None or live is None:
            raise EngineRefused(f"workload {workload} does not run here, so nothing can be opened in it", "See `fairy ps`.")
        env = session_environment(session, self._surroundings(session, name, read_url(self._places.run(name))))
        work = work_folder(session, self._places.home(session.owner))
        return Door(DoorKind.PROCESS, work, env["SHELL"], tuple(env.items()), most_files=self._most_files, cpus=tuple(live.cpus))

    async def files_door(self, owner: str) -> Door:
        home = self._places.home(owner)
        home.mkdir(mode=0o700, exist_ok=True)
        env = folder_environment(owner, home, os.environ)
        return Door(DoorKind.PROCESS, str(home), env["SHELL"], tuple(env.items()), most_files=self._most_files)

    async def open(self, workload: WorkloadId, command: Command) -> DescriptorStream:
        door, live = self._door(workload), self._runs.live[str(workload)]
        stream = open_beside(door, command, lambda ended: self._runs.beside_gone(live, ended))
        live.beside.append(stream)
        return stream

    async def connect(self, workload: WorkloadId, where: int | str) -> socket.socket:
        return await connect_door(self._door(workload), where)

    async def pids(self, workload: WorkloadId) -> list[int]:
        return (await self.pids_of_all()).get(workload, [])

    async def pids_of_all(self) -> dict[WorkloadId, list[int]]:
        """Every process of every live workload, what was opened beside it included, in one pass over /proc."""
        running = await asyncio.to_thread(pids_by_sid)
        return {
            live.seen.id: [pid for sid in live.sids for pid in running.get(sid, [])]
            for live in self._runs.live.values()
            if live.seen is not None
        }

    async def _look_after(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(ROUND_S)
            for name in list(self._runs.live):
                self._cut_log(name)
            try:
                if number % ROUNDS_A_SEARCH == 0:
                    await self._runs.adopt_beside()
                await self._runs.look_at_left()
                if await self._runs.strays.end():
                    self._runs.changed()
            except OSError as error:
                log.warning("what sessions left behind could not be looked at: %s", error)

    async def _end_strays(self) -> None:
        """Of sessions that ended just now: between two rounds, or because all were stopped with the server."""
        with contextlib.suppress(TimeoutError, OSError):  # the next server finds them
            async with asyncio.timeout(GOODBYE_S):
                while await self._runs.strays.end():  # noqa: ASYNC110 - a killed process that is nobody's child rings no bell
                    await asyncio.sleep(SOON_S)

    def _cut_log(self, name: str) -> None:
        try:
            if cut_log(self._places.log(name), self._log_cap_bytes):
                log.info("cut the log of %s: it was over %d bytes", name, self._log_cap_bytes)
        except OSError as error:
            log.warning("the log of %s could not be cut: %s", name, error)


def work_folder(session: Session, home: Path) -> str:
    """Where its commands begin: its own choice, relative to its home, or home itself."""
    wanted = session.request.workdir or ""
    return str(home / ("" if wanted == "~" else wanted.removeprefix("~/")))
