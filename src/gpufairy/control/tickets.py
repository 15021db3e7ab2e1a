"""Tickets: each opens one app in a browser, once, at once. Kept in memory, so a restart forgets them."""
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.core.apps import TICKET_PREFIX

GOOD_FOR = timedelta(seconds=60)  # a browser follows it at once; it may lie in a history or a log for longer
MOST = 10_000  # at a time: more than all users together ask for in a minute


@dataclass(frozen=True, slots=True)
class Ticket:
    stall_id: str
    token_id: str | None  # of the token that it was asked for with; None: from inside a session
    until: datetime


class Tickets:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._good: dict[str, Ticket] = {}  # oldest first

    def make(self, stall_id: str, token_id: str | None = None) -> str:
        now = self._clock()
        self._good = {text: made for text, made in list(self._good.items())[-MOST:] if made.until > now}
        text = TICKET_PREFIX + secrets.token_urlsafe(32)
        self._good[text] = Ticket(stall_id, token_id, now + GOOD_FOR)
        return text

    def use(self, text: str, stall_id: str) -> Ticket | None:
        """None: it does not open that one. It is used up either way: shown elsewhere, it has come into wrong hands."""
        ticket = self._good.pop(text, None)
        if ticket is None or ticket.until <= self._clock() or ticket.stall_id != stall_id:
            return None
        return ticket
