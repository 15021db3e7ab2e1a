"""LeakNotes: what the converge loop puts right within a second, before the janitor's minute is round. The janitor writes it down."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufairy.core.leaks import LeakKind
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed, Order
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadId

MOST_NOTED = 1000  # until the janitor comes


@dataclass(frozen=True, slots=True)
class LeakNote:
    kind: LeakKind
    node: str
    words: str


class LeakNotes:
    def __init__(self) -> None:
        self._notes: dict[WorkloadId, LeakNote] = {}

    def released(self, orders: Iterable[Order]) -> None:
        """Seats of sessions whose workload the engine did not know any more."""
        for order in orders:
            if order.deed is None and order.change is not None and is_released(order.change.before, order.change.after):
                session = order.change.before
                node = "" if session.seat is None else session.seat.node
                words = f"session {session.name} of {session.owner} held a seat on {node}, and nothing ran there: the seat was given back"
                self._put(WorkloadId(session.id, session.attempt), LeakNote(LeakKind.SEAT, node, words))

    def stopped(self, orders: Iterable[Order], workloads: Iterable[Workload]) -> None:
        """Workloads that run though their session, or that try of it, is over."""
        listed: Mapping[WorkloadId, Workload] = {workload.id: workload for workload in workloads}
        for order in orders:
            workload = None if order.workload is None else listed.get(order.workload)
            if order.deed is not Deed.STOP or workload is None:
                continue
            name = workload.id.session_id if workload.session is None else f"{workload.session.name} of {workload.session.owner}"
            words = f"on {workload.node} ran what was session {name}, which is over: it was stopped"
            self._put(workload.id, LeakNote(LeakKind.WORKLOAD, workload.node, words))

    def take(self, gone: Iterable[WorkloadId]) -> list[LeakNote]:
        """Of those that are put right by now. The others stay noted."""
        return [self._notes.pop(one) for one in gone if one in self._notes]

    def drop(self, workload: WorkloadId) -> bool:
        """Whether it was noted. The janitor has found it by itself, and tells how it ends."""
        return self._notes.pop(workload, None) is not None

    def noted(self) -> list[WorkloadId]:
        return list(self._notes)

    def _put(self, workload: WorkloadId, note: LeakNote) -> None:
        self._notes.setdefault(workload, note)
        while len(self._notes) > MOST_NOTED:
            del self._notes[next(iter(self._notes))]


def is_released(before: Session, after: Session) -> bool:
    """By reconcile's `vanished`: no deed goes with it, and it ran until then."""
    return before.phase is Phase.RUNNING and after.phase in (Phase.ENDED, Phase.QUEUED)
