"""Sessions as pods of a Kubernetes cluster, one for each attempt.

A workload is its pod; the labels on it are the truth (pod_spec.py). Which node it runs on the planner says, and kube-scheduler binds it.
"""
import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.errors import EngineRefused, FairyError
from gpufairy.core.node import Node
from gpufairy.core.pool import pool_coming
from gpufairy.core.result_file import ResultBytes, ResultFiles
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.workload import Workload, WorkloadId, workload_id
from gpufairy.engines.contract import Command, Credentials, Door, DoorKind, ImageShelf, Stream
from gpufairy.engines.docker_facts import TOOLS_SHELL
from gpufairy.engines.docker_spec import work_folder
from gpufairy.engines.doors import connect_door, open_door
from gpufairy.engines.dra_watch import DraGpus
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.kube.watch import Watched
from gpufairy.engines.kube_first_look import first_look
from gpufairy.engines.kube_gpus import KindsKnown
from gpufairy.engines.kube_node_list import NodeList
from gpufairy.engines.kube_nodes import NodeSeen, PodUse, selected, slim_node, slim_use
from gpufairy.engines.node_images import NodeImages
from gpufairy.engines.pod_claims import HomeMaker
from gpufairy.engines.pod_commit import PodCommit
from gpufairy.engines.pod_doors import close_clients
from gpufairy.engines.pod_events import PodEvents
from gpufairy.engines.pod_files import FilesPods
from gpufairy.engines.pod_launch import PodLauncher, tools_way
from gpufairy.engines.pod_list import PodList
from gpufairy.engines.pod_logs import PodLogs
from gpufairy.engines.pod_look import LookPods
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pod_shelf import PodShelf
from gpufairy.engines.pod_spec import SERVER, labelled_session
from gpufairy.engines.pod_waiting import WaitingSessions, as_silence, is_over_quota
from gpufairy.engines.pool_nodes import PoolNodes
from gpufairy.engines.registry.http import RegistryHttp
from gpufairy.engines.result_folder import not_there
from gpufairy.engines.run_folder import Places, forget_old, remove_half_removed, write_private

FIRST_LOOK_S = 30.0  # for the first lists of pods and nodes
LEAST_GRACE_S = 1  # with 0 the API server forgets a pod at once, whose processes its node may yet have to end: its GPUs are not free
LOG_CAP_BYTES = 64 * 2**20

log = logging.getLogger(__name__)


