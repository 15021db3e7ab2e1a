"""Alter: what people change about a session that runs: how long it may, and which image it runs."""
from dataclasses import replace
from datetime import timedelta

from gpufairy.control.converge import act
from gpufairy.control.house import House
from gpufairy.control.notices import About
from gpufairy.control.registry import Caller
from gpufairy.core import failpoints
from gpufairy.core.amounts import show_duration
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.image import kept_name
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed, Order
from gpufairy.core.session import Session
from gpufairy.core.steps import Change, keep, swap
from gpufairy.core.workload import workload_id


async def keep_longer(house: House, caller: Caller, session: Session, time: timedelta) -> Session:
    """At least so long from now; never shorter than it had. Until then nothing is asked back of it, used or not."""
    while True:
        session, now = running(house, session), house.clock()
        if time > house.policy.keep_most:
            raise BadInput(f"time: {show_duration(time)} is more than {show_duration(house.policy.keep_most)} ahead", "Ask again later.")
        limit = None
        if session.expected_end is not None and session.started_at is not None:
            limit = max(session.expected_end, now + time) - session.started_at
        if await took(house, keep(session, now + time, limit, now, caller.user.name)):
            house.notices.take_back(session.id, About.IDLE)
            return running(house, session)


async def swap_image(house: House, caller: Caller, session: Session, image: str) -> Session:
    """Same name, home, mounts and seat; what it was is kept as an image first, to go back to, where images can be made.

    Where none can, what was installed outside of the home is lost, and the session's events say so."""
    shelf = house.gallery.on_shelf()
    session = running(house, session)
    name = (await house.gallery.chosen(caller, replace(session.request, image=image), house.nodes)).image
    assert name is not None
    if shelf.fetches and await shelf.image(name) is None:  # fetched while the old one still runs: nobody waits longer than they must
        async for _ in shelf.pull(name):
            pass
    lost = "" if not shelf.no_commits else f"what was installed outside of its home is not kept: {shelf.no_commits}"
    kept = session.request.image or house.gallery.rules.default
    if not lost:
        kept = (await shelf.commit(workload_id(session), kept_name(session.id, session.attempt))).name
    failpoints.passing("after_swap_kept_before_written")
    while True:
        session = running(house, session)
        if await took(house, swap(session, name, kept, house.clock(), caller.user.name, lost=lost)):
            # Should this be lost in a crash, the loops end it when its grace is over.
            order = Order(deed=Deed.STOP, workload=workload_id(session), grace=house.policy.stop_grace)
            act(house, order, Deed.STOP)
            return house.book.get(session.id) or session


def running(house: House, session: Session) -> Session:
    now = house.book.get(session.id) or session
    if now.phase is not Phase.RUNNING:
        raise Conflict(f"session {now.name} is {now.state}, not RUNNING", "See `fairy show` for what it does.")
    return now


async def took(house: House, change: Change) -> bool:
    """False: somebody was faster, so it is to be looked at again."""
    return bool(await house.save([change]))
