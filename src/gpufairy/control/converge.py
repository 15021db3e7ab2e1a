"""The converge loop: brings what the engine runs and what the store says together. Write first, act second."""
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from gpufairy.control.house import House
from gpufairy.core import failpoints
from gpufairy.core.adopt import as_others_sit
from gpufairy.core.arrive import Arrival, arrivals, arrived, stranded
from gpufairy.core.errors import EngineRefused, EngineSilent, NoSuchThing, NotLeader
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Role
from gpufairy.core.pool import pool_coming
from gpufairy.core.reconcile import (
    ADOPTED,
    Deed,
    Order,
    adopted,
    ahead_of_their_rows,
    back_with,
    leftovers,
    node_silent,
    reconcile,
    refused,
    turned_away,
)
from gpufairy.core.session import Session
from gpufairy.core.steps import event
from gpufairy.core.workload import Workload, WorkloadId, workload_id

log = logging.getLogger("gpufairy.converge")



async def converge(house: House) -> float:
    """Returns how long it took: it rests as long. Each change wakes it, and each time it looks at all sessions: with thousands of them it
    would do nothing else, and find little new each time."""
    began_s = time.monotonic()
    if house.store.lease_lost.is_set():
        raise NotLeader("another server leads now", "This one ends; start it again and it waits for its turn.")
    # Taken before the look: one whose launch ends in between is not on the list, and not gone either.
    launching = house.deeds.under_way(Deed.LAUNCH)
    try:
        workloads = await house.engine.list_mine()
    except EngineSilent as error:
        await no_answer(house, error)
        return 0.0
    if house.silent_since is None:
        await take_stock(house, workloads)
    else:
        async with house.placing:  # nobody is placed before it is written down who sits there
            await take_stock(house, workloads)
            house.silent_since = None
            await house.look_at_nodes()
        house.bells.place.set()
    sessions = [session for session in house.book.active.values() if workload_id(session) not in launching]
    if found := arrived(sessions, workloads):
        await nodes_came(house, found, workloads)
        sessions = [house.book.active[one.id] for one in sessions if one.id in house.book.active]
    await obey(house, stranded(sessions, workloads, house.nodes, house.clock(), house.policy))
    for session, workload in turned_away(sessions, workloads):
        await go_back(house, session, workload.why, counts=not workload.crowded_out)
        act(house, Order(deed=Deed.CLEAR, workload=workload.id), Deed.CLEAR)
    sessions = [session for session in sessions if house.book.get(session.id) is session]
    leaving = {workload_id(session) for session in sessions if session.phase is Phase.STOPPING}
    house.asked_to_leave = {workload: at for workload, at in house.asked_to_leave.items() if workload in leaving}
    orders = reconcile(sessions, workloads, house.clock(), house.policy, house.asked_to_leave)
    house.leak_notes.released(await obey(house, orders))
    return time.monotonic() - began_s


async def nodes_came(house: House, found: Sequence[Arrival], workloads: Sequence[Workload]) -> None:
    """Those for whom a node was woken are on it now."""
    async with house.placing:  # nobody is given a place there meanwhile
        if {arrival.node for arrival in found} - {node.name for node in house.nodes}:
            await house.look_at_nodes()
        now = house.clock()
        holding = house.book.holding()
        await obey(house, arrivals(found, holding=holding, workloads=workloads, nodes=house.nodes, now=now, policy=house.policy))
    came_at = {node.name: node.came_at for node in house.nodes}
    moved = [one for one in found if house.node_of(one.session.id) == one.node]
    for node, session in {one.node: one.session for one in moved}.items():
        pool, joined, since = pool_coming(session.seat.node if session.seat else ""), came_at.get(node), session.placed_at
        if pool is not None and joined is not None and since is not None and joined > since:  # else it was there before, and had room again
            await house.pools.came(pool, now - since)


async def take_stock(house: House, workloads: Sequence[Workload]) -> None:
    """Of what runs and the store does not know, or not as it is."""
    now = house.clock()
    ahead = ahead_of_their_rows(known_here(house, workloads), workloads, now)
    beside = as_others_sit([change.after for change in ahead], house.book.holding(), house.nodes, now)
    await house.save([replace(change, after=after) for change, after in zip(ahead, beside, strict=True)])
    await tidy(house, workloads)


def known_here(house: House, workloads: Sequence[Workload]) -> list[Session]:
    return [session for workload in workloads if (session := house.book.get(workload.id.session_id)) is not None]


