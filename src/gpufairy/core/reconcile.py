"""Reconcile: what people want and the store says, against what the engine sees. The answer is Orders; nothing is done here.

An order's change is written first; its deed is done only if that write took. A deed done twice is harmless.
"""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpufairy.core.cluster import Policy
from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.session import Outcome, Session, SessionKind, Wanted
from gpufairy.core.steps import Change, amend, change, end, event, requeue, send_back, settled, swap_undone, swapped
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState, workload_id

ADOPTED = "found by its labels, adopted"
STUCK_AFTER = timedelta(seconds=15)  # one that is still there so long after it was killed waits for something that no signal ends
STUCK = "cannot be ended: it was killed and is still there, stuck in the kernel; its seat stays held until it is gone"
LATE = "made room, late: it could not be ended before"
SETTLED_AFTER = timedelta(seconds=20)  # one that ran so long after a swap has started
NOT_RUNNABLE = (125, 126, 127)  # exit codes of a command that could not even begin, as shells have them


class Deed(StrEnum):
    LAUNCH = "launch"
    STOP = "stop"
    CLEAR = "clear"
    COMMIT = "commit"  # keep it as an image, before it is stopped


@dataclass(frozen=True, slots=True)
class Order:
    change: Change | None = None
    deed: Deed | None = None
    session: Session | None = None  # to launch
    workload: WorkloadId | None = None  # to stop or clear
    grace: timedelta = timedelta(0)


Asked = Mapping[WorkloadId, datetime]  # whom this server has asked to leave, and when


def reconcile(sessions: Iterable[Session], workloads: Iterable[Workload], now: datetime, policy: Policy, asked: Asked) -> list[Order]:
    """Orders for live sessions. Workloads of sessions not given here are `leftovers`' affair."""
    seen = {workload.id: workload for workload in workloads}
    return [order for session in sessions if (order := order_for(session, seen.get(workload_id(session)), now, policy, asked)) is not None]


def order_for(session: Session, workload: Workload | None, now: datetime, policy: Policy, asked: Asked) -> Order | None:
    stop = session.wanted is Wanted.STOP
    if workload is not None and workload.alive and workload.silent_since is not None:
        return its_node_silent(session, workload.silent_since, now, policy)
    match session.phase:
        case Phase.QUEUED | Phase.PLACED if stop:
            return Order(stopped(session, Happening.TOLD_TO_STOP, None, now))
        case Phase.PLACED:
            made = change(session, (Happening.LAUNCH_ORDERED, "starting"), now=now)
            return Order(made, Deed.LAUNCH, session=made.after)
        case Phase.STARTING | Phase.RUNNING if workload is not None and not workload.alive:
            return over(session, workload, now)
        case Phase.RUNNING if workload is None:
            return vanished(session, now)
        case Phase.RUNNING if session.swapped_from is not None and not stop and now - session.since >= SETTLED_AFTER:
            return Order(settled(session))
        case Phase.STARTING | Phase.RUNNING if stop:
            made = change(session, (Happening.TOLD_TO_STOP, session.stop_why), now=now)
            return Order(made, Deed.STOP, workload=workload_id(session), grace=policy.stop_grace)
        case Phase.STARTING:
            return started(session, workload, now)
        case Phase.STOPPING:
            return leaving(session, workload, now, policy, asked)
        case Phase.LOST:
            return found(session, workload, now)
    return None


def started(session: Session, workload: Workload | None, now: datetime) -> Order | None:
    if workload is None:  # the launch was written but not done, or its answer was lost: launching again is harmless
        return Order(deed=Deed.LAUNCH, session=session)
    if workload.state is WorkloadState.RUNNING:
        return Order(change(session, (Happening.READY, f"running on {workload.node}"), now=now))
    if workload.why and workload.why != session.why:  # an image that is fetched, a node that is coming: who waits is told
        return Order(Change(session, replace(session, why=workload.why, revision=session.revision + 1), ()))
    return None


def its_node_silent(session: Session, since: datetime, now: datetime, policy: Policy) -> Order | None:
    """The engine answers, and the session's own node does not: nothing is known of it, so nothing is done but to say so."""
    if session.phase is Phase.LOST or now - since <= policy.silent_after:
        return None
    node = "its node" if session.seat is None else session.seat.node
    orders = node_silent([session], now, f"{node} gives no answer since {since:%H:%M:%S} UTC")
    return orders[0] if orders else None


