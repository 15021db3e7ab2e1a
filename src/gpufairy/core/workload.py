"""Workload: what an engine sees of a session. The labels on it are the truth, so it carries the session it was launched for."""
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpufairy.core.session import Session


class WorkloadState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class WorkloadId:
    session_id: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.session_id}.{self.attempt}"


@dataclass(frozen=True, slots=True)
class Workload:
    id: WorkloadId
    node: str
    state: WorkloadState
    exit_code: int | None = None  # None: not known, or not over
    why: str = ""  # the engine's own words: "killed by the kernel, out of memory"
    started_at: datetime | None = None
    pid: int | None = None  # on the host, where the engine knows it
    session: Session | None = None  # as labelled at launch; None: labels unreadable
    refused: bool = False  # it is over without having begun: nobody there would take it, so it may go somewhere else
    crowded_out: bool = False  # the same, and for no fault of its own: its place was taken meanwhile by somebody who is no session
    bound: bool = True  # False: the engine has taken it, and nobody has said yet on which node it runs
    silent_since: datetime | None = None  # since when its node gives no answer, where the engine's others do; None: it answers

    @property
    def alive(self) -> bool:
        return self.state is not WorkloadState.EXITED


def workload_id(session: Session) -> WorkloadId:
    return WorkloadId(session.id, session.attempt)
