"""Pace: how much of what was kept goes with one report. Few samples at first, more while the server keeps up, half when it does not.

After an outage hundreds of agents have something to make up for: all at once would bring the server down again.
"""
import random
from collections.abc import Callable
from dataclasses import dataclass

MOST_LATE = 32  # samples of the past that go with one report
FIRST_LATE = 4
MORE_AFTER = 0.5  # the part of the reports that went well after which it is twice as many: by chance, so that no crowd moves in step
WAVER = 0.4  # of a beat, to either side, after a report that did not go well; less than what makes a host look silent


@dataclass(slots=True)
class Pace:
    chance: Callable[[], float] = random.random
    late: int = FIRST_LATE

    def went_well(self, *, more_waits: bool) -> None:
        if not more_waits:
            self.late = FIRST_LATE  # so that the next outage ends gently, too
        elif self.chance() < MORE_AFTER:
            self.late = min(MOST_LATE, max(1, 2 * self.late))

    def was_too_much(self) -> None:
        self.late //= 2

    def wait_s(self, beat_s: float, *, went_well: bool) -> float:
        return beat_s if went_well else beat_s * (1 - WAVER + 2 * WAVER * self.chance())
