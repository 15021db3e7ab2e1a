"""Ahead: the picture of the line from which people are told when they may start. Kept fresh while anybody looks: no look waits for it."""
import time
from collections.abc import Callable
from datetime import datetime

from gpufairy.control import collector
from gpufairy.control.clock import Clock
from gpufairy.core.explain import Outlook

AGE_S = 1.0  # a picture this old is still told to people, whatever has changed since
QUIET_AGE_S = 3.0  # where no session has changed: hosts come and go by themselves, and stays grow longer
RESTS = 20  # times as long as it took to make: looking ahead takes no more of the server than a twentieth
SOONEST = 4  # times as long as it took: no sooner is it made again for who has just come, however many come
LATE = 2  # times as old as the loop lets it become: then whoever looks makes it
LOOKED_LATELY_S = 60.0  # after the last look it is kept so long


class Ahead:
    def __init__(self, clock: Clock, look: Callable[[datetime], Outlook], changes: Callable[[], int]) -> None:
        """`look`: makes the picture. `changes`: how often any session has changed."""
        self._clock, self._look, self._changes = clock, look, changes
        self._seen: Outlook | None = None
        self._seen_changes, self._age_s, self._took_s = 0, AGE_S, 0.0
        self._looked_s = -LOOKED_LATELY_S

    def outlook(self, since: datetime | None = None) -> Outlook:
        """For people: as it is kept, or made now where nobody looked of late. `since`: what they ask about changed then, and is in it."""
        self._looked_s = time.monotonic()
        lacks_it = since is not None and self._seen is not None and self._seen.made_at <= since and self._age() > SOONEST * self._took_s
        return self._make() if self._seen is None or lacks_it or self._is_due(LATE) else self._seen

    async def keep(self) -> None:
        """The loop's turn."""
        if time.monotonic() - self._looked_s <= LOOKED_LATELY_S and self._is_due():
            self._make()

    def _is_due(self, times: int = 1) -> bool:
        if self._seen is None:
            return True
        age_s = self._age() / times
        return age_s > self._age_s and (self._changes() != self._seen_changes or age_s > QUIET_AGE_S)

    def _age(self) -> float:
        return 0.0 if self._seen is None else (self._clock() - self._seen.made_at).total_seconds()

    def _make(self) -> Outlook:
        began_s, self._seen_changes = time.monotonic(), self._changes()
        with collector.put_off():
            self._seen = self._look(self._clock())
        self._took_s = time.monotonic() - began_s
        self._age_s = max(AGE_S, RESTS * self._took_s)
        return self._seen
