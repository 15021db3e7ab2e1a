"""The converge loop: brings what the engine runs and what the store says together. Write first, act second."""
import dataclasses
import logging
from collections.abc import Sequence
from functools import partial

from gpufairy.control.house import House
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed, Order, leftovers, node_silent, reconcile, refused
from gpufairy.core.session import Session
from gpufairy.core.steps import event
from gpufairy.core.workload import Workload, WorkloadState, workload_id

log = logging.getLogger("gpufairy.converge")

ADOPTED = "found by its labels, adopted"


async def converge(house: House) -> None:
    try:
        workloads = await house.engine.list_mine()
    except EngineSilent as error:
        await no_answer(house, error)
        return
    if house.silent_since is not None:
        house.silent_since = None
        await house.look_at_nodes()
        house.bells.place.set()
    await obey(house, reconcile(list(house.book.active.values()), workloads, house.clock(), house.policy))
    await tidy(house, workloads)


async def no_answer(house: House, error: EngineSilent) -> None:
    """Nothing is known, so nothing is changed; after a while the sessions are marked LOST, and still hold their GPUs."""
    now = house.clock()
    if house.silent_since is None:
        house.silent_since = now
        log.warning("engine %s does not answer: %s", house.engine.name, error)
        await house.look_at_nodes()
    if now - house.silent_since > house.policy.silent_after:
        await obey(house, node_silent(list(house.book.active.values()), now, f"no answer from {house.engine.name}: {error}"))


async def obey(house: House, orders: Sequence[Order]) -> None:
    took = {id(change) for change in await house.save([order.change for order in orders if order.change is not None])}
    for order in orders:
        if order.deed is not None and (order.change is None or id(order.change) in took):
            act(house, order, order.deed)


def act(house: House, order: Order, deed: Deed) -> None:
    if deed is Deed.LAUNCH and order.session is not None:
        house.deeds.begin(deed, workload_id(order.session), partial(launch, house, order.session))
    elif deed is Deed.STOP and order.workload is not None:
        house.deeds.begin(deed, order.workload, partial(house.engine.stop, order.workload, order.grace))
    elif deed is Deed.CLEAR and order.workload is not None:
        house.deeds.begin(deed, order.workload, partial(house.engine.clear, order.workload))


async def launch(house: House, session: Session) -> None:
    try:
        await house.engine.launch(session)
    except EngineRefused as error:
        await house.save([refused(session, house.clock(), str(error), house.policy)])
    except EngineSilent as error:
        # Perhaps it was launched, perhaps not: the next look at the engine tells, and launching twice is harmless.
        log.warning("launch of %s: no answer: %s", session.id, error)


async def tidy(house: House, workloads: Sequence[Workload]) -> None:
    """Workloads that no live session stands for: ended ones are cleared away, unknown ones adopted, none is killed for being unknown."""
    strays = [w for w in workloads if (known := house.book.get(w.id.session_id)) is None or known.attempt != w.id.attempt]
    if not strays:
        return
    ended = await house.store.sessions.ended([workload.id.session_id for workload in strays])
    orders, unknown = leftovers(strays, house.book, ended)
    await obey(house, orders)
    await adopt(house, unknown)


async def adopt(house: House, workloads: Sequence[Workload]) -> None:
    """Workloads that the store does not know (it is empty, or from yesterday): their labels say whose they are."""
    now = house.clock()
    for workload in workloads:
        if workload.session is None or workload.session.seat is None:
            continue
        session = adopted(workload, workload.session)
        if house.book.named(session.owner, session.name) is not None:
            session = dataclasses.replace(session, name=f"found-{session.id[:12]}")
        log.warning("adopting session %s of %s, which the store did not know", session.id, session.owner)
        await house.registry.ensure_user(session.owner)
        await house.add([session], [event(session, "adopted", now, ADOPTED)], None)


def adopted(workload: Workload, label: Session) -> Session:
    """As its label says; what has befallen it since is for the next pass to find out."""
    running = workload.state is WorkloadState.RUNNING
    return dataclasses.replace(
        label, phase=Phase.RUNNING if running else Phase.STARTING, why=ADOPTED,
        started_at=workload.started_at if running else None, placed_at=label.placed_at or workload.started_at, revision=1,
    )  # fmt: skip
