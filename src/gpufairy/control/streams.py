"""Streams: answers that stay open, counted by user, so that nobody takes all that the server can hold."""
from collections import Counter
from collections.abc import Callable

from gpufairy.core.errors import TooMany
from gpufairy.core.limits import Limit, Refusals

MOST = 256  # of one user; a setting says otherwise


class Streams:
    def __init__(self, refusals: Refusals) -> None:
        self.most, self._refusals = MOST, refusals
        self._open: Counter[str] = Counter()

    def take(self, user: str) -> Callable[[], None]:
        """A place for one more, which is given back by a call. Raises TooMany."""
        if self._open[user] >= self.most:
            self._refusals.count(Limit.STREAMS_PER_USER)
            found = f"{user} has {self.most} streams open: pages, followed logs and terminals together"
            raise TooMany(found, "Close some, or try again in a moment. An admin can allow more: limits.streams_per_user.")
        self._open[user] += 1
        held = [user]

        def give_back() -> None:
            if held:
                self._left(held.pop())

        return give_back

    def of(self, user: str) -> int:
        return self._open[user]

    def in_all(self) -> int:
        return self._open.total()

    def _left(self, user: str) -> None:
        self._open[user] -= 1
        if not self._open[user]:
            del self._open[user]
