"""Images that are being fetched for whoever asked on the page: how far each is, and what came of it. Forgotten when the server ends."""
import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.errors import FairyError

SHOWN_FOR = timedelta(minutes=10)  # how it went


@dataclass(frozen=True, slots=True)
class Pull:
    image: str
    user: str
    at: datetime
    words: str = ""  # how far it is
    going: bool = True
    error: str = ""
    next_step: str = ""


class Pulls:
    def __init__(self, house: House) -> None:
        self._house = house
        self._pulls: dict[str, Pull] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def shown(self) -> list[Pull]:
        """Those that go on, and those that ended of late; the newest first."""
        now = self._house.clock()
        self._pulls = {name: pull for name, pull in self._pulls.items() if pull.going or now - pull.at < SHOWN_FOR}
        return sorted(self._pulls.values(), key=lambda pull: pull.at, reverse=True)

    def begin(self, image: str, user: str) -> None:
        """One that goes on already is not begun anew."""
        if image in self._pulls and self._pulls[image].going:
            return
        self._pulls[image] = Pull(image, user, self._house.clock())
        task = asyncio.create_task(self._follow(image, self._house.gallery.on_shelf().pull(image)), name=f"pull {image}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, image: str, steps: AsyncIterator[str]) -> None:
        error: FairyError | None = None
        try:
            async for words in steps:
                self._pulls[image] = replace(self._pulls[image], words=words)
        except FairyError as refused:
            error = refused
        ended = replace(self._pulls[image], going=False, at=self._house.clock())
        self._pulls[image] = ended if error is None else replace(ended, error=error.detail, next_step=error.next_step)
        self._house.bells.sessions_changed([])  # open pages look again

    async def settled(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
