"""Whose a process is: session, pod, container or account, in the order in which they can be trusted."""
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from gpufairy.core.cgroup import Container, containers_of, user_slice
from gpufairy.core.names import USER_NAME
from gpufairy.core.naming_rule import NamingRules
from gpufairy.core.owner import KnownBy, Owner, RunningProcess, serves_mps
from gpufairy.node.container_list import ContainerFacts
from gpufairy.node.proc_text import printable

NAMED_BY_ID = ("lxc", "libvirt", "nspawn")  # their ids are the names that people gave them
MOST_KEPT = 4096  # processes
# As the docker engine labels its sessions (engines/docker_spec.py).
ROLE, SERVER, SESSION_ID, SESSION_OWNER, SESSION_NAME = ("gpufairy." + word for word in ("role", "server", "session", "owner", "name"))


class KnowsContainers(Protocol):
    def facts(self, container_id: str, uid: int | None = None) -> ContainerFacts | None: ...


@dataclass(frozen=True, slots=True)
class SessionFacts:
    session_id: str
    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class PodFacts:
    pod: str
    namespace: str
    container: str = ""
    user: str | None = None  # None: as its labels and the lab's rules say
    session: SessionFacts | None = None  # where the pod is one of ours
    labels: Mapping[str, str] = field(default_factory=dict)


class Whose:
    """`server_id`: only that server's containers are sessions; None: any server's. Whoever may start containers may forge its labels.
    `session_namespaces`: pods there with those labels are sessions, and none elsewhere: many may make pods, each in their own."""

    def __init__(
        self,
        containers: KnowsContainers,
        rules: NamingRules = NamingRules(),
        *,
        accounts: Callable[[int], str],
        sessions_by_pid: Callable[[int, int], SessionFacts | None] = lambda pid, start_ticks: None,
        pods: Callable[[str, str | None, str], PodFacts | None] = lambda pod_uid, container_id, device: None,
        server_id: str | None = None,
        session_namespaces: Collection[str] = (),
    ) -> None:
        self._containers, self._rules, self._account = containers, rules, accounts
        self._session_of, self._pod, self._server_id, self._session_namespaces = sessions_by_pid, pods, server_id, session_namespaces
        self._before: dict[tuple[int, int], Owner] = {}

    def use(self, rules: NamingRules) -> None:
        """From now on: a lab may change how it names containers while its agents run."""
        self._rules = rules

    def owner(self, process: RunningProcess, cgroup_text: str, device: str = "") -> Owner:
        """Always as it is now, so a renamed container has its new name at once. `device`: the UUID of the GPU that it was seen on."""
        key = process.pid, process.start_ticks
        before = self._before.pop(key, None)
        found = self._find(process, cgroup_text, device)
        if before is not None and _is_forgotten(found, before):
            found = before
        self._before[key] = found
        if len(self._before) > MOST_KEPT:
            del self._before[next(iter(self._before))]
        return found

    def _find(self, process: RunningProcess, cgroup_text: str, device: str) -> Owner:
        chain, slice_uid = _place(cgroup_text)
        facts = self._outermost_known(chain, slice_uid)
        session = self._session_of(process.pid, process.start_ticks) or (None if facts is None else self._session_of_container(facts))
        if session is not None:
            place = Owner() if facts is None else Owner(container=facts.name, container_id=facts.id)
            return replace(_of_session(session), container=place.container, container_id=place.container_id)
        pod = None if slice_uid else _pod_around(chain, in_container=facts is not None)
        if pod is not None:
            return self._of_pod(*pod, device)
        if facts is not None:
            return self._of_container(facts, facts.uid)
        if serves_mps(process):
            return replace(self._of_account(process.uid), known_by=KnownBy.MPS)
        return self._of_unlisted(chain, slice_uid) or self._of_account(process.uid)

    def _outermost_known(self, chain: tuple[Container, ...], slice_uid: int | None) -> ContainerFacts | None:
        """Not the innermost: whoever may make cgroups in a container could give one the name of somebody else's container. For the
        same reason none inside an LXC container or a virtual machine: what runs there, no engine of this host has started."""
        ids = (one.container_id for one in _started_here(chain) if one.container_id is not None)
        return next((facts for container_id in ids if (facts := self._containers.facts(container_id, slice_uid))), None)

    def _session_of_container(self, facts: ContainerFacts) -> SessionFacts | None:
        return None if facts.uid is not None else self._labelled_session(facts.labels)

    def _session_of_pod(self, facts: PodFacts) -> SessionFacts | None:
        if facts.session is not None or facts.namespace not in self._session_namespaces:
            return facts.session
        return self._labelled_session(facts.labels)

    def _labelled_session(self, labels: Mapping[str, str]) -> SessionFacts | None:
        if labels.get(ROLE) != "session" or self._server_id not in (None, labels.get(SERVER)):
            return None
        session_id, owner, name = (labels.get(label, "") for label in (SESSION_ID, SESSION_OWNER, SESSION_NAME))
        return SessionFacts(session_id, name, owner) if _is_session(session_id, owner, name) else None

    def _of_pod(self, pod_uid: str, container_id: str | None, device: str) -> Owner:
        facts = self._pod(pod_uid, container_id, device)
        if facts is None:
            return Owner(known_by=KnownBy.POD, container_id=container_id)
        session, named = self._session_of_pod(facts), self._rules.user_of(facts.pod, facts.labels)
        user = facts.user if facts.user is not None or named is None else named[0]
        plain = Owner(user, KnownBy.POD) if session is None else _of_session(session)
        return replace(plain, container=facts.container, container_id=container_id, pod=facts.pod, namespace=facts.namespace)

    def _of_unlisted(self, chain: tuple[Container, ...], slice_uid: int | None) -> Owner | None:
        """In a container that no engine here tells of: one whose id is its name, or one of a silent engine. None: in no container."""
        named = [one for one in chain if one.runtime in NAMED_BY_ID]
        found = next((one for one in (*named, *chain[-1:]) if one.container_id is not None), None)
        if found is None or found.container_id is None:
            return None
        return self._of_container(ContainerFacts(found.container_id, found.container_id if named else ""), slice_uid)

    def _of_container(self, facts: ContainerFacts, rootless_uid: int | None) -> Owner:
        """A rootless container is its account's, whatever it calls itself."""
        plain = Owner(container=facts.name, container_id=facts.id)
        if rootless_uid is not None:
            return replace(plain, user=self._account(rootless_uid), known_by=KnownBy.ACCOUNT)
        found = self._rules.user_of(facts.name, facts.labels)
        return replace(plain, user=found[0], known_by=found[1]) if found else plain

    def _of_account(self, uid: int | None) -> Owner:
        return Owner() if uid is None else Owner(self._account(uid), KnownBy.ACCOUNT)


