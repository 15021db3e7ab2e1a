"""Bells: who is to look again because something changed. Loops have one each; people who follow a session get one too."""
import asyncio
from collections import defaultdict
from collections.abc import Iterable


class Bells:
    def __init__(self) -> None:
        self.admit, self.place, self.converge, self.expire = (asyncio.Event() for _ in range(4))
        self._session: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._anything: set[asyncio.Future[None]] = set()

    def sessions_changed(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            ring(self._session.pop(session_id, set()))
        ring(self._anything)
        self._anything = set()

    async def wait_for(self, session_id: str | None, seconds: float) -> None:
        """Returns when that session (or, with None, any) has changed, or the time is up."""
        bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        listeners = self._anything if session_id is None else self._session[session_id]
        listeners.add(bell)
        try:
            await asyncio.wait([bell], timeout=seconds)
        finally:
            listeners.discard(bell)
            if session_id is not None and not self._session.get(session_id, True):
                del self._session[session_id]


def ring(bells: Iterable[asyncio.Future[None]]) -> None:
    for bell in list(bells):
        if not bell.done():
            bell.set_result(None)
