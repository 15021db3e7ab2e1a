"""Who is told which advice. Whatever the store cannot say now is left out: advice is never worth an error."""
import asyncio
import logging
from collections.abc import Sequence

from gpufairy.control.house import House
from gpufairy.control.insight import runs
from gpufairy.core.errors import FairyError
from gpufairy.core.insight import Advice
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session

log = logging.getLogger("gpufairy.insight")

GREETING_WAIT_S = 0.3  # nobody stands before a closed door for it
GREETED_FROM = 0.7  # of confidence: what is said at the door should be right


async def adviser(house: House, owner: str | None) -> list[tuple[Session, list[Advice]]]:
    """All that run, and what is to be said of each. `owner=None`: everybody's."""
    found = await house.insight.live(list(house.book.holding()))
    mine = [one for one in house.book.holding() if runs(one) and owner in (None, one.owner)]
    return [(session, found.get(session.id, [])) for session in mine]


async def advice_on(house: House, session: Session) -> list[Advice]:
    """Of one that is over: what its last readings say, for the next time."""
    if session.phase is Phase.ENDED:
        return await house.insight.of_ended(session)
    return (await house.insight.live(list(house.book.holding()))).get(session.id, []) if runs(session) else []


async def advice_if_known(house: House, sessions: Sequence[Session]) -> dict[str, list[Advice]]:
    """By id, for pages and greetings, which are there without it too."""
    try:
        return {session.id: await advice_on(house, session) for session in sessions}
    except FairyError as error:
        log.warning("no advice for now: %s", error)
        return {}


async def greeting_advice(house: House, session: Session) -> str:
    """One sentence and what to do, for whoever comes in; empty: nothing is to be said."""
    try:
        async with asyncio.timeout(GREETING_WAIT_S):
            known = await advice_if_known(house, [session])
    except TimeoutError:
        return ""
    told = known.get(session.id, [])
    sure = next((one for one in told if one.confidence >= GREETED_FROM), None)
    return "" if sure is None else f"{sure.sentence} {sure.next_step}"
