"""Intake: which reports are being worked on. One of each agent, and of all together no more than are soon done with.

After an outage hundreds of agents come at once, with all that they kept. What the server cannot do in time it must not begin: the
agents would give up waiting, and send the same again.
"""
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from gpufairy.core.errors import Busy

MOST_BYTES = 8 * 2**20  # of reports in hand: about a second's work; 500 hosts that tell of now alone fit in at once
COME_AGAIN = "The agent sends it again by itself, with less of what it kept."


class Intake:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._in_hand: dict[str, int] = {}  # by the agent's name: bytes
        self._wrong_by: dict[str, timedelta] = {}

    def check_room(self) -> None:
        """Before a report is even read. Raises Busy."""
        if sum(self._in_hand.values()) >= self._most_bytes:
            raise Busy("the server has as many reports in hand as it can work on", COME_AGAIN)

    @contextmanager
    def hold(self, node: str, size: int) -> Iterator[None]:
        """While a report of that size is worked on. Raises Busy."""
        if node in self._in_hand:
            raise Busy(f"a report of {node} is being worked on", COME_AGAIN)
        if self._in_hand and sum(self._in_hand.values()) + size > self._most_bytes:
            raise Busy("the server has as many reports in hand as it can work on", COME_AGAIN)
        self._in_hand[node] = size
        try:
            yield
        finally:
            del self._in_hand[node]

    def clock_wrong_by(self, node: str) -> timedelta:
        """What that host's clock was wrong by when it was last heard."""
        return self._wrong_by.get(node, timedelta())

    def note_clock(self, node: str, wrong: timedelta) -> None:
        self._wrong_by[node] = wrong
