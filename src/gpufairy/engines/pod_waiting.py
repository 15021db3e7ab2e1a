"""Sessions that Kubernetes will not take just now, for its namespace has a quota: not refused, but told why they wait, and tried again.

Nothing here is needed after a restart: one that has no pod is launched anew.
"""
import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState, workload_id
from gpufairy.engines.kube.errors import KubeRefused

AGAIN_S = 5.0
OVER_QUOTA = "exceeded quota"
NOT_NOW = (429, 500, 502, 503, 504)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    session: Session
    why: str


class WaitingSessions:
    def __init__(self, launch: Callable[[Session], Awaitable[None]]) -> None:
        self._launch = launch
        self._waiting: dict[WorkloadId, Waiting] = {}

    def put(self, session: Session, error: KubeRefused) -> None:
        self._waiting[workload_id(session)] = Waiting(session, f"Kubernetes does not take it yet: {error} {error.next_step}")

    def drop(self, workload: WorkloadId) -> None:
        self._waiting.pop(workload, None)

    def __contains__(self, workload: WorkloadId) -> bool:
        return workload in self._waiting

    def workloads(self) -> list[Workload]:
        return [
            Workload(workload, node_of(one.session), WorkloadState.STARTING, why=one.why, session=one.session, bound=False)
            for workload, one in self._waiting.items()
        ]

    async def run(self) -> None:
        """For ever. Who has waited longest first; where one still has no room, the others have none."""
        while True:
            await asyncio.sleep(AGAIN_S)
            for workload, one in list(self._waiting.items()):
                try:
                    await self._launch(one.session)
                except EngineSilent as error:
                    log.info("%s waits on: %s", workload, error)
                except EngineRefused as error:  # for another reason now: whoever looks finds no pod, launches it, and hears why
                    log.info("%s: %s", workload, error)
                    self.drop(workload)
                if workload in self._waiting:
                    break


def node_of(session: Session) -> str:
    return "" if session.seat is None else session.seat.node


def is_over_quota(error: KubeRefused) -> bool:
    return OVER_QUOTA in error.message


def as_silence(error: KubeRefused) -> EngineSilent | None:
    """An API server that has too much to do, or trouble of its own, has refused nothing: it is asked again. None: it meant it."""
    return EngineSilent(error.detail, error.next_step) if error.status in NOT_NOW else None
