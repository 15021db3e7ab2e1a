"""What every engine must do. One test suite (tests/adapters/test_engine_contract.py) runs on all of them.

Engines keep no state of their own: what runs is read back from labels, so a restarted server adopts it.
"""
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gpufairy.core.image import Image, MadeImage
from gpufairy.core.node import Node
from gpufairy.core.result_file import ResultBytes, ResultFiles
from gpufairy.core.session import Request, Session
from gpufairy.core.workload import Workload, WorkloadId


@dataclass(frozen=True, slots=True)
class Command:
    """Something to run inside a session, beside its own command."""

    argv: tuple[str, ...]
    terminal: bool = False
    columns: int = 80
    rows: int = 24
    env: tuple[tuple[str, str], ...] = ()


class Stream(Protocol):
    """A command running inside a session. Its descriptors are real ones of this machine; the caller closes the stream."""

    stdin: int  # with a terminal all three are the same descriptor
    stdout: int
    stderr: int

    def resize(self, columns: int, rows: int) -> None: ...
    def signal(self, number: int) -> None: ...  # to the command's process group; one that is over hears nothing
    async def wait(self) -> int: ...
    async def close(self) -> None: ...


class DoorKind(StrEnum):
    PORTER = "porter"  # the workload's first process takes descriptors over a socket, and its children have the workload's own limits
    PROCESS = "process"  # a child of whoever opens it
    POD = "pod"  # through the API server of Kubernetes, as whoever opens it may


@dataclass(frozen=True, slots=True)
class Door:
    """How a process of this machine comes into a running workload by itself: the SSH gateway must not pass its bytes through the server.

    It travels as JSON and holds no secret.
    """

    kind: DoorKind
    workdir: str
    shell: str
    env: tuple[tuple[str, str], ...] = ()  # all of it for a process; for a porter, which has its own, what is added to that
    pid: int = 0  # porter: the workload's first process as this machine counts it
    birth_ticks: int = 0  # and when it was born, so that a number given to somebody else since is not taken for it
    most_files: int = 1024  # process alone, with the next
    cpus: tuple[int, ...] = ()
    pod: str = ""  # pod alone, with the next two: NAMESPACE/NAME
    kubeconfig: str = ""  # empty: as kubectl finds its own
    context: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a session is given to speak to the server with, as its owner and for its owner's sessions alone."""

    url: str
    token: str


class ImageShelf(Protocol):
    """The images of a machine or a cluster, where the engine has such."""

    @property
    def fetches(self) -> bool: ...  # False: whoever starts a session fetches its image then, and pull() only says so
    @property
    def no_commits(self) -> str: ...  # why no image can be made of any session here; empty: it can be tried

    def known_as(self, name: str) -> str: ...  # the short name that an image made here has, where the engine has a longer one for it
    def started_as(self, name: str, made: MadeImage | None) -> str: ...  # what the engine is told to start; `made`: it was made here
    async def made_here(self, made: MadeImage) -> Image | None: ...  # None: it is not there any more
    async def kept(self) -> list[str]: ...  # names of what sessions were before a swap
    async def images(self) -> list[Image]: ...
    async def image(self, name: str) -> Image | None: ...  # None: not on this machine
    def pull(self, name: str) -> AsyncIterator[str]: ...  # how far it is, in words; EngineRefused if it cannot be had
    def pulling(self, name: str) -> str: ...  # the same of one that goes on, whoever began it; empty: none does
    async def remove(self, name: str) -> None: ...  # absent: fine. EngineRefused: something runs from it
    async def run_once(self, name: str, argv: tuple[str, ...]) -> bytes: ...  # what it prints, in a container without network or folders
    async def commit(self, workload: WorkloadId, name: str) -> Image: ...  # without the home, mounts, or anything of ours in it


class GpuShares(Protocol):
    """Who holds sessions to their parts of GPUs, beside what lies in their containers."""

    async def ready(self, session: Session) -> Path | None:
        """Before it starts. The folder of MPS's pipes, if it has a part of a GPU by MPS. Raises EngineRefused."""

    async def begun(self, session: Session, pid: int) -> None:
        """As soon as it has started, `pid` first: it never raises, for the session runs."""


class NoShares:
    async def ready(self, session: Session) -> Path | None:
        return None

    async def begun(self, session: Session, pid: int) -> None:
        return None


NO_SHARES: GpuShares = NoShares()


class Engine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def isolation(self) -> str: ...  # one sentence for users: what holds sessions apart here
    @property
    def ignores(self) -> frozenset[str]: ...  # fields of Request that this engine cannot honour; said at submit
    @property
    def nodes_version(self) -> int: ...  # goes up when nodes() may say something new, where others than sessions use nodes; else stays 0
    @property
    def shelf(self) -> ImageShelf | None: ...  # None: there are no images here

    async def start(self, on_change: Callable[[], None]) -> None: ...  # on_change: some workload may look different now
    async def close(self) -> None: ...  # never stops a workload
    async def nodes(self) -> list[Node]: ...
    def check(self, request: Request) -> None: ...  # raises EngineRefused for what can never be done here; asked at submit
    async def launch(self, session: Session) -> None: ...  # twice the same (id, attempt): once. Raises EngineRefused
    async def stop(self, workload: WorkloadId, grace: timedelta) -> None: ...  # absent: fine
    async def clear(self, workload: WorkloadId) -> None: ...  # forget one that has exited; its log and results stay. Absent: fine
    async def forget_older_than(self, age: timedelta, now: datetime) -> int: ...  # logs and results of what is over so long: how many
    async def list_mine(self) -> list[Workload]: ...  # by label, never remembered. Raises EngineSilent
    # The log from that offset on; with `follow` also what comes, until the workload is over. An offset stays true when the middle is
    # cut out, and one beyond the end means from the beginning (the log was emptied meanwhile): rather twice than never.
    def logs(self, workload: WorkloadId, follow: bool, from_bytes: int = 0) -> AsyncIterator[bytes]: ...
    async def log_size(self, workload: WorkloadId) -> int: ...  # the offset of its end, so far; 0 if there is none
    def results(self, workload: WorkloadId) -> AsyncIterator[bytes]: ...  # a tar stream; empty when nothing was written
    async def result_files(self, workload: WorkloadId, most: int) -> ResultFiles: ...  # the same as a list, of which so many are named
    async def result_file(self, workload: WorkloadId, path: str) -> ResultBytes: ...  # one of them. Raises NoSuchThing
    async def door(self, workload: WorkloadId) -> Door: ...  # raises EngineRefused if it does not run
    async def files_door(self, owner: str) -> Door: ...  # to their folders alone, with no session; for SFTP and its like
    async def open(self, workload: WorkloadId, command: Command) -> Stream: ...
    # A connected socket to a port of the workload's own loopback, or to a UNIX socket in it. Raises EngineRefused: nobody listens there.
    async def connect(self, workload: WorkloadId, where: int | str) -> socket.socket: ...
