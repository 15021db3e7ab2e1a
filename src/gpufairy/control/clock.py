"""Time for the loops. Tests hold it; in the product it never runs back or leaps while the server lives."""
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]


class SteadyClock:
    """The wall clock as it was at the start, carried on by the clock that nobody sets.

    Somebody who sets the machine's clock by a day must not end every session; a suspended laptop's time does count.
    """

    def __init__(self) -> None:
        self._wall, self._mark_s = datetime.now(UTC), boot_s()

    def __call__(self) -> datetime:
        return self._wall + timedelta(seconds=boot_s() - self._mark_s)


class HeldClock:
    """Stands still until told to go on."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def go_on(self, time: timedelta) -> None:
        self.now += time


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
