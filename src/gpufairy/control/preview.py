"""Preview: what would become of a submit, told before it is made: does it start now, or when and why not. Nothing is written.

It is asked for as a submit is (door.py), and told as a wait is (explain.py), so that all three agree.
"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gpufairy.control.door import asked_for, notes_on, waits_for
from gpufairy.control.house import PLACES_COUNTED, House
from gpufairy.control.registry import Caller
from gpufairy.core.cluster import Cluster
from gpufairy.core.explain import Outlook, Wait, explain
from gpufairy.core.fit import Refusal
from gpufairy.core.forecast import depth, forecast
from gpufairy.core.helps import Scene, allowances_of, seat_now
from gpufairy.core.plan import Plan, all_at_once, asking_of, seat_for, who_asks
from gpufairy.core.queue import Queue, shape
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import Share
from gpufairy.core.turn import in_order
from gpufairy.wire.submit import SubmitBody

LAST_NUMBER = 2**62  # whoever is only thought of comes after all who were submitted
MOST_TRIED = 100  # of many of the same: each is a look at every node


@dataclass(frozen=True, slots=True)
class Preview:
    sessions: tuple[Session, ...]  # as they would be written
    starts_now: int  # so many of them, of the first `MOST_TRIED`
    seat: Seat | None  # of the first: what it would have now, or when it starts; None: nobody can tell
    wait: Wait | None  # of the first that would not start now; None: all of those tried would
    notes: tuple[str, ...] = ()  # what is not used here

    @property
    def tried(self) -> int:
        return min(len(self.sessions), MOST_TRIED)


async def preview(house: House, caller: Caller, body: SubmitBody, presets: Mapping[str, SubmitBody]) -> Preview:
    """Raises what the submit would."""
    made = await asked_for(house, caller, body, presets)
    sessions = tuple(replace(session, number=LAST_NUMBER + place) for place, session in enumerate(made))
    notes = tuple(notes_on(sessions[0].request, house.engine.ignores, house.engine.name))
    if waits_for(house, sessions[0]):
        return Preview(sessions, 0, None, wait_among(house, sessions, 0, ())[0], notes)
    seats, refusals = seats_in_turn(sessions[:MOST_TRIED], scene_now(house))
    first = seats[0] if seats else None
    if not refusals:
        return Preview(sessions, len(seats), first, None, notes)
    if sessions[0].request.gang is not None:
        seats, refusals = [], all_at_once(refusals, len(seats), len(sessions))
    wait, later = wait_among(house, sessions, len(seats), refusals)
    return Preview(sessions, len(seats), first or later, wait, notes)


def seats_in_turn(sessions: Sequence[Session], scene: Scene) -> tuple[list[Seat], tuple[Refusal, ...]]:
    """Of those who find a seat beside each other now; and why the next one does not."""
    cluster, now, allowances = scene.cluster, scene.now, allowances_of(scene)
    rooms = {name: room.copy() for name, room in scene.rooms.items()}
    promises = [replace(one, spares={name: room.copy() for name, room in one.spares.items()}) for one in scene.promises]
    seats: list[Seat] = []
    for session in sessions:
        if (over := allowances.refusal_anywhere(session)) is not None:
            return seats, (Refusal("", over),)
        asking = asking_of(session, cluster, now)
        asking = replace(asking, closed={**asking.closed, **allowances.closed(session)})
        seat = seat_for(session.request, rooms.values(), promises, now, asking)
        if not isinstance(seat, Seat):
            return seats, seat
        if (over := allowances.refusal(session, seat)) is not None:
            return seats, (Refusal("", over),)
        allowances.placed(session, seat)
        spares = [spare for one in promises if (spare := one.spare_on(seat.node, asking.stay, now)) is not None]
        for room in (rooms[seat.node], *spares):
            room.take(seat)
        seats.append(seat)
    return seats, ()


def shares_now(house: House, session: Session, shares: Sequence[Share]) -> dict[Share, bool]:
    """Of shares that somebody may choose from, which would start now, all else being as it is asked."""
    scene = scene_now(house)
    return {share: seat_now(replace(session, request=with_share(session.request, share)), scene) is not None for share in shares}


def with_share(request: Request, share: Share) -> Request:
    return replace(request, share=share, gpu_memory_bytes=None, gang=None, gang_size=0)


def scene_now(house: House) -> Scene:
    cluster = house.cluster()
    return Scene(cluster, cluster.rooms(), house.plan.promises, house.clock())


def wait_among(house: House, sessions: Sequence[Session], place: int, refusals: tuple[Refusal, ...]) -> tuple[Wait, Seat | None]:
    """As the one at that place would be told once all of them were in the queue; and the seat that it is forecast."""
    now, session = house.clock(), sessions[place]
    # As the next plan would have it: no plan has seen these yet.
    plan = replace(house.plan, refusals={**house.plan.refusals, (shape(session.request), who_asks(session)): refusals})
    view = outlook_to(session, with_waiting(house.cluster(), sessions), plan, house)
    start = view.starts.get(session.id)
    wait = explain(session, view, waits_for(house, session), now, advise=place == 0)  # else what helps the first would be told
    return wait, None if start is None else start.seat


def outlook_to(session: Session, cluster: Cluster, plan: Plan, house: House) -> Outlook:
    """As house.outlook, but nobody behind this one is forecast, and nobody at all where it is too far back itself: forecasts are dear."""
    now, rooms = house.clock(), cluster.rooms()
    order = in_order(cluster, now, PLACES_COUNTED)
    places = {one.id: place for place, one in enumerate(order, 1)}
    place = places.get(session.id)
    told = order[:place] if place is not None and place <= depth(len(rooms)) else []
    return Outlook(cluster, rooms, plan, order, places, forecast(cluster, rooms, told, now), now, house.track_record)


def with_waiting(cluster: Cluster, sessions: Sequence[Session]) -> Cluster:
    owner, gang = sessions[0].owner, sessions[0].request.gang
    before = islice(cluster.waiting.get(owner, ()), PLACES_COUNTED)
    gangs = cluster.gangs if gang is None else {**cluster.gangs, gang: tuple(sessions)}
    return replace(cluster, waiting={**cluster.waiting, owner: Queue([*before, *sessions])}, gangs=gangs)