class KubernetesEngine:
    name = "kubernetes"
    ignores: frozenset[str] = frozenset()
    isolation = (
        "Each session is a pod without privileges (Pod Security 'restricted'), with its own files, processes and limits of memory and "
        "CPUs; pods of one node share its kernel, and the cluster's network policies say whom they reach."
    )

    def __init__(
        self,
        api: KubeApi,
        places: Places,
        credentials: Callable[[Session], Credentials],
        *,
        uid_of: Callable[[str], int],
        settings: PodSettings,
        server_id: str,
        kubeconfig: str = "",
        context: str = "",
        log_cap_bytes: int = LOG_CAP_BYTES,
        kinds: KindsKnown = KindsKnown(),
    ) -> None:
        self.api = api
        self._api, self._places, self._settings, self._uid_of, self._server_id = api, places, settings, uid_of, server_id
        self._kubeconfig, self._context = kubeconfig, context
        homes = HomeMaker(api, settings.homes)
        self._pods = PodList(api, server_id, self._heard)
        self._pods.silent_since = self._silent_since
        self._listed = NodeList(settings, kinds)
        self._nodes: Watched[NodeSeen] = Watched(api, "/api/v1/nodes", slim=slim_node, on_change=self._node_heard)
        self._others: Watched[PodUse] = Watched(
            api, "/api/v1/pods", labels=f"{SERVER}!={server_id}", slim=slim_use, on_change=self._listed.use_changed
        )
        self._dra = DraGpus(api, settings, others=f"{SERVER}!={server_id}", tables=kinds.mig, changed=self._gpus_heard)
        self._listed.known_gpus = self._dra.gpus
        self.pools = PoolNodes(api, settings, self._pods, lambda: self._heard(None, None))
        self._launcher = PodLauncher(api, settings, homes, credentials, server_id)
        self._launcher.coming = pool_coming
        self._files = FilesPods(api, settings, homes, server_id, self._door_of)
        self._logs = PodLogs(api, places, log_cap_bytes, self._pods.of)
        self._images, self._registry, self._looks = NodeImages(), RegistryHttp(settings.registry_access), LookPods(api, settings, server_id)
        commits = PodCommit(api, self._registry, self._looks, places.root, self._architecture)
        commits.most_bytes = settings.commit_most_bytes
        self.shelf: ImageShelf | None = PodShelf(
            api, settings, seen=self._images, looks=self._looks, commits=commits, http=self._registry, pod_of=self._pods.of
        )
        self._waiting = WaitingSessions(self.launch)
        self._events = PodEvents(api, self._pods.pods, lambda: self._heard(None, None))
        self._pods.warned = self._events.words
        self._launching: set[WorkloadId] = set()
        self._on_change: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, on_change: Callable[[], None]) -> None:
        try:
            self._places.make()
            remove_half_removed(self._places.runs)
        except OSError as error:
            raise EngineRefused(f"the kubernetes engine cannot use {self._places.root}: {error}", "Choose another by --data.") from error
        await self._api.open()
        try:
            self._launcher.tools_by = self._looks.tools_by = await tools_way(self._api, self._settings)
            for work, name in ((self._pods.run(), "pods"), (self._nodes.run(), "nodes"), (self._others.run(), "other pods")):
                self._begin(work, f"kubernetes engine: {name}")
            await self._pods.ready(FIRST_LOOK_S)
            offered = await self._dra.open()
            for watched in offered:
                self._begin(watched.run(), "kubernetes engine: GPUs by DRA")
            await first_look([self._nodes, self._others, *offered], FIRST_LOOK_S)
            self._begin(self._dra.warn(), "kubernetes engine: whether DRA knows shares")
            self._begin(self._launcher.remove_orphans(self._pods.pods(), datetime.now(UTC)), "kubernetes engine: what was left half made")
            self._begin(self._looks.remove_left(), "kubernetes engine: pods that were left after a look")
            self._begin(self._events.run(), "kubernetes engine: events")
            self._begin(self.pools.run(), "kubernetes engine: pools")
            self._begin(self._waiting.run(), "kubernetes engine: sessions over a quota")
        except FairyError:
            await self.close()
            raise
        self._on_change = on_change

    async def close(self) -> None:
        self._on_change = lambda: None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._logs.close()
        await self._registry.close()
        await self._api.close()
        await close_clients()

    @property
    def nodes_version(self) -> int:
        return self._listed.version

    async def nodes(self) -> list[Node]:
        stale = self._nodes.stale_since
        seen_at = datetime.now(UTC) - timedelta(seconds=0 if stale is None else time.monotonic() - stale)
        return self.pools.with_coming(self._listed.nodes(seen_at), datetime.now(UTC))

    def _node_heard(self, old: NodeSeen | None, new: NodeSeen | None) -> None:
        self._listed.node_changed(old, new)
        self._images.changed(*(() if one is None or not selected(one, self._settings.node_selector) else one.images for one in (old, new)))
        self._on_change()

    def _architecture(self, node: str) -> str:
        found = self._nodes.items.get(f"/{node}") or self._nodes.items.get(node)
        return "amd64" if found is None else found.labels.get("kubernetes.io/arch", "amd64")

    def _gpus_heard(self, node: str) -> None:
        self._listed.changed(node)
        self._on_change()

    def _silent_since(self, name: str) -> datetime | None:
        """A node that Kubernetes no longer has is not silent: its pods go with it."""
        found = self._nodes.items.get(f"/{name}") or self._nodes.items.get(name)
        return None if found is None or found.ready else found.not_ready_since

    async def list_mine(self) -> list[Workload]:
        return [*await self._pods.workloads(), *self._waiting.workloads()]

    def check(self, request: Request) -> None:
        self._launcher.check(request)

    async def launch(self, session: Session) -> None:
        workload = workload_id(session)
        if workload in self._launching:
            return
        if not session.request.command and session.kind is not SessionKind.INTERACTIVE:
            raise EngineRefused(f"session {session.name} is a batch session without a command", "Give it a command to run.")
        self._dra.check(session)
        self._launching.add(workload)
        try:
            known = self._pods.of(workload)
            if known is None or known.refused:
                await self._make(session)
        finally:
            self._launching.discard(workload)
        self._on_change()

    async def _make(self, session: Session) -> None:
        try:
            made = await self._launcher.launch(session, self._uid_of(session.owner))
        except KubeRefused as error:
            if is_over_quota(error):
                self._waiting.put(session, error)
                return
            raise as_silence(error) or error from None
        self._waiting.drop(workload_id(session))
        self._pods.launched(made, session)

    async def stop(self, workload: WorkloadId, grace: timedelta) -> None:
        self._waiting.drop(workload)
        pod = self._pods.of(workload)
        if pod is None or pod.over:
            return
        self._pods.stopped(workload)
        self._logs.begin_keeping(pod)
        await self._api.delete(pod.path, grace_s=max(LEAST_GRACE_S, round(grace.total_seconds())), uid=pod.uid)
        failpoints.passing("after_pod_delete_before_told")

    async def clear(self, workload: WorkloadId) -> None:
        pod = self._pods.of(workload)
        if pod is None:
            return
        if not pod.over and not pod.refused:
            raise EngineRefused(f"workload {workload} still runs, so it cannot be cleared", "Stop it first.")
        await self._logs.keep(pod)
        await asyncio.to_thread(note_owner, self._places.results(str(workload)), labelled_session(pod.launch))
        await self._launcher.remove(pod)
        self._pods.cleared(workload, pod.uid)

    async def forget_older_than(self, age: timedelta, now: datetime) -> int:
        before_s = min(now, datetime.now(UTC)).timestamp() - age.total_seconds()
        alive = {str(pod.id) for pod in self._pods.pods()} | {str(workload) for workload in self._launching}
        return await asyncio.to_thread(forget_old, self._places, before_s, alive)

    def logs(self, workload: WorkloadId, follow: bool, from_bytes: int = 0) -> AsyncIterator[bytes]:
        return self._logs.read(workload, follow, from_bytes)

    async def log_size(self, workload: WorkloadId) -> int:
        return await self._logs.size(workload)

    async def results(self, workload: WorkloadId) -> AsyncIterator[bytes]:
        owner = await self._owner_of(workload)
        if owner is None:
            return
        async for chunk in self._files.results(owner, self._uid_of(owner), str(workload)):
            yield chunk

    async def result_files(self, workload: WorkloadId, most: int) -> ResultFiles:
        owner = await self._owner_of(workload)
        return ResultFiles() if owner is None else await self._files.result_files(owner, self._uid_of(owner), str(workload), most)

    async def result_file(self, workload: WorkloadId, path: str) -> ResultBytes:
        owner = await self._owner_of(workload)
        if owner is None:
            raise not_there(path)
        return await self._files.result_file(owner, self._uid_of(owner), str(workload), path)

    async def _owner_of(self, workload: WorkloadId) -> str | None:
        pod = self._pods.of(workload)
        session = None if pod is None else labelled_session(pod.launch)
        return await asyncio.to_thread(noted_owner, self._places.results(str(workload))) if session is None else session.owner

    async def door(self, workload: WorkloadId) -> Door:
        pod = self._pods.of(workload)
        session = None if pod is None or pod.running_since is None or pod.over else labelled_session(pod.launch)
        if pod is None or session is None:
            raise EngineRefused(f"workload {workload} does not run here, so nothing can be opened in it", "See `fairy ps`.")
        return self._door_of(pod, work_folder(session), TOOLS_SHELL)

    def _door_of(self, pod: PodSeen, workdir: str, shell: str) -> Door:
        return Door(DoorKind.POD, workdir, shell, pod=f"{pod.namespace}/{pod.name}", kubeconfig=self._kubeconfig, context=self._context)

    async def files_door(self, owner: str) -> Door:
        return await self._files.door(owner, self._uid_of(owner))

    async def open(self, workload: WorkloadId, command: Command) -> Stream:
        return await open_door(await self.door(workload), command)

    async def connect(self, workload: WorkloadId, where: int | str) -> socket.socket:
        return await connect_door(await self.door(workload), where)

    async def pids_of_all(self) -> dict[WorkloadId, list[int]]:
        """On the nodes, where agents count them: none is a process of this machine's that the server could see."""
        return {}

    def _heard(self, old: PodSeen | None, new: PodSeen | None) -> None:
        if new is not None and new.leaving and not new.over and new.running_since is not None:
            self._logs.begin_keeping(new)  # whoever wants it gone: its log goes with it
        self._on_change()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def note_owner(folder: Path, session: Session | None) -> None:
    """When its pod is gone, nothing else says in whose home its results lie."""
    if session is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / "owner", session.owner)


def noted_owner(folder: Path) -> str | None:
    try:
        return (folder / "owner").read_text()
    except OSError:
        return None
