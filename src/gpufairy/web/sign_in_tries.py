"""How often somebody may come with a wrong token before they must wait. By address: tokens are too long to guess, but asking costs us."""
from collections import OrderedDict
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock

MOST_WRONG = 10  # in a while: whoever pastes the wrong thing ten times should rather ask an admin
A_WHILE = timedelta(minutes=10)
ADDRESSES_KEPT = 10_000


class WrongTries:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, list[datetime]] = OrderedDict()

    def wait(self, source: str) -> timedelta | None:
        """How long they must wait; None: not at all."""
        now = self._clock()
        recent = [at for at in self._tries.get(source, ()) if now - at < A_WHILE]
        return None if len(recent) < MOST_WRONG else recent[-MOST_WRONG] + A_WHILE - now

    def wrong(self, source: str) -> None:
        tries = [*self._tries.pop(source, ())][-MOST_WRONG + 1 :]
        self._tries[source] = [*tries, self._clock()]
        if len(self._tries) > ADDRESSES_KEPT:
            self._tries.popitem(last=False)