def over(session: Session, workload: Workload, now: datetime) -> Order:
    """It has exited by itself; or, told to stop, before anybody could tell it."""
    cleared = Order(deed=Deed.CLEAR, workload=workload.id)
    session, code = began(session, workload), workload.exit_code
    if undoes_swap(session, code, now):
        return with_change(cleared, swap_undone(session, now, workload.why or f"exit code {code}"))
    if code == 0:
        return with_change(cleared, end(session, Happening.EXITED, now, outcome=Outcome.DONE, why="done, exit code 0", exit_code=0))
    found_out = workload.why or ("ended, exit code not known" if code is None else f"exit code {code}")
    if may_retry(session):
        return with_change(cleared, requeue(session, now, f"{found_out}; try {failures(session) + 2} of {session.request.retries + 1}"))
    outcome = Outcome.LOST if code is None else Outcome.FAILED
    return with_change(cleared, end(session, Happening.EXITED, now, outcome=outcome, why=found_out, exit_code=code))


def undoes_swap(session: Session, code: int | None, now: datetime) -> bool:
    """It was just swapped to another image and is over already: that image does not work for it."""
    if session.swapped_from is None or session.wanted is Wanted.STOP or code == 0:
        return False
    if session.phase is Phase.STARTING:
        return True
    not_runnable = session.kind is SessionKind.INTERACTIVE or code in NOT_RUNNABLE
    return session.phase is Phase.RUNNING and now - session.since < SETTLED_AFTER and not_runnable


def began(session: Session, workload: Workload) -> Session:
    """One that was over before anybody saw it run has run all the same."""
    return session if session.started_at is not None else replace(session, started_at=workload.started_at)


def vanished(session: Session, now: datetime) -> Order:
    """The engine answers and does not know it: removed from outside, with no exit code left behind."""
    why = "its workload is gone and left no exit code: removed from outside"
    if session.wanted is Wanted.RUN and may_retry(session):
        return Order(requeue(session, now, why))
    return Order(end(session, Happening.EXITED, now, outcome=Outcome.LOST, why=why))


def leaving(session: Session, workload: Workload | None, now: datetime, policy: Policy, asked: Asked) -> Order | None:
    if workload is None or not workload.alive:
        cleared = Order(deed=Deed.CLEAR, workload=workload_id(session))
        if session.wanted is Wanted.RUN and session.swapped_from is not None:
            return with_change(cleared, swapped(session, now))
        if session.wanted is Wanted.RUN:
            return with_change(cleared, requeue(session, now, LATE if session.why == STUCK else session.why))
        return with_change(cleared, stopped(session, Happening.GONE, workload.exit_code if workload else None, now))
    if workload.id not in asked:  # this server is new, or its first word was not heard: nobody is killed without having been asked
        return Order(deed=Deed.STOP, workload=workload.id, grace=policy.stop_grace)
    # Past its grace it is killed, again at every look until it is gone.
    if now - asked[workload.id] > policy.stop_grace:
        kill = Order(deed=Deed.STOP, workload=workload.id)
        told = is_stuck(session, now, policy, asked) and session.why != STUCK
        return with_change(kill, Change(session, replace(session, why=STUCK, revision=session.revision + 1), ())) if told else kill
    return None


def is_stuck(session: Session, now: datetime, policy: Policy, asked: Asked) -> bool:
    """It was asked and killed long ago. Whether it is there still is for the caller to see."""
    return session.phase is Phase.STOPPING and workload_id(session) in asked and now - session.since > policy.stop_grace + STUCK_AFTER


def found(session: Session, workload: Workload | None, now: datetime) -> Order:
    """The node of a LOST session answers again."""
    if workload is not None and workload.alive:
        return Order(change(session, (Happening.NODE_BACK, "its node is back"), now=now))
    if workload is not None:
        return over(session, workload, now)
    why = "its node came back without it"
    if session.wanted is Wanted.STOP:
        return Order(stopped(session, Happening.GAVE_UP, None, now))
    if may_retry(session):
        return Order(requeue(session, now, why))
    return Order(end(session, Happening.GAVE_UP, now, outcome=Outcome.LOST, why=why))


