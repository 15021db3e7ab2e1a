"""Explain: why a session waits, in words: its place, what each node says, when it may start, what its owner can do."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpufairy.core.amounts import show_duration
from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.forecast import Start, depth, forecast
from gpufairy.core.forecast_words import Shown, own_time, start_why
from gpufairy.core.helps import Scene, helps, others
from gpufairy.core.lifecycle import Phase
from gpufairy.core.mig_cut import as_it_may_be_cut
from gpufairy.core.node import Node, NodeState
from gpufairy.core.plan import Plan, asking_of, seat_for
from gpufairy.core.queue import Asked, asked_of, rest_left
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session, Wanted
from gpufairy.core.share import ShareKind
from gpufairy.core.track_record import TrackRecord
from gpufairy.core.turn import in_order

MOST_REFUSALS = 20  # nodes that are named; of the rest it is told how many there are
BY_ITSELF = "It starts by itself when room appears."


@dataclass(frozen=True, slots=True)
class Wait:
    place: int | None  # in line, from 1; None: not in line, or further back than is counted
    summary: str
    refusals: tuple[Refusal, ...] = ()
    forecast_start: datetime | None = None
    forecast_why: str = ""
    next_step: str = ""
    forecast_low: datetime | None = None  # four of five start between this and the next
    forecast_high: datetime | None = None  # None beside a start: it may also be later than anybody can tell
    helps: tuple[str, ...] = ()  # what would start now instead, the least change first
    more_nodes: int = 0  # that refuse it, and are not named
    own_time: str = ""  # what is taken for its run time, where it gave no limit


@dataclass(frozen=True, slots=True)
class Outlook:
    """The line as it stood at one moment: made once, asked for many sessions."""

    cluster: Cluster
    rooms: Mapping[str, Room]
    plan: Plan
    order: Sequence[Session]
    places: dict[str, int]
    starts: Mapping[str, Start]  # as run times have it
    made_at: datetime
    record: TrackRecord = field(default_factory=TrackRecord)  # by which ranges are told
    _helped: dict[tuple[Asked, str, int], tuple[str, ...]] = field(default_factory=dict)  # whoever asks for the same is told the same


def outlook(cluster: Cluster, plan: Plan, now: datetime, most: int, record: TrackRecord | None = None) -> Outlook:
    """`record`: how forecasts turned out before."""
    order = in_order(cluster, now, most)
    places = {session.id: place for place, session in enumerate(order, 1)}
    rooms = cluster.rooms()
    starts = forecast(cluster, rooms, order[: depth(len(rooms))], now)
    return Outlook(cluster, rooms, plan, order, places, starts, now, record or TrackRecord())


def explain(
    session: Session, view: Outlook, waits_for: Sequence[str], now: datetime, *, shown: Shown | None = None, advise: bool = True
) -> Wait:
    """`waits_for`: names of live sessions it must come after. `shown`: whose names the reader may know; if not told, its owner's own."""
    if session.phase is not Phase.QUEUED:
        return Wait(None, session.why, next_step="")
    if session.wanted is Wanted.STOP:
        return Wait(None, f"is being stopped: {session.stop_why}")
    if waits_for:
        return Wait(None, f"waits for {', '.join(waits_for)} to end well", next_step="Stop it to give it up.")
    if left := rest_left(session, now):
        return Wait(None, f"is tried again in {show_duration(left)}: {session.why}")
    place, found = view.places.get(session.id), view.starts.get(session.id)
    start = None if found is None else view.record.ranged(found, view.made_at)
    refusals = view.plan.refusals_of(session) or refusals_now(session, view, now)
    ways = helped(session, view, now) if advise and refusals else ()
    return Wait(
        place, summary(place, refusals, view), refusals[:MOST_REFUSALS],
        forecast_start=None if start is None else start.typical,
        forecast_why=forecast_why(start, view, shown or (lambda owner: owner == session.owner)),
        next_step=next_step(session, refusals, view, ways),
        forecast_low=None if start is None else start.low,
        forecast_high=None if start is None else start.high,
        helps=ways,
        more_nodes=sum(refusal.nodes for refusal in refusals[MOST_REFUSALS:]),
        own_time=own_time_of(session, view),
    )  # fmt: skip


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
    nodes = sum(refusal.nodes for refusal in refusals)
    reason = refusals[0].why if nodes == 1 else f"no room on {nodes} nodes ({refusals[0].why})"
    return reason if place == 1 else f"{reason.rstrip('.')}; {ahead} ahead of it"


def forecast_why(start: Start | None, view: Outlook, shown: Shown) -> str:
    return f"not forecast beyond place {depth(len(view.rooms))}" if start is None else start_why(start, shown)


def own_time_of(session: Session, view: Outlook) -> str:
    if session.request.time_limit is not None:
        return ""
    return own_time(view.cluster.run_times.of(session.owner, session.request.image))


def next_step(session: Session, refusals: Sequence[Refusal], view: Outlook, ways: Sequence[str]) -> str:
    """What would start at once instead, if anything would; and what an admin has to do, where nothing starts by itself."""
    share = session.request.share
    if refusals and share.kind is ShareKind.MIG and not any(is_cut_for(session.request, room.node) for room in view.rooms.values()):
        return f"No GPU is cut for {share} now. An admin can cut one (`fairy mig apply`), or let cuts follow the queue (`fairy mig auto`)."
    return " ".join((BY_ITSELF, *ways[:1]))


def helped(session: Session, view: Outlook, now: datetime) -> tuple[str, ...]:
    promises = others(view.plan.promises, view.cluster.together(session))
    asked = asked_of(session), session.owner, len(promises)
    if asked not in view._helped:
        view._helped[asked] = helps(session, Scene(view.cluster, view.rooms, promises, now))
    return view._helped[asked]


def is_cut_for(request: Request, node: Node) -> bool:
    """Whether it could start there once others have left: the cut of a GPU may have changed since the session came."""
    return isinstance(fit(request, Room.empty(replace(as_it_may_be_cut(node), state=NodeState.READY))), Seat)
