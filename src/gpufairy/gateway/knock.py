"""Coming into a session: asking the server for its door, once for all who wait for it, and telling each why it is not open yet."""
import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.core.purpose import Purpose
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import Entry, House

FIRST_WAIT_S = 0.3  # the server's, for the first answer: a session that runs, or starts at once, costs one call; others hear why soon
WAIT_S = 20.0  # and for those after it
ASK_AGAIN_S = 0.5  # at the soonest: a server that is about to leave does not hold the question
SERVER_AWAY = (502, 503, 504)  # answered in its stead, or by one that only begins

Tell: TypeAlias = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Company:
    """All who wait for the same door."""

    asking: asyncio.Task[Entry]
    tells: list[Tell] = field(default_factory=list)
    words: str = ""  # the last told, for whoever comes later

    def tell(self, words: str) -> None:
        self.words = words
        for tell in list(self.tells):
            tell(words)


class Knocks:
    """However many channels somebody opens to a session that waits: the server holds one question, or they would take all it can hold."""

    def __init__(self, house: House, away_s: float) -> None:
        self._house, self._away_s = house, away_s
        self._companies: dict[tuple[Login, Purpose], Company] = {}

    async def enter(self, login: Login, purpose: Purpose, tell: Tell) -> Entry:
        """The open door, however long it takes; `tell` gets each new reason. Raises FairyError: never, or the server is gone."""
        key = (login, purpose)
        company = self._companies.get(key) or self._new_company(key)
        company.tells.append(tell)
        if company.words:
            tell(company.words)
        try:
            return await asyncio.shield(company.asking)  # each may give up alone
        finally:
            company.tells.remove(tell)
            if not company.tells:
                self._dissolve(key, company)

    def _new_company(self, key: tuple[Login, Purpose]) -> Company:
        def told(words: str) -> None:
            company.tell(words)

        asking = asyncio.get_running_loop().create_task(knock(self._house, *key, tell=told, away_s=self._away_s))
        company = self._companies[key] = Company(asking)
        asking.add_done_callback(lambda _: self._dissolve(key, company))
        return company

    def _dissolve(self, key: tuple[Login, Purpose], company: Company) -> None:
        if self._companies.get(key) is company:
            del self._companies[key]
        company.asking.cancel()


async def knock(house: House, login: Login, purpose: Purpose, *, tell: Tell, away_s: float) -> Entry:
    """The question itself, again and again."""
    loop = asyncio.get_running_loop()
    away_since: float | None = None
    told, wait_s = "", FIRST_WAIT_S
    while True:
        began, at_least_s = loop.time(), min(wait_s, ASK_AGAIN_S)
        try:
            answer = await house.enter(login.user, login.session, purpose, wait_s)
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
            away_since, words, wait_s = None, answer.words, WAIT_S
        if words != told:
            tell(words)
            told = words
        await asyncio.sleep(max(0.0, at_least_s - (loop.time() - began)))