@lru_cache(maxsize=1024)  # the processes of one container have one text
def _place(cgroup_text: str) -> tuple[tuple[Container, ...], int | None]:
    return containers_of(cgroup_text), user_slice(cgroup_text)


def _is_forgotten(found: Owner, before: Owner) -> bool:
    """Its engine tells no more of a container that something still runs in: that remains whose it was."""
    same_place = found.container_id == before.container_id and found.user in (None, before.user)
    return same_place and bool(before.container) and not found.container


def _started_here(chain: tuple[Container, ...]) -> Iterator[Container]:
    return itertools.takewhile(lambda one: one.runtime not in NAMED_BY_ID, chain)


def _pod_around(chain: tuple[Container, ...], *, in_container: bool) -> tuple[str, str | None] | None:
    """The pod and its own container: the outermost, since those further in can be anybody's making. A pod inside a container that an
    engine here knows is that container's business; without such an engine we may be in it ourselves."""
    pods = [one for one in _started_here(chain) if one.pod_uid is not None]
    if not pods or (in_container and chain[0].pod_uid is None):
        return None
    pod_uid = pods[0].pod_uid or ""
    return pod_uid, next((one.container_id for one in pods if one.pod_uid == pod_uid and one.container_id is not None), None)


def _of_session(session: SessionFacts) -> Owner:
    return Owner(session.owner, KnownBy.SESSION, session.session_id, session.name)


def _is_session(session_id: str, owner: str, name: str) -> bool:
    return 0 < len(session_id) <= 64 and printable(session_id + name, 200) == session_id + name and bool(USER_NAME.fullmatch(owner))
