"""The admit loop: lets sessions into the line when those they wait for have ended well, and ends those that wait in vain."""
from gpufairy.control.house import House
from gpufairy.core.admit import blocked_for_good, may_line_up, waited_for
from gpufairy.core.session import Outcome
from gpufairy.core.steps import want_stopped


async def admit(house: House) -> None:
    held_back = list(house.book.held_back.values())
    if not held_back:
        return
    ended = await house.store.sessions.ended(sorted(waited_for(held_back)))
    now = house.clock()
    in_vain = [(session, why) for session in held_back if (why := blocked_for_good(session, ended)) is not None]
    await house.save([want_stopped(session, now, outcome=Outcome.FAILED, why=why) for session, why in in_vain])
    for session in held_back:
        if may_line_up(session, ended) and session.id in house.book.held_back:
            house.book.line_up(house.book.held_back[session.id])
            house.bells.place.set()