async def no_answer(house: House, error: EngineSilent) -> None:
    """Nothing is known, so nothing is changed; after a while the sessions are marked LOST, and still hold their GPUs."""
    now = house.clock()
    if house.silent_since is None:
        house.silent_since = now
        log.warning("engine %s does not answer: %s", house.engine.name, error)
        await house.look_at_nodes()
    if now - house.silent_since > house.policy.silent_after:
        await obey(house, node_silent(list(house.book.active.values()), now, f"no answer from {house.engine.name}: {error}"))


async def obey(house: House, orders: Sequence[Order]) -> list[Order]:
    """Those whose write took, or that had none."""
    took = {id(change) for change in await house.save([order.change for order in orders if order.change is not None])}
    obeyed = [order for order in orders if order.change is None or id(order.change) in took]
    for order in obeyed:
        if order.deed is not None:
            act(house, order, order.deed)
    return obeyed


def act(house: House, order: Order, deed: Deed) -> None:
    if deed is Deed.LAUNCH and order.session is not None:
        house.deeds.begin(deed, workload_id(order.session), partial(launch, house, order.session))
    elif deed is Deed.STOP and order.workload is not None:
        house.deeds.begin(deed, order.workload, partial(stop, house, order.workload, order.grace))
    elif deed is Deed.CLEAR and order.workload is not None:
        house.deeds.begin(deed, order.workload, partial(clear, house, order.workload))


async def stop(house: House, workload: WorkloadId, grace: timedelta) -> None:
    asked_at = house.clock()
    failpoints.passing("before_stop")
    await house.engine.stop(workload, grace)
    failpoints.passing("after_stop_before_noted")
    house.asked_to_leave[workload] = asked_at


async def clear(house: House, workload: WorkloadId) -> None:
    failpoints.passing("before_clear")
    await house.engine.clear(workload)
    failpoints.passing("after_clear")


async def launch(house: House, session: Session) -> None:
    if house.book.get(session.id) != session:
        return  # it was told to stop, or is over, while this waited for its turn
    try:
        failpoints.passing("before_launch")
        await house.engine.launch(house.gallery.as_started(session, is_admin=is_admins(house, session)))
        failpoints.passing("after_launch_before_noted")
        await house.gallery.note_use(session.request, session.owner)
    except EngineRefused as error:
        await go_back(house, session, str(error))
    except EngineSilent as error:
        # Perhaps it was launched, perhaps not: the next look at the engine tells, and launching twice is harmless.
        log.warning("launch of %s: no answer: %s", session.id, error)


def is_admins(house: House, session: Session) -> bool:
    try:
        return house.registry.user(session.owner).role is Role.ADMIN
    except NoSuchThing:  # found by its label alone, in a database that is new
        return False


async def go_back(house: House, session: Session, why: str, *, counts: bool = True) -> None:
    """One that the engine would not launch, and all of its gang."""
    now, policy = house.clock(), house.policy
    made = refused(session, now, why, policy, counts=counts)
    orders = [Order(made), *back_with(made, house.book.active.values(), now, why, policy)]
    while orders:  # one may have come a step further while this was written
        await obey(house, orders)
        orders = back_with(made, house.book.active.values(), now, why, policy)


async def tidy(house: House, workloads: Sequence[Workload]) -> None:
    """Workloads that no live session stands for: ended ones are cleared away, unknown ones adopted, none is killed for being unknown."""
    strays = [w for w in workloads if (known := house.book.get(w.id.session_id)) is None or known.attempt != w.id.attempt]
    if not strays:
        return
    ended = await house.store.sessions.ended([workload.id.session_id for workload in strays])
    orders, unknown = leftovers(strays, house.book, ended)
    house.leak_notes.stopped(await obey(house, orders), strays)
    await adopt(house, unknown)


async def adopt(house: House, workloads: Sequence[Workload]) -> None:
    """Workloads that the store does not know (it is empty, or from yesterday): their labels say whose they are."""
    now = house.clock()
    found = [(one, adopted(one, one.session)) for one in workloads if one.session is not None and one.session.seat is not None]
    # What is over gives its place back at the next look.
    beside = as_others_sit([session for workload, session in found if workload.alive], house.book.holding(), house.nodes, now)
    for one in [session for workload, session in found if not workload.alive] + beside:
        is_taken = house.book.named(one.owner, one.name) is not None
        session = replace(one, name=f"found-{one.id[:12]}") if is_taken else one
        log.warning("adopting session %s of %s, which the store did not know", session.id, session.owner)
        await house.registry.ensure_user(session.owner)
        await house.add([session], [event(session, "adopted", now, ADOPTED)], None)
