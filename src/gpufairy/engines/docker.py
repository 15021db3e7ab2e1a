"""Sessions in containers, on Docker Engine or on Podman's Docker API.

A workload is its container; the labels on it are the truth (docker_spec.py), and its log, results and home are files of this machine.
"""
import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.errors import EngineRefused, EngineSilent, FairyError
from gpufairy.core.node import Node
from gpufairy.core.result_file import ResultBytes, ResultFiles
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.workload import Workload, WorkloadId, workload_id
from gpufairy.engines.archive import tar_stream
from gpufairy.engines.began_file import cut_began
from gpufairy.engines.contract import NO_SHARES, Command, Credentials, Door, GpuShares, Stream
from gpufairy.engines.docker_daemon import CONFLICT, NOT_FOUND, Daemon
from gpufairy.engines.docker_door import porter_door, still_there
from gpufairy.engines.docker_files import FilesContainers
from gpufairy.engines.docker_images import Images, environment, wanted_image
from gpufairy.engines.docker_launch import Launcher
from gpufairy.engines.docker_list import Listing
from gpufairy.engines.docker_network import SessionNetwork
from gpufairy.engines.docker_pids import pids_of
from gpufairy.engines.docker_shelf import DockerShelf, remove_left
from gpufairy.engines.docker_spec import DockerSettings, Network, labelled_session, work_folder
from gpufairy.engines.docker_watch import Watch
from gpufairy.engines.docker_words import DaemonRefused
from gpufairy.engines.doors import connect_door, open_door
from gpufairy.engines.homes import HandIn, no_hand_in
from gpufairy.engines.joblog import cut_log, log_size, read_log
from gpufairy.engines.result_folder import result_file, result_files
from gpufairy.engines.run_folder import Places, forget_old, mark_stopped, remove_half_removed, remove_run

LOG_CAP_BYTES = 64 * 2**20
ROUND_S = 1.0  # how often logs are measured: a flood of 1 GB/min writes 17 MB meanwhile
GATHER_S = 0.05  # after news, before looking: many at once are one look
MEND_EVERY = 30  # rounds between two looks at the firewall

log = logging.getLogger(__name__)


