"""Coming into a session: asking the server for its door, and telling whoever waits why it is not open yet."""
import asyncio
from collections.abc import Callable

from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import Entry, House, Purpose

ASK_AGAIN_S = 0.5  # at the soonest: the server itself holds the question for longer, unless it is about to leave
SERVER_AWAY = (502, 503, 504)  # answered in its stead, or by one that only begins


async def knock(house: House, login: Login, purpose: Purpose, *, tell: Callable[[str], None], away_s: float) -> Entry:
    """The open door, however long it takes; `tell` gets each new reason. Raises FairyError: never, or the server is gone."""
    loop = asyncio.get_running_loop()
    away_since: float | None = None
    told = ""
    while True:
        began = loop.time()
        try:
            answer = await house.enter(login.user, login.session, purpose)
        except (ServerNotReached, Problem) as error:
            if isinstance(error, Problem) and error.status not in SERVER_AWAY:
                raise
            away_since = began if away_since is None else away_since
            if loop.time() - away_since >= away_s:
                detail = f"the server has not answered for {away_s:g} s"
                raise ServerNotReached(detail, "Your sessions go on; try again in a minute.") from error
            words = "the server is restarting; your session goes on, please wait"
        else:
            if isinstance(answer, Entry):
                return answer
            away_since, words = None, answer.words
        if words != told:
            tell(words)
            told = words
        await asyncio.sleep(max(0.0, ASK_AGAIN_S - (loop.time() - began)))
