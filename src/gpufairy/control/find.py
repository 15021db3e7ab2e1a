"""Finding the session that a caller names: by name or id among their own; admins also by id or USER+NAME among all."""
from functools import partial

from gpufairy.control.door import waits_for
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.amounts import shown
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.explain import Wait, explain
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session


async def find_session(house: House, caller: Caller, name: str) -> Session:
    """Others' sessions are answered as if they were not there: their names are nobody's business."""
    owner, plus, own_name = name.partition("+")
    if not plus:
        owner, own_name = caller.user.name, name
    found = house.book.named(owner, own_name) or house.book.get(name)
    if found is None and len(name) <= 80:
        found = await house.store.sessions.named(owner, own_name) or await house.store.sessions.get(name)
    if found is None or not may_see(caller, found):
        raise NoSuchThing(f"{caller.user.name} has no session {shown(name)}", "See `fairy ps -a` for yours.")
    return found


def may_see(caller: Caller, session: Session) -> bool:
    return may_see_of(caller, session.owner)


def may_see_of(caller: Caller, owner: str) -> bool:
    return caller.is_admin or owner == caller.user.name


def wait_of(house: House, session: Session, caller: Caller | None = None, *, advise: bool = True) -> Wait | None:
    """As `caller` is told it; None: as its owner is. `advise`: with what would start now instead, which takes some tries."""
    if session.phase is not Phase.QUEUED:
        return None
    shown = None if caller is None else partial(may_see_of, caller)
    return explain(session, house.outlook(session.since), waits_for(house, session), house.clock(), shown=shown, advise=advise)
