"""Names and labels of a host's containers, from Docker's or Podman's API on its UNIX sockets: the machine's own, and users' rootless ones.

Daemons are asked only while somebody wants to know (a rootless Podman is started by being asked), and aside: a silent one stops nobody.
"""
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpufairy.core.errors import EngineSilent
from gpufairy.node.aside import Aside
from gpufairy.node.container_list import ContainerFacts, listed_containers

ROOT = Path("/")
WAIT_S = 0.25  # for the daemons when an unknown container is met: without it the first sample of a new container would name nobody
UNKNOWN_AGAIN_S = 2.0  # so long at least between two questions about unknown containers
GOOD_S = 30.0  # containers may be renamed
WANTED_S = 90.0  # so long after the last question somebody is taken to be interested
MOST_BYTES, MOST_BYTES_OF_USER = 8 * 2**20, 2**20  # of one answer: two thousand sessions; a few of one's own
MOST_UNKNOWN = 4096  # remembered; of those beyond, the oldest is asked about once more
MOST_TROUBLES = 5
HOST_SOCKETS = ("run/docker.sock", "run/podman/podman.sock")
USER_SOCKETS = ("podman/podman.sock", "docker.sock")  # under /run/user/UID


@dataclass(frozen=True, slots=True)
class EngineSocket:
    path: str
    uid: int | None = None  # of the user whose rootless engine it is: whatever that says is this user's word alone

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class _Told:
    facts: Mapping[str, ContainerFacts] = field(default_factory=dict)
    trouble: str = ""


class Containers:
    """What was told last. A daemon that falls silent leaves what it said before."""

    def __init__(
        self,
        sockets: Callable[[], Iterable[EngineSocket]] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
    ) -> None:
        self._sockets, self._monotonic, self._wait_s = sockets or usual_sockets, monotonic, wait_s
        self._daemons: Aside[EngineSocket, _Told] = Aside(ask, "containers of")
        self._told: dict[EngineSocket, _Told] = {}
        self._asked_s = self._asked_anew_s = self._wanted_s = float("-inf")
        # Containers that nobody tells of, by when they were met. All have been asked since: they wait for the next round.
        self._unknown: dict[tuple[str, int | None], float] = {}

    def facts(self, container_id: str, uid: int | None = None) -> ContainerFacts | None:
        """`uid`: of the user in whose slice the container is. Users may make cgroups of any name there, so nobody's engine but theirs
        is believed about it; and theirs about no other."""
        self._wanted_s = now_s = self._monotonic()
        self._take(self._daemons.late())
        found = self._find(container_id, uid)
        if found is None and self._meet((container_id, uid), now_s) > self._asked_anew_s and now_s - self._asked_s >= UNKNOWN_AGAIN_S:
            self._ask_all(self._wait_s)
            found = self._find(container_id, uid)
        if found is not None:
            self._unknown.pop((container_id, uid), None)
        return found

    def refresh(self) -> None:
        """Once a beat: asks again where that is due. Never waits."""
        now_s = self._monotonic()
        self._take(self._daemons.late())
        if now_s - self._wanted_s < WANTED_S and now_s - self._asked_s >= GOOD_S:
            self._ask_all(0.0)

    @property
    def known(self) -> bool:
        """Whether the machine's own engines answer. Users' do not count: anybody can have one that is broken."""
        return not any(told.trouble for socket, told in self._told.items() if socket.uid is None)

    @property
    def trouble(self) -> tuple[str, ...]:
        """Why names may be missing or old, in words: the machine's own engines first, then some of the users'."""
        ordered = sorted(self._told.items(), key=lambda item: (item[0].uid or 0, item[0].path))
        return tuple(told.trouble for _, told in ordered if told.trouble)[:MOST_TROUBLES]

    def _find(self, container_id: str, uid: int | None) -> ContainerFacts | None:
        # Root's slice is nobody's to forge in: its engine is the machine's own.
        believed = (told for socket, told in self._told.items() if socket.uid == uid or (not uid and socket.uid is None))
        found = [told.facts[container_id] for told in believed if container_id in told.facts]
        return min(found, key=lambda facts: facts.uid is not None, default=None)  # the machine's own engines first

    def _meet(self, key: tuple[str, int | None], now_s: float) -> float:
        met_s = self._unknown.setdefault(key, now_s)
        if len(self._unknown) > MOST_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        return met_s

    def _ask_all(self, wait_s: float) -> None:
        self._asked_s = self._monotonic()
        sockets = list(self._sockets())
        if not any(map(self._daemons.is_open, sockets)):  # else an answer may be to a question from before a container was
            self._asked_anew_s = self._asked_s
        gone = [socket for socket in self._told if socket.uid is not None and socket not in sockets]  # signed out
        for socket in gone:
            del self._told[socket]
        for socket in sockets:
            self._told.setdefault(socket, _Told())
        self._take(self._daemons.answers(sockets, wait_s))

    def _take(self, answers: Mapping[EngineSocket, _Told]) -> None:
        for socket, told in answers.items():
            before = self._told.get(socket, _Told())
            self._told[socket] = replace(before, trouble=told.trouble) if told.trouble else told


def ask(socket: EngineSocket) -> _Told:
    try:
        found = listed_containers(socket.path, MOST_BYTES if socket.uid is None else MOST_BYTES_OF_USER)
    except EngineSilent as error:
        return _Told(trouble=f"{error} {error.next_step}".strip())
    return _Told({facts.id: replace(facts, uid=socket.uid) for facts in found})


def usual_sockets(root: Path = ROOT) -> list[EngineSocket]:
    """Where Docker and Podman have theirs, as far as they are there."""
    own = [EngineSocket(str(root / path)) for path in HOST_SOCKETS if _is_socket(root / path)]
    users = [folder for folder in root.glob("run/user/*") if folder.name.isdecimal() and len(folder.name) <= 10]
    theirs = [EngineSocket(str(folder / path), int(folder.name)) for folder in users for path in USER_SOCKETS if _is_socket(folder / path)]
    return [*own, *theirs]


def _is_socket(path: Path) -> bool:
    """A user's folder may be closed to us."""
    try:
        return path.is_socket()
    except OSError:
        return False
