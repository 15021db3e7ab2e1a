"""Bells: who is to look again because something changed. Loops have one each; people who follow a session get one too."""
import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PEOPLE, GATEWAY = "people", "gateway"  # for `listen`, beside the ids of sessions, which are longer
CHANGES_KEPT = 4096  # of sessions and owners, when each changed last: of all others it is supposed that they did


class Bells:
    def __init__(self) -> None:
        self.admit, self.place, self.converge, self.expire = (asyncio.Event() for _ in range(4))
        self.people_revision = secrets.randbelow(2**40)  # not 0: a gateway that outlived the last server must see that this is another
        self.told_revision = 0  # of people, as far as the SSH gateway has said that it knows
        self.leaving = asyncio.Event()  # the server is about to end: streams and long polls end first
        self._listeners: dict[str | None, set[asyncio.Event]] = defaultdict(set)
        self.changes = 0  # how often anything has changed
        self._changed_at: dict[str, int] = {}  # by what is listened for, the latest last
        self._forgotten = 0  # the latest change that is no longer in it

    def sessions_changed(self, session_ids: Iterable[str], owners: Iterable[str] = ()) -> None:
        self.changes += 1
        for listened in (*session_ids, *map(all_of, owners)):
            self._note(listened)
            self._ring(listened)
        self._ring(None)

    def changed_since(self, listened: str | None, changes: int) -> bool:
        """Whether it has changed since the count of changes was that. Sometimes true of what has not: then one looks in vain."""
        if listened is None or changes > self.changes:  # the latter: another server counted them
            return changes != self.changes
        return self._changed_at.get(listened, self._forgotten) > changes

    def listeners(self, listened: str | None) -> int:
        return len(self._listeners.get(listened, ()))

    def listening(self) -> int:
        """To whatever it is."""
        return sum(map(len, self._listeners.values()))

    def _note(self, listened: str) -> None:
        self._changed_at.pop(listened, None)
        self._changed_at[listened] = self.changes
        if len(self._changed_at) > CHANGES_KEPT:
            self._forgotten = self._changed_at.pop(next(iter(self._changed_at)))

    def _ring(self, listened: str | None) -> None:
        for bell in self._listeners.get(listened, ()):
            bell.set()

    def people_changed(self) -> None:
        self.people_revision += 1
        self._ring(PEOPLE)

    def gateway_knows(self, revision: int) -> None:
        self.told_revision = revision
        self._ring(GATEWAY)

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


def all_of(owner: str) -> str:
    """To be listened for: every session of one user. No session's id has a colon."""
    return f"of:{owner}"


async def rung(bell: asyncio.Event, seconds: float) -> bool:
    """Waits for it. False: the time was up first."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    return True