class DockerEngine:
    name = "docker"
    ignores: frozenset[str] = frozenset()
    nodes_version = 0

    def __init__(
        self,
        socket_path: str,
        places: Places,
        node: Node,
        credentials: Callable[[Session], Credentials],
        *,
        uid_of: Callable[[str], int],
        settings: DockerSettings,
        tools: Path,
        shared: Path,
        api_folder: Path,
        gpu_shares: GpuShares = NO_SHARES,
        hand_in: HandIn = no_hand_in,
        server_id: str,
        log_cap_bytes: int = LOG_CAP_BYTES,
    ) -> None:
        self._places, self._node, self._settings, self._uid_of = places, node, settings, uid_of
        self._log_cap_bytes = log_cap_bytes
        self._daemon = Daemon(socket_path, node.name)
        self._network = SessionNetwork(self._daemon, server_id, settings.network, settings.subnet)
        self._listing = Listing(self._daemon, server_id, places)
        self._images = Images(self._daemon, places.root / "images", tools, may_pull=settings.pull)
        self._files = FilesContainers(self._daemon, self._listing, places, settings, server_id=server_id, tools=tools, shared=shared)
        self._launcher = Launcher(
            self._daemon, self._listing, places, settings, credentials,
            server_id=server_id, network=self._network.mode, tools=tools, shared=shared, api_folder=api_folder,
            gpu_shares=gpu_shares, hand_in=hand_in,
        )  # fmt: skip
        self.shelf = DockerShelf(self._daemon, self._images, self._inspected)
        self._watch = Watch(self._daemon, server_id, self._heard, self._back)
        self._launching: set[str] = set()
        self._doors: dict[WorkloadId, Door] = {}
        self._followers = 0
        self._look_again = asyncio.Event()
        self._on_change: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def isolation(self) -> str:
        """One sentence for users, and a true one."""
        ways = {
            Network.OPEN: "no way to other sessions, this machine's services or its metadata address",
            Network.NONE: "no network at all",
            Network.UNGUARDED: "but a way to this machine's own services, for no firewall is set",
        }
        return (
            "Each session is a container without privileges, with its own files, processes and limits of memory, CPUs and processes, and "
            f"{ways[self._settings.network]}; all share one kernel."
        )

    async def start(self, on_change: Callable[[], None]) -> None:
        try:
            self._places.make()
            remove_half_removed(self._places.runs)
        except OSError as error:
            raise EngineRefused(f"the docker engine cannot use {self._places.root}: {error}", "Choose another by --data.") from error
        try:
            await self._daemon.open()
            await self._network.make()
            await self._launcher.remove_never_begun()
            await self.list_mine()
        except FairyError:
            await self._daemon.close()
            raise
        self._on_change = on_change
        self._begin(self._watch.run(), "docker engine: news")
        self._begin(self._look_after(), "docker engine: logs and firewall")
        self._begin(remove_left(self._daemon), "docker engine: what was left half made")

    async def close(self) -> None:
        self._on_change = lambda: None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._images.close()
        await self._daemon.close()

    async def nodes(self) -> list[Node]:
        return [replace(self._node, seen_at=self._listing.answered_at)]

    async def list_mine(self) -> list[Workload]:
        return await self._listing.workloads(self._launching)

    def check(self, request: Request) -> None:
        self._launcher.check_mounts(request, wanted_image(request.image, self._settings.default_image))

    async def launch(self, session: Session) -> None:
        name = str(workload_id(session))
        if name in self._launching:
            return
        if not session.request.command and session.kind is not SessionKind.INTERACTIVE:
            raise EngineRefused(f"session {session.name} is a batch session without a command", "Give it a command to run.")
        self._launching.add(name)
        try:
            if not await self._launcher.started_before(session):
                image = wanted_image(session.request.image, self._settings.default_image)
                await self._launcher.launch(session, image, await self._images.ready(image), self._uid_of(session.owner))
            self._listing.begun(name)
        finally:
            self._launching.discard(name)
        self._on_change()

    async def stop(self, workload: WorkloadId, grace: timedelta) -> None:
        found = await self._listing.of(workload)
        if found is None or found.over:
            return
        with contextlib.suppress(OSError):  # a full disk must not keep anything running
            mark_stopped(self._places.run(str(workload)))
        if not found.begun:
            await self._launcher.remove(found)
        elif grace <= timedelta(0):
            await self._kill(found.id, workload)
        else:
            self._begin(self._ask_to_leave(found.id, workload, grace), f"stop {workload}")

    async def _kill(self, container_id: str, workload: WorkloadId) -> None:
        try:
            async with self._daemon.asked(f"killing workload {workload}", fine=(NOT_FOUND, CONFLICT)):
                await self._daemon.docker.containers.container(container_id).kill(signal="SIGKILL")
        except DaemonRefused as error:
            if not error.not_running:  # it was faster
                raise

    async def _ask_to_leave(self, container_id: str, workload: WorkloadId, grace: timedelta) -> None:
        """The daemon answers when it is gone. A stop that fails is ordered again by whoever wanted it."""
        wait_s = max(1, round(grace.total_seconds()))
        try:
            async with self._daemon.asked(f"stopping workload {workload}", within_s=wait_s + 30, fine=(NOT_FOUND, CONFLICT, 304)):
                await self._daemon.docker.containers.container(container_id).stop(t=wait_s)
        except FairyError as error:
            log.warning("workload %s was told to stop: %s", workload, error)

    async def clear(self, workload: WorkloadId) -> None:
        found = await self._listing.of(workload)
        if found is not None and found.begun and not found.over:
            raise EngineRefused(f"workload {workload} still runs, so it cannot be cleared", "Stop it first.")
        if found is not None:
            await self._launcher.remove(found)
        failpoints.passing("after_container_remove_before_folders")
        self._doors.pop(workload, None)
        await asyncio.to_thread(remove_run, self._places.run(str(workload)))

    async def forget_older_than(self, age: timedelta, now: datetime) -> int:
        # Files carry the wall clock's time, which may have been set: by either clock they must be old enough.
        before_s = min(now, datetime.now(UTC)).timestamp() - age.total_seconds()
        return await asyncio.to_thread(forget_old, self._places, before_s, {*self._listing.all_alive(), *self._launching})

    async def logs(self, workload: WorkloadId, follow: bool, from_bytes: int = 0) -> AsyncIterator[bytes]:
        name = str(workload)
        self._followers += follow
        try:
            path, over = self._places.log(name), lambda: self._is_over(name)
            async for chunk in read_log(path, self._log_cap_bytes, follow=follow, over=over, from_bytes=from_bytes):
                yield chunk
        finally:
            self._followers -= follow

    def _is_over(self, name: str) -> bool:
        return name not in self._launching and not self._listing.alive(name)

    async def log_size(self, workload: WorkloadId) -> int:
        return log_size(self._places.log(str(workload)))

    def results(self, workload: WorkloadId) -> AsyncIterator[bytes]:
        return tar_stream(self._places.all_results, self._places.results(str(workload)).name)

    async def result_files(self, workload: WorkloadId, most: int) -> ResultFiles:
        return await result_files(self._places.all_results, self._places.results(str(workload)).name, most)

    async def result_file(self, workload: WorkloadId, path: str) -> ResultBytes:
        return await result_file(self._places.all_results, self._places.results(str(workload)).name, path)

    async def door(self, workload: WorkloadId) -> Door:
        """Told again without asking the daemon as long as that very process lives: a thousand may come in at once."""
        known = self._doors.get(workload)
        if known is None or not still_there(known):
            known = self._doors[workload] = await self._found_door(workload)
        return known

    async def _found_door(self, workload: WorkloadId) -> Door:
        self._doors.pop(workload, None)
        detail = await self._inspected(workload)
        env = environment(detail or {})
        session = labelled_session((detail or {}).get("Config", {}).get("Labels") or {}, env)
        door = None if session is None else await porter_door(detail, work_folder(session), env.get("SHELL") or "/bin/sh")
        if door is None:
            raise EngineRefused(f"workload {workload} does not run here, so nothing can be opened in it", "See `fairy ps`.")
        return door

    async def files_door(self, owner: str) -> Door:
        return await self._files.door(owner, self._uid_of)

    async def open(self, workload: WorkloadId, command: Command) -> Stream:
        return await open_door(await self.door(workload), command)

    async def connect(self, workload: WorkloadId, where: int | str) -> socket.socket:
        return await connect_door(await self.door(workload), where)

    async def pids(self, workload: WorkloadId) -> list[int]:
        return (await self.pids_of_all()).get(workload, [])

    async def pids_of_all(self) -> dict[WorkloadId, list[int]]:
        """Every process of every live workload, what was opened beside it included."""
        first = {workload.id: workload.pid for workload in await self.list_mine() if workload.alive and workload.pid is not None}
        return await asyncio.to_thread(pids_of, first)

    async def _inspected(self, workload: WorkloadId) -> dict[str, Any] | None:
        found = await self._listing.of(workload)
        return None if found is None else await self._listing.inspect(found.id)

    def _heard(self, container_id: str) -> None:
        self._listing.forget(container_id)
        self._look_again.set()
        self._on_change()

    async def _back(self) -> None:
        """The daemon is there again, and perhaps another one: its network may be a new one too."""
        await self._network.make()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_after(self) -> None:
        rounds = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND_S):
                    await self._look_again.wait()
            await asyncio.sleep(GATHER_S)
            self._look_again.clear()
            rounds += 1
            try:
                if self._followers:  # who reads a log must hear of its end, though nobody else looks
                    await self.list_mine()
                await asyncio.to_thread(self._cut_logs, self._listing.all_alive())
                if rounds % MEND_EVERY == 0:
                    await self._network.mend()
            except (EngineSilent, EngineRefused) as error:
                log.warning("the docker engine's round: %s", error)

    def _cut_logs(self, names: list[str]) -> None:
        for name in names:
            try:
                if cut_log(self._places.log(name), self._log_cap_bytes):
                    log.info("cut the log of %s: it was over %d bytes", name, self._log_cap_bytes)
                cut_began(self._places.run(name))
            except OSError as error:
                log.warning("the log of %s could not be cut: %s", name, error)
