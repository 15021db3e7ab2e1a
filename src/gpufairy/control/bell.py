"""Bells: who is to look again because something changed. Loops have one each; people who follow a session get one too."""
import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PEOPLE, GATEWAY = "people", "gateway"  # for `listen`, beside the ids of sessions, which are longer


class Bells:
    def __init__(self) -> None:
        self.admit, self.place, self.converge, self.expire = (asyncio.Event() for _ in range(4))
        self.people_revision = secrets.randbelow(2**40)  # not 0: a gateway that outlived the last server must see that this is another
        self.told_revision = 0  # of people, as far as the SSH gateway has said that it knows
        self.leaving = asyncio.Event()  # the server is about to end: streams and long polls end first
        self._listeners: dict[str | None, set[asyncio.Event]] = defaultdict(set)

    def sessions_changed(self, session_ids: Iterable[str]) -> None:
        for listened in (*session_ids, None):
            for bell in self._listeners.get(listened, ()):
                bell.set()

    def people_changed(self) -> None:
        self.people_revision += 1
        for bell in self._listeners.get(PEOPLE, ()):
            bell.set()

    def gateway_knows(self, revision: int) -> None:
        self.told_revision = revision
        for bell in self._listeners.get(GATEWAY, ()):
            bell.set()

    def leave(self) -> None:
        self.leaving.set()
        for bell in [bell for bells in self._listeners.values() for bell in bells]:
            bell.set()

    @contextmanager
    def listen(self, session_id: str | None) -> Iterator[asyncio.Event]:
        """A bell of one's own, rung when that session (or, with None, any) has changed. Clear it before each look, not after:
        what changes between the look and the wait then ends the wait at once."""
        bell, listeners = asyncio.Event(), self._listeners[session_id]
        listeners.add(bell)
        try:
            yield bell
        finally:
            listeners.discard(bell)
            if not listeners and self._listeners.get(session_id) is listeners:
                del self._listeners[session_id]


async def rung(bell: asyncio.Event, seconds: float) -> bool:
    """Waits for it. False: the time was up first."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    return True
