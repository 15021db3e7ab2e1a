"""One-time sign-in links: a code that opens the page once, soon. Kept in memory, so a restart forgets them.

A used one leaves a cookie in the browser, which opens pages and nothing else.
"""
import secrets
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock

PAGE_COOKIE = "fairy_page"
PAGE_GOOD_FOR = timedelta(days=30)  # a browser signed in for so long is seen often enough to be trusted a month
GOOD_FOR = timedelta(hours=1)  # long enough to find the browser, short enough to lie in a terminal's history


class SignInLinks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[str, datetime]] = {}

    def make(self, user: str) -> str:
        now = self._clock()
        self._codes = {code: made for code, made in self._codes.items() if made[1] > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = (user, self._clock() + GOOD_FOR)
        return code

    def use(self, code: str) -> str | None:
        """The user it signs in; None if it was never good, was used before, or is too old."""
        user, until = self._codes.pop(code, ("", None))
        return user if until is not None and self._clock() < until else None