def node_silent(sessions: Iterable[Session], now: datetime, why: str) -> list[Order]:
    """No answer for too long. Nothing is stopped, nothing is freed that might run. Who is to come back leaves first, however late: as LOST
    it would be taken for one that nobody has asked to leave."""
    can_be_silent = (Phase.PLACED, Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
    silent = [one for one in sessions if one.phase in can_be_silent and not one.comes_back]
    return [Order(change(session, (Happening.NODE_SILENT, why), now=now)) for session in silent]


def turned_away(sessions: Iterable[Session], workloads: Iterable[Workload]) -> list[tuple[Session, Workload]]:
    """Those that were launched, and that nobody would take in the end: they go back to the queue as if the launch had been refused."""
    away = {workload.id: workload for workload in workloads if workload.refused}
    starting = [one for one in sessions if one.phase is Phase.STARTING and one.wanted is Wanted.RUN and workload_id(one) in away]
    return [(session, away[workload_id(session)]) for session in starting]


def refused(session: Session, now: datetime, why: str, policy: Policy, *, counts: bool = True) -> Change:
    """The engine would not launch it: back to the queue, and given up after some that count. One that was swapped goes back at once."""
    if session.swapped_from is not None and session.wanted is Wanted.RUN:
        return swap_undone(session, now, why)
    made = amend(change(session, (Happening.REFUSED, why), now=now), refusals=session.refusals + counts)
    if session.refusals + counts < policy.most_refusals:
        return made
    return amend(made, wanted=Wanted.STOP, stop_outcome=Outcome.FAILED, stop_why=f"refused {session.refusals + 1} times: {why}")


def back_with(made: Change, sessions: Iterable[Session], now: datetime, why: str, policy: Policy) -> list[Order]:
    """The others of a gang of whom the engine would not launch one: all start together or none. Who was placed at another time had started
    alone, after a failure; and who was swapped goes back to its own image, alone."""
    session, gang, orders = made.before, made.before.request.gang, []
    for mate in sessions if gang is not None and made.after.phase is Phase.QUEUED else ():
        if mate.id == session.id or mate.request.gang != gang or mate.placed_at != session.placed_at or mate.wanted is Wanted.STOP:
            continue
        words = f"{session.name}, which starts together with it, could not be launched: {why}"
        if mate.phase is Phase.PLACED:
            orders.append(Order(change(mate, (Happening.REFUSED, words), now=now)))
        elif mate.phase in (Phase.STARTING, Phase.RUNNING):
            orders.append(Order(send_back(mate, now, words), Deed.STOP, workload=workload_id(mate), grace=policy.stop_grace))
    return orders


def ahead_of_their_rows(sessions: Iterable[Session], workloads: Iterable[Workload], now: datetime) -> list[Change]:
    """Sessions whose row is older than what runs (the database was restored from a backup): their labels are the truth."""
    rows = {session.id: session for session in sessions}
    changes = []
    for workload in workloads:
        row, label = rows.get(workload.id.session_id), workload.session
        if row is None or label is None or label.seat is None:
            continue
        not_begun = row.phase in (Phase.QUEUED, Phase.PLACED) and row.attempt == workload.id.attempt
        if not_begun or row.attempt < workload.id.attempt:
            after = replace(
                adopted(workload, label), name=row.name, number=row.number, wanted=row.wanted,
                stop_outcome=row.stop_outcome, stop_why=row.stop_why, revision=row.revision + 1,
            )  # fmt: skip
            changes.append(Change(row, after, (event(after, "adopted", now, ADOPTED),)))
    return changes


def adopted(workload: Workload, label: Session) -> Session:
    """As its label says; what has befallen it since is for the next pass to find out."""
    running = workload.state is not WorkloadState.STARTING
    return replace(
        label, phase=Phase.RUNNING if running else Phase.STARTING, why=ADOPTED, revision=1, attempt=workload.id.attempt,
        started_at=workload.started_at if running else None, placed_at=label.placed_at or workload.started_at,
    )  # fmt: skip


def leftovers(workloads: Iterable[Workload], live: Iterable[Session], ended: Iterable[str]) -> tuple[list[Order], list[Workload]]:
    """Workloads that no live session stands for: old attempts and ended sessions are cleaned up, unknown ones handed back to be adopted."""
    attempts, over_ids = {session.id: session.attempt for session in live}, set(ended)
    orders, unknown = [], []
    for workload in workloads:
        session_id, attempt = workload.id.session_id, workload.id.attempt
        if session_id in over_ids or attempt < attempts.get(session_id, 0):
            orders.append(Order(deed=Deed.STOP if workload.alive else Deed.CLEAR, workload=workload.id))
        elif session_id not in attempts:
            unknown.append(workload)
    return orders, unknown


def stopped(session: Session, what: Happening, exit_code: int | None, now: datetime) -> Change:
    return end(session, what, now, outcome=session.stop_outcome, why=session.stop_why or "stopped", exit_code=exit_code)


def may_retry(session: Session) -> bool:
    return session.wanted is Wanted.RUN and failures(session) < session.request.retries


def failures(session: Session) -> int:
    """Attempts before this one that went wrong by themselves."""
    return session.attempt - 1 - session.preempted


def with_change(order: Order, made: Change) -> Order:
    return Order(made, order.deed, order.session, order.workload, order.grace)
