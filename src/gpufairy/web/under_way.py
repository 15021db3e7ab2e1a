"""What takes its time: an image is made, or fetched for a swap, while its page shows that it goes on. Forgotten when the server ends."""
import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.errors import Conflict, FairyError

QUICK_S = 1.0  # what is refused within this is told beside the form itself
SHOWN_FOR = timedelta(minutes=10)  # how it went

log = logging.getLogger("gpufairy.under_way")


@dataclass(frozen=True, slots=True)
class Doing:
    what: str  # `swap` or `commit`
    image: str
    since: datetime
    going: bool = True
    error: str = ""  # why it did not come off
    next_step: str = ""
    made: str = ""  # what came of it, in words


class UnderWay:
    """By session: one at a time."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._doings: dict[str, Doing] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, session_id: str) -> Doing | None:
        found = self._doings.get(session_id)
        return found if found is not None and (found.going or self._house.clock() - found.since < SHOWN_FOR) else None

    async def begin(self, session_id: str, doing: Doing, work: Coroutine[None, None, str]) -> None:
        """Returns when it is done or takes longer than a moment; raises what it is refused with in that time."""
        other = self.of(session_id)
        if other is not None and other.going:
            work.close()
            raise Conflict(f"{other.image} is still being worked on for this session", "Wait until that is done.")
        self._doings = {known: kept for known in self._doings if (kept := self.of(known)) is not None}
        self._doings[session_id] = doing
        task = asyncio.create_task(self._do(session_id, doing, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _going = await asyncio.wait([task], timeout=QUICK_S)
        if not done:
            task.add_done_callback(note_fault)
        elif (error := task.exception()) is not None:
            del self._doings[session_id]  # told beside the form
            raise error

    async def _do(self, session_id: str, doing: Doing, work: Coroutine[None, None, str]) -> None:
        ended = replace(doing, going=False, error="the server met a fault of its own", next_step="Ask an admin to look into its log.")
        try:
            ended = replace(doing, going=False, made=await work)
        except FairyError as error:
            ended = replace(doing, going=False, error=error.detail, next_step=error.next_step)
            raise
        finally:
            self._doings[session_id] = replace(ended, since=self._house.clock())
            self._house.bells.sessions_changed([session_id])  # open pages look again


def note_fault(task: asyncio.Task[None]) -> None:
    """What was refused stands on the page; anything else is a bug."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, FairyError):
        log.error("%s", error, exc_info=error)
