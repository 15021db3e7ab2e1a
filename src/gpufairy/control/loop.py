"""Loop: does one thing again and again, when woken or after a while.

The one place where any exception is caught: a loop logs, backs off, goes on.
"""
import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from gpufairy.core.errors import FairyError, NotLeader

log = logging.getLogger("gpufairy.loop")

LONGEST_BACK_OFF_S = 30.0

Turn = Callable[[], Awaitable[float | None]]


class Loop:
    def __init__(self, name: str, turn: Turn, wake: asyncio.Event, *, every_s: float, pause_s: float = 0.0) -> None:
        self.name = name
        self.failing: str | None = None  # what went wrong last time, for /readyz
        self._turn, self._wake, self._every_s, self._pause_s = turn, wake, every_s, pause_s
        self._failures = 0

    async def run(self) -> None:
        while True:
            rest_s = await self.once()
            await asyncio.sleep(max(self._pause_s, rest_s, self._back_off_s()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._wake.wait()

    async def once(self) -> float:
        """One turn; says how long the loop should rest after it."""
        self._wake.clear()
        try:
            rest_s = await self._turn()
        except NotLeader:
            raise  # another server leads now: this one must end, not try again
        except Exception as error:
            self._failures += 1
            self.failing = str(error) or type(error).__name__
            expected = isinstance(error, FairyError)
            log.warning("loop %s: %s; again in %.1f s", self.name, self.failing, self._back_off_s(), exc_info=not expected)
            self._wake.set()
            return 0.0
        self._failures, self.failing = 0, None
        return rest_s or 0.0

    def _back_off_s(self) -> float:
        return min(0.1 * 2 ** min(self._failures, 10), LONGEST_BACK_OFF_S) if self._failures else 0.0
