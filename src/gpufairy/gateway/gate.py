"""Gate: who is in, by which key, in which session. The roster last known stays in force while the server is away."""
import asyncio
import logging
from collections import defaultdict
from datetime import UTC, datetime
from typing import Protocol

from gpufairy.core.ending import Notice
from gpufairy.core.limits import Refusals
from gpufairy.gateway.endings import Warnings, warning
from gpufairy.gateway.knock import Knocks
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import House, Roster
from gpufairy.gateway.settings import GatewaySettings

log = logging.getLogger("gpufairy.gateway")


class Guest(Protocol):
    """A connection that has signed in."""

    login: Login
    key: bytes

    @property
    def channel_count(self) -> int: ...
    def turn_out(self, words: str) -> None: ...


class Screen(Protocol):
    """A terminal in a session."""

    session_id: str

    def tell(self, words: str) -> None: ...


class Gate:
    def __init__(self, settings: GatewaySettings, house: House, sftp_server: str | None) -> None:
        self.settings, self.house, self.sftp_server = settings, house, sftp_server
        self.refusals = Refusals()
        self.knocks = Knocks(house, settings.away_s)
        self.empty = asyncio.Event()  # nobody is in
        self.empty.set()
        self.tasks: set[asyncio.Task[None]] = set()  # of commands and forwards: awaited before the process ends
        self._roster: Roster | None = None
        self._roster_came = asyncio.Event()
        self._guests: dict[str, set[Guest]] = defaultdict(set)
        self._screens: dict[str, set[Screen]] = defaultdict(set)
        self._warnings = Warnings()
        self._noticed: set[Notice] = set()  # what screens were told; who comes later is greeted with it
        self._next_look: asyncio.TimerHandle | None = None

    # Who may come in.

    @property
    def revision(self) -> int:
        return 0 if self._roster is None else self._roster.revision

    @property
    def has_roster(self) -> bool:
        return self._roster is not None

    async def roster_came(self) -> bool:
        """Whether there is one, after waiting as long for it as a login may."""
        try:
            async with asyncio.timeout(self.settings.away_s):
                await self._roster_came.wait()
        except TimeoutError:
            return False
        return True

    def knows(self, user: str, key: bytes) -> bool:
        """One look at one table, whether the user exists or not: the time it takes tells nothing."""
        return self._roster is not None and key in self._roster.keys.get(user, frozenset())

    def take_roster(self, roster: Roster) -> None:
        self._roster = roster
        self._roster_came.set()
        for guest in [guest for guests in self._guests.values() for guest in guests]:
            if not self.knows(guest.login.user, guest.key):
                guest.turn_out("this key was removed, or its owner shut out; ask an admin")
        self._warnings.replace(roster.endings)
        self._warn()
        for notice in set(roster.notices) - self._noticed:
            for screen in list(self._screens.get(notice.session_id, ())):
                screen.tell(notice.words)
        self._noticed = set(roster.notices)

    # Who is in.

    @property
    def guests(self) -> list[Guest]:
        return [guest for guests in self._guests.values() for guest in guests]

    def room_for(self, user: str) -> bool:
        return len(self._guests.get(user, ())) < self.settings.most_per_user

    def came(self, guest: Guest) -> None:
        self._guests[guest.login.user].add(guest)
        self.empty.clear()

    def left(self, guest: Guest) -> None:
        guests = self._guests.get(guest.login.user, set())
        guests.discard(guest)
        if not guests:
            self._guests.pop(guest.login.user, None)
        if not self._guests:
            self.empty.set()

    def window_for(self, user: str) -> int:
        """How much one more channel of theirs may send ahead."""
        wide = sum(guest.channel_count for guest in self._guests.get(user, ())) < self.settings.wide_channels_per_user
        return self.settings.window_bytes if wide else self.settings.small_window_bytes

    def watch(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # Who is told.

    def show_on(self, screen: Screen) -> None:
        self._screens[screen.session_id].add(screen)

    def take_off(self, screen: Screen) -> None:
        screens = self._screens.get(screen.session_id, set())
        screens.discard(screen)
        if not screens:
            self._screens.pop(screen.session_id, None)

    def _warn(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        now = datetime.now(UTC)
        for ending in self._warnings.due(now):
            for screen in list(self._screens.get(ending.session_id, ())):
                screen.tell(warning(ending, now))
        wait_s = self._warnings.next_look_s(now)
        if wait_s is not None:
            self._next_look = asyncio.get_running_loop().call_later(wait_s + 0.05, self._warn)

    def close(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
