"""Street: which apps are open at which origins, who visits them, and the ports that are listened on for it."""
import asyncio
import logging
from collections import Counter
from typing import Protocol

from gpufairy.core.apps import Stall
from gpufairy.core.errors import FairyError
from gpufairy.engines.contract import Door
from gpufairy.gateway.apps_house import AppsHouse, OpenApps
from gpufairy.gateway.apps_jar import CookieJar

log = logging.getLogger("gpufairy.gateway.apps")

MOST_OF_A_SESSION = 256  # connections: many pages, and not all of our descriptors
NEWS_S = 2.0  # a browser may be faster than the news of what was just opened for it
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 1.0
AT_MOST_EVERY_S = 0.2  # a server that leaves answers its long polls at once


class Visitor(Protocol):
    stall: Stall | None
    token_id: str | None
    resting: bool

    @property
    def source(self) -> str: ...
    def cut(self) -> None: ...


class Street:
    def __init__(self, house: AppsHouse, jar: CookieJar) -> None:
        self.house, self.jar = house, jar
        self.closing = False  # no further requests, on whichever connection
        self.visits: set[Visitor] = set()
        self._revision = ""
        self._stalls: dict[tuple[int, str | None], Stall] = {}  # by port, and host where there are hosts
        self._doors: dict[str, Door] = {}
        self._news = asyncio.Event()  # replaced with each

    @property
    def ports(self) -> set[int]:
        return {port for port, _ in self._stalls}

    async def stall_at(self, port: int, host: str) -> Stall | None:
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        try:
            async with asyncio.timeout(NEWS_S):
                while (found := self._stalls.get((port, None)) or self._stalls.get((port, name))) is None:
                    await self._news.wait()
        except TimeoutError:
            return None
        return found

    def signed_in(self, visit: Visitor, stall: Stall, token_id: str | None) -> bool:
        """Notes whose it is. False: there are too many already."""
        visit.token_id = token_id
        if visit.stall is stall:
            return True
        counts = Counter(other.stall.session_id for other in self.visits if other.stall is not None and other is not visit)
        if counts[stall.session_id] >= MOST_OF_A_SESSION:
            return False
        visit.stall = stall
        return True

    async def door_of(self, stall: Stall) -> Door:
        """Raises FairyError. Asked once: the door of an attempt stays as it is."""
        if stall.id not in self._doors:
            self._doors[stall.id] = await self.house.door_of(stall)
        return self._doors[stall.id]

    def forget_door(self, stall: Stall) -> None:
        self._doors.pop(stall.id, None)

    async def follow(self) -> None:
        """The server's list, for ever. While the server is away the last one stays in force."""
        loop, back_off_s = asyncio.get_running_loop(), FIRST_BACK_OFF_S
        while True:
            began, before = loop.time(), self._revision
            try:
                self.take(await self.house.open_apps(before))
            except FairyError as error:
                if back_off_s == FIRST_BACK_OFF_S:
                    log.info("the server does not tell which apps are open: %s", error)
                await asyncio.sleep(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
                continue
            back_off_s = FIRST_BACK_OFF_S
            if self._revision == before:
                await asyncio.sleep(max(0.0, AT_MOST_EVERY_S - (loop.time() - began)))

    def take(self, told: OpenApps) -> None:
        """Visits of what is no longer open, or by a token that is no longer good, end at once."""
        self._revision = told.revision
        self._stalls = {(stall.port, stall.host): stall for stall in told.stalls}
        open_now = {stall.id for stall in told.stalls}
        self._doors = {key: door for key, door in self._doors.items() if key in open_now}
        self.jar.forget(told.gone_tokens)
        for visit, stall in [(visit, visit.stall) for visit in self.visits if visit.stall is not None]:
            if stall.id not in open_now or visit.token_id in told.gone_tokens:
                visit.cut()
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def news(self) -> asyncio.Event:
        """Set by the next news. Taken before a look at what is open, so that what comes between is not missed."""
        return self._news

    def close(self) -> None:
        """What rests ends now, what is under way when it is answered; a WebSocket goes on."""
        self.closing = True
        for visit in [visit for visit in self.visits if visit.resting]:
            visit.cut()
