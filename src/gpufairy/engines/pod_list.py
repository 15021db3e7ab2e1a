"""The pods of this server's sessions, as a watch keeps them; and the last that was seen of those that are deleted, until they are cleared.

Labels are the truth: nothing here is needed to find a session again. What was deleted is kept for its exit code and its reason alone.
"""
import asyncio
import base64
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadId, workload_id
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.watch import Watched
from gpufairy.engines.kube_first_look import first_look
from gpufairy.engines.pod_seen import DELETED, PodSeen, slim_pod
from gpufairy.engines.pod_spec import ROLE, SERVER, SESSION_ROLE, env_key, labelled_session
from gpufairy.engines.pod_workload import workload_of

LONGEST_STALE_S = 30.0  # a watch that was cut is resumed within seconds; after this long what it showed last is no answer any more
UNSEEN_S = 10.0  # for so long one that was made is believed to be there, though a watch that hears everything has not shown it
MOST_SECRETS_AT_ONCE = 16

log = logging.getLogger(__name__)
Told = tuple[tuple[PodSeen, Session | None, bool, datetime | None, str | None, str, bool], Workload | None]


class PodList:
    def __init__(self, api: KubeApi, server_id: str, on_change: Callable[[PodSeen | None, PodSeen | None], None]) -> None:
        self._api, self._on_change = api, on_change
        ours = f"{SERVER}={server_id},{ROLE}={SESSION_ROLE}"
        self._watched: Watched[PodSeen] = Watched(api, "/api/v1/pods", labels=ours, slim=slim_pod, on_change=self._heard)
        self._shown: dict[WorkloadId, PodSeen] = {}  # by the watch
        self._made: dict[WorkloadId, tuple[PodSeen, float]] = {}  # by us, and not shown yet; with when
        self._gone: dict[WorkloadId, PodSeen] = {}  # deleted, and not cleared yet
        self._cleared: set[str] = set()  # uids that the watch may still show for a moment
        self._stopped: set[WorkloadId] = set()  # by us
        self._sessions: dict[str, Session | None] = {}  # by uid, as labelled
        self._told: dict[str, Told] = {}  # by uid: what was made of a pod is told again while nothing about it changes
        self._gate = asyncio.Semaphore(MOST_SECRETS_AT_ONCE)
        self.longest_stale_s = LONGEST_STALE_S
        self.silent_since: Callable[[str], datetime | None] = lambda _: None  # of a node
        self.coming_words: Callable[[PodSeen, str], str | None] = lambda _, node: None  # of the node that a pod waits for
        self.warned: Callable[[str], str] = lambda _: ""  # what Kubernetes' events say of a pod, by its uid

    async def run(self) -> None:
        await self._watched.run()

    async def ready(self, within_s: float) -> None:
        """Raises EngineSilent, or what the API server said no with."""
        await first_look([self._watched], within_s)

    def check(self) -> None:
        """Raises EngineSilent: what is known is too old to be an answer."""
        since = self._watched.stale_since
        if since is not None and time.monotonic() - since > self.longest_stale_s:
            trouble = self._watched.trouble
            raise EngineSilent(f"Kubernetes gives no news of pods: {trouble or 'the watch is cut'}", "Does the API server answer?")

    def of(self, workload: WorkloadId) -> PodSeen | None:
        shown = self._shown.get(workload)
        if shown is not None and shown.uid not in self._cleared:
            return shown
        made = self._made.get(workload)
        return self._gone.get(workload) if made is None else made[0]

    def pods(self) -> list[PodSeen]:
        if self._made and self._watched.stale_since is None:
            self._made = {of: (pod, at) for of, (pod, at) in self._made.items() if time.monotonic() - at < UNSEEN_S}
        shown = [pod for pod in self._watched.items.values() if pod.uid not in self._cleared]
        return [*shown, *(pod for pod, _ in self._made.values()), *self._gone.values()]

    async def workloads(self) -> list[Workload]:
        """As of one moment: whoever looks, and then waits to be told of a change, must not miss one in between."""
        self.check()
        unknown = [pod for pod in self.pods() if pod.uid not in self._sessions]
        if unknown:
            await asyncio.gather(*map(self._learn, unknown))
        found = [self._workload(pod) for pod in self.pods() if pod.uid in self._sessions]
        return [workload for workload in found if workload is not None]

    def _workload(self, pod: PodSeen) -> Workload | None:
        silent, session = self.silent_since(pod.node) if pod.node else None, self._sessions[pod.uid]
        coming = None if pod.node or session is None or session.seat is None else self.coming_words(pod, session.seat.node)
        now = pod, session, pod.id in self._stopped, silent, coming, "" if pod.begun else self.warned(pod.uid), pod.refused
        told = self._told.get(pod.uid)
        if told is None or told[0] != now:
            made = workload_of(pod, session, stopped=now[2], silent_since=silent, coming=coming, warned=now[5])
            told = self._told[pod.uid] = now, made
        return told[1]

    def waiting(self) -> list[tuple[PodSeen, str]]:
        """Those that nobody has bound yet, with the node of their seat."""
        unbound = [(pod, self._sessions.get(pod.uid)) for pod in self._watched.items.values() if not pod.node and not pod.over]
        return [(pod, session.seat.node) for pod, session in unbound if session is not None and session.seat is not None]

    async def _learn(self, pod: PodSeen) -> None:
        if pod.id is None:
            log.warning("pod %s/%s has our label and no session's: it is left alone", pod.namespace, pod.name)
        async with self._gate:
            self._sessions[pod.uid] = await self._labelled(pod)

    async def _labelled(self, pod: PodSeen) -> Session | None:
        """With the values of its variables, which are not on the pod."""
        session = labelled_session(pod.launch)
        if session is None or not session.request.env:
            return session
        try:
            told = (await self._api.get(f"/api/v1/namespaces/{pod.namespace}/secrets/{pod.name}")).get("data") or {}
        except EngineRefused:  # somebody removed it: it runs on, and would start again without them
            told = {}
        values = {name: base64.b64decode(told.get(env_key(name), "")) for name, _ in session.request.env}
        env = tuple((name, value.decode("utf-8", "surrogateescape")) for name, value in values.items())
        return replace(session, request=replace(session.request, env=env))

    def launched(self, pod: PodSeen, session: Session) -> None:
        """Listed from now on, also before the watch shows it: who is told to stop at once must be found."""
        self._sessions[pod.uid] = session
        known = self._shown.get(workload_id(session)) or self._gone.get(workload_id(session))
        if known is None or known.uid != pod.uid:
            self._gone.pop(workload_id(session), None)
            self._made[workload_id(session)] = pod, time.monotonic()

    def stopped(self, workload: WorkloadId) -> None:
        self._stopped.add(workload)

    def cleared(self, workload: WorkloadId, uid: str) -> None:
        self._gone.pop(workload, None)
        self._made.pop(workload, None)
        self._stopped.discard(workload)
        self._forget(uid)
        shown = self._shown.get(workload)
        if shown is not None and shown.uid == uid:
            self._cleared.add(uid)

    def _heard(self, old: PodSeen | None, new: PodSeen | None) -> None:
        if new is not None and new.id is not None:
            self._shown[new.id] = new
            self._made.pop(new.id, None)
        elif new is None and old is not None:
            self._heard_gone(old)
        self._on_change(old, new)

    def _heard_gone(self, old: PodSeen) -> None:
        if old.id is not None and self._shown.get(old.id) == old:
            del self._shown[old.id]
        if old.id is not None and old.uid not in self._cleared:
            self._gone[old.id] = ended_by_deletion(old)
        else:
            self._forget(old.uid)
        self._cleared.discard(old.uid)

    def _forget(self, uid: str) -> None:
        self._sessions.pop(uid, None)
        self._told.pop(uid, None)


def ended_by_deletion(pod: PodSeen) -> PodSeen:
    """The last that was told before a pod went. One that was not seen to end has ended all the same, or somebody forced it away."""
    if pod.over:
        return pod
    return replace(pod, phase="Failed", reason=pod.reason or DELETED, leaving=True, running_since=None, waiting="")
