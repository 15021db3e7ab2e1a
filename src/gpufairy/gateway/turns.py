"""Turns: strangers who have said their first line sign in a few at a time, each source in turn.

Key exchanges cost time, so only so many are under way at once. Whoever has sent a first packet, as every usual client does unasked, goes
before those who have not. Whoever dawdles loses the turn, not the connection.
"""
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from socket import socket
from typing import Protocol

from gpufairy.core.limits import Limit, Refusals
from gpufairy.gateway.settings import GatewaySettings


@dataclass(eq=False, slots=True)
class Stranger:
    link: socket
    source: str
    came_at: float
    said: bytes = b""
    is_eager: bool = False  # has sent a whole packet
    turn_at: float = 0.0
    entrant: "Entrant | None" = field(default=None, repr=False)  # once it is its turn


class Entrant(Protocol):
    """A connection that signs in."""

    heard_at: float

    def abort(self) -> None: ...


LetIn = Callable[[Stranger], Entrant]


class Lines:
    """Those who wait, by source."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, OrderedDict[Stranger, None]] = OrderedDict()
        self._newest_first = True

    def __bool__(self) -> bool:
        return bool(self._of)

    def has(self, source: str) -> bool:
        return source in self._of

    def add(self, stranger: Stranger) -> None:
        self._of.setdefault(stranger.source, OrderedDict())[stranger] = None

    def remove(self, stranger: Stranger) -> None:
        line = self._of.get(stranger.source)
        if line is not None and stranger in line:
            del line[stranger]
            if not line:
                del self._of[stranger.source]

    def next(self, has_room: Callable[[str], bool]) -> Stranger | None:
        """Of a source that has room, each in turn; the newest and the oldest by turns: behind hundreds who only stand there somebody who
        wants in waits no longer than without them, and nobody waits for ever."""
        source = next((one for one in self._of if has_room(one)), None)
        if source is None:
            return None
        line = self._of[source]
        stranger, _ = line.popitem(last=self._newest_first)
        self._newest_first = not self._newest_first
        self._of.move_to_end(source)
        if not line:
            del self._of[source]
        return stranger


class Turns:
    def __init__(self, settings: GatewaySettings, let_in: LetIn, refusals: Refusals) -> None:
        self._settings, self._let_in, self._refusals = settings, let_in, refusals
        self._eager, self._reluctant = Lines(), Lines()
        self._signing_in: OrderedDict[Stranger, None] = OrderedDict()
        self._signing_in_of: Counter[str] = Counter()
        self._dawdling: OrderedDict[Stranger, None] = OrderedDict()  # sign in too, but take nobody's turn

    @property
    def busy(self) -> bool:
        return bool(self._signing_in or self._dawdling)

    @property
    def count(self) -> int:
        return len(self._signing_in) + len(self._dawdling)

    @property
    def idle(self) -> bool:
        return not (self.busy or self._eager or self._reluctant)

    def line_up(self, stranger: Stranger, now: float) -> None:
        """Said again of one that has become eager."""
        self.leave_line(stranger)
        (self._eager if stranger.is_eager else self._reluctant).add(stranger)
        self.next(now)

    def leave_line(self, stranger: Stranger) -> None:
        self._eager.remove(stranger)
        self._reluctant.remove(stranger)

    def next(self, now: float) -> None:
        """Lets in as many as there is room for, one of each source in turn."""
        while len(self._signing_in) < self._settings.most_signing_in:
            stranger = self._eager.next(self._has_room) or self._reluctant.next(self._has_room)
            if stranger is None:
                return
            self._signing_in[stranger] = None
            self._signing_in_of[stranger.source] += 1
            stranger.turn_at = now
            stranger.entrant = self._let_in(stranger)

    def _has_room(self, source: str) -> bool:
        return self._signing_in_of[source] < self._settings.most_signing_in_per_source

    def done(self, stranger: Stranger, now: float) -> None:
        """Signed in, or gone."""
        self._dawdling.pop(stranger, None)
        if self._give_up_turn(stranger):
            self.next(now)

    def _give_up_turn(self, stranger: Stranger) -> bool:
        if stranger not in self._signing_in:
            return False
        del self._signing_in[stranger]
        self._signing_in_of[stranger.source] -= 1
        if not self._signing_in_of[stranger.source]:
            del self._signing_in_of[stranger.source]
        return True

    def look_round(self, now: float) -> None:
        """At those whose time is up, and those who hold up others."""
        too_old = now - self._settings.login_grace_s
        for stranger in [one for one in (*self._signing_in, *self._dawdling) if one.came_at < too_old]:
            self._cut(stranger, Limit.SSH_LOGIN_TIME, now)
        for stranger in [one for one in self._signing_in if self._in_the_way(one) and self._dawdles(one, now)]:
            self._dawdling[stranger] = None
            self._give_up_turn(stranger)
        while len(self._dawdling) > self._settings.most_dawdling:
            self._cut(next(iter(self._dawdling)), Limit.SSH_SIGNING_IN, now)
        self.next(now)

    def _cut(self, stranger: Stranger, limit: Limit, now: float) -> None:
        self._refusals.count(limit)
        if stranger.entrant is not None:
            stranger.entrant.abort()
        self.done(stranger, now)

    def _dawdles(self, stranger: Stranger, now: float) -> bool:
        silent = stranger.entrant is not None and now - stranger.entrant.heard_at > self._settings.silence_s
        return silent or now - stranger.turn_at > self._settings.patience_s

    def _in_the_way(self, stranger: Stranger) -> bool:
        if not (self._eager or self._reluctant):
            return False
        full = len(self._signing_in) >= self._settings.most_signing_in
        waits = self._eager.has(stranger.source) or self._reluctant.has(stranger.source)
        return full or (waits and not self._has_room(stranger.source))
