"""What every engine must do. One test suite (tests/adapters/test_engine_contract.py) runs on all of them.

Engines keep no state of their own: what runs is read back from labels, so a restarted server adopts it.
"""
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from gpufairy.core.node import Node
from gpufairy.core.session import Session
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
    async def wait(self) -> int: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a session is given to speak to the server with, as its owner and for its owner's sessions alone."""

    url: str
    token: str


class Engine(Protocol):
    name: str
    isolation: str  # one sentence for users: what holds sessions apart here
    ignores: frozenset[str]  # fields of Request that this engine cannot honour; said at submit

    async def start(self, on_change: Callable[[], None]) -> None: ...  # on_change: some workload may look different now
    async def close(self) -> None: ...  # never stops a workload
    async def nodes(self) -> list[Node]: ...
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
    async def open(self, workload: WorkloadId, command: Command) -> Stream: ...
    async def address(self, workload: WorkloadId, port: int) -> Address | None: ...
    async def commit(self, workload: WorkloadId, image: str) -> str: ...  # raises EngineRefused where there are no images
