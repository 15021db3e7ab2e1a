"""Warnings before a session's limit ends it: which are due now, and when to look again. Pure but for the clock it is given."""
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpufairy.core.ending import Ending

AHEAD = (timedelta(minutes=10), timedelta(minutes=5), timedelta(minutes=1))  # enough to save, to tidy up, to say goodbye


@dataclass(slots=True)
class Warnings:
    """Each is given once. A session that is kept longer has another end, and is warned of that one anew."""

    endings: tuple[Ending, ...] = ()
    told: dict[Ending, int] = field(default_factory=dict)  # how many of AHEAD are past

    def replace(self, endings: Iterable[Ending]) -> None:
        self.endings = tuple(endings)
        self.told = {ending: self.told.get(ending, 0) for ending in self.endings}

    def due(self, now: datetime) -> list[Ending]:
        """Of several that were missed, one is enough."""
        found = []
        for ending in self.endings:
            past = sum(ending.ends_at - now <= ahead for ahead in AHEAD)
            if past > self.told[ending] and ending.ends_at > now:
                found.append(ending)
            self.told[ending] = max(past, self.told[ending])
        return found

    def next_look_s(self, now: datetime) -> float | None:
        """None: no warning is left to give."""
        waits = [ending.ends_at - ahead - now for ending in self.endings for ahead in AHEAD]
        ahead_of_us = [wait.total_seconds() for wait in waits if wait > timedelta(0)]
        return min(ahead_of_us, default=None)


def warning(ending: Ending, now: datetime) -> str:
    minutes = max(1, round((ending.ends_at - now).total_seconds() / 60))
    return f"session {ending.name} ends in {minutes} min; `fairy keep {ending.name} 2h` asks for more time"
