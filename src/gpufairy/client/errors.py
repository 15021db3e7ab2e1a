"""What can go wrong between a client and the server. Both are FairyErrors, so an edge shows them like any other."""
from gpufairy.core.errors import FairyError


class Problem(FairyError):
    """The server understood the call and said no, in its own words (`application/problem+json`)."""

    def __init__(self, status: int, title: str, detail: str, next_step: str = "") -> None:
        super().__init__(detail or title, next_step)
        self.status = status
        self.title = title


class ServerNotReached(FairyError):
    """No answer, or half of one: what was asked may or may not have happened."""
