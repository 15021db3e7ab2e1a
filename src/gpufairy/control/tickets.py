"""Tickets: each opens one app in a browser, once, at once. Kept in memory, so a restart forgets them."""
import secrets
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.core.apps import TICKET_PREFIX

GOOD_FOR = timedelta(seconds=60)  # a browser follows it at once; it may lie in a history or a log for longer
MOST = 10_000  # at a time: more than all users together ask for in a minute


class Tickets:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._good: dict[str, tuple[str, datetime]] = {}  # oldest first

    def make(self, stall_id: str) -> str:
        now = self._clock()
        self._good = {text: made for text, made in list(self._good.items())[-MOST:] if made[1] > now}
        text = TICKET_PREFIX + secrets.token_urlsafe(32)
        self._good[text] = (stall_id, now + GOOD_FOR)
        return text

    def use(self, text: str, stall_id: str) -> bool:
        """Whether it opens that one. It is used up either way: shown elsewhere, it has come into wrong hands."""
        meant, until = self._good.pop(text, ("", None))
        return until is not None and self._clock() < until and meant == stall_id
