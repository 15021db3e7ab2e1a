"""What cannot be. Each error says what, on which thing, what was found (`str(error)`) and what to do (`next_step`).

"Not now" is no error: that is a `Refusal`, a value. HTTP status codes live in api/problems.py alone.
"""


class FairyError(Exception):
    """The common root: an edge shows `str(error)` and `next_step`, never a traceback."""

    def __init__(self, detail: str, next_step: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.next_step = next_step


class BadInput(FairyError):
    """What was sent cannot be understood or is out of bounds."""


class NeverFits(FairyError):
    """No node here could hold this request, even with nothing else running."""


class NotAllowed(FairyError):
    """The caller is known, and may not do this."""


class NotSignedIn(FairyError):
    """No token, or one that is unknown, expired or revoked."""


class QuotaExceeded(FairyError):
    """A limit set by the admin is reached."""


class NoSuchThing(FairyError):
    """No session, user, node or token of that name, or none that the caller may see."""


class Conflict(FairyError):
    """The thing is there already, or is in a state in which this cannot be done."""


class EngineRefused(FairyError):
    """The engine said no to this session: tried again later, with a limit."""


class EngineSilent(FairyError):
    """The engine gave no answer. Never taken for "nothing runs"."""


class StoreUnavailable(FairyError):
    """The database did not answer, is full or damaged: nothing was acknowledged, nothing is declared dead."""


class Busy(FairyError):
    """More than the server can do at this moment: the same may be sent again, a little later."""


class TooMany(FairyError):
    """One user, or one address, has as many of them as it may have: fewer, or later."""


class TooLarge(BadInput):
    """More bytes than are taken."""


class NotDelivered(FairyError):
    """A message did not reach its channel: what is to be told is kept, and sent again later."""


class NotLeader(FairyError):
    """Another server holds the lease, so this one must not write."""


class IllegalStep(FairyError):
    """The lifecycle table has no such row: a bug in a loop, never a user's mistake."""
