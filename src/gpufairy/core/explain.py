"""Explain: why a session waits, in words: its place, what each node says, when it may start, what its owner can do."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.amounts import show_duration
from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.forecast import forecast
from gpufairy.core.lifecycle import Phase
from gpufairy.core.mig_cut import as_it_may_be_cut
from gpufairy.core.node import Node, NodeState
from gpufairy.core.plan import Plan, asking_of, seat_for
from gpufairy.core.queue import ready_at
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session, Wanted
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.core.turn import in_order

SMALLER = tuple(Share(ShareKind.FRACTION, PARTS // part) for part in (2, 4))  # what is offered to one who waits for whole GPUs
FORECAST_DEPTH = 50  # sessions: beyond that an estimate says little, and each costs a walk through all that comes before


@dataclass(frozen=True, slots=True)
class Wait:
    place: int | None  # in line, from 1; None: not in line, or further back than is counted
    summary: str
    refusals: tuple[Refusal, ...] = ()
    forecast_start: datetime | None = None
    forecast_why: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The line as it stood at one moment: made once, asked for many sessions."""

    cluster: Cluster
    rooms: Mapping[str, Room]
    plan: Plan
    order: Sequence[Session]
    places: dict[str, int]
    starts: dict[str, datetime | None]
    made_at: datetime


def outlook(cluster: Cluster, plan: Plan, now: datetime, most: int) -> Outlook:
    order = in_order(cluster, now, most)
    places = {session.id: place for place, session in enumerate(order, 1)}
    rooms = cluster.rooms()
    return Outlook(cluster, rooms, plan, order, places, forecast(rooms, cluster.holding, order[:FORECAST_DEPTH], now), now)


def explain(session: Session, view: Outlook, waits_for: Sequence[str], now: datetime) -> Wait:
    """`waits_for`: names of live sessions it must come after."""
    if session.phase is not Phase.QUEUED:
        return Wait(None, session.why, next_step="")
    if session.wanted is Wanted.STOP:
        return Wait(None, f"is being stopped: {session.stop_why}")
    if waits_for:
        return Wait(None, f"waits for {', '.join(waits_for)} to end well", next_step="Stop it to give it up.")
    if ready_at(session) > now:
        return Wait(None, f"is tried again in {show_duration(ready_at(session) - now)}: {session.why}")
    place, start = view.places.get(session.id), view.starts.get(session.id)
    refusals = view.plan.refusals_of(session) or refusals_now(session, view, now)
    return Wait(place, summary(place, refusals, view), refusals, start, forecast_why(place, start), advice(session, refusals, view, now))


def why_now(session: Session, wait: Wait | None) -> str:
    if session.wanted is Wanted.STOP and session.phase not in (Phase.STOPPING, Phase.ENDED):
        return f"is being stopped: {session.stop_why}"
    return wait.summary if wait is not None and session.phase is Phase.QUEUED else session.why


def refusals_now(session: Session, view: Outlook, now: datetime) -> tuple[Refusal, ...]:
    asking = asking_of(session, view.cluster, now)
    answer = seat_for(session.request, view.rooms.values(), view.plan.promises, now, asking)
    return () if isinstance(answer, Seat) else answer


def summary(place: int | None, refusals: Sequence[Refusal], view: Outlook) -> str:
    ahead = f"more than {len(view.order)}" if place is None else str(place - 1)
    if not refusals:
        return f"waits its turn: {ahead} ahead of it"
    reason = refusals[0].why if len(refusals) == 1 else f"no room on {len(refusals)} nodes ({refusals[0].why})"
    return reason if place == 1 else f"{reason}; {ahead} ahead of it"


def forecast_why(place: int | None, start: datetime | None) -> str:
    if start is not None:
        return "if those ahead of it stay until their time is up"
    if place is None or place > FORECAST_DEPTH:
        return f"not forecast beyond place {FORECAST_DEPTH}"
    return "not known: it waits for sessions without a time limit"


def advice(session: Session, refusals: Sequence[Refusal], view: Outlook, now: datetime) -> str:
    """What would start at once instead, if anything would; and what an admin has to do, where nothing starts by itself."""
    share = session.request.share
    if refusals and share.kind is ShareKind.MIG and not any(is_cut_for(session.request, room.node) for room in view.rooms.values()):
        return f"No GPU is cut for {share} now. An admin can cut one (`fairy mig apply`), or let cuts follow the queue (`fairy mig auto`)."
    if not refusals or share.whole_gpus < 1:
        return "It starts by itself when room appears."
    for smaller in SMALLER:
        request = replace(session.request, share=smaller)
        if isinstance(seat_for(request, view.rooms.values(), view.plan.promises, now, asking_of(session, view.cluster, now)), Seat):
            return f"It starts by itself when room appears. A request for --gpus {request.share} would fit now."
    return "It starts by itself when room appears."


def is_cut_for(request: Request, node: Node) -> bool:
    """Whether it could start there once others have left: the cut of a GPU may have changed since the session came."""
    return isinstance(fit(request, Room.empty(replace(as_it_may_be_cut(node), state=NodeState.READY))), Seat)
