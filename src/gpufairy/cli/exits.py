"""How a command ends: the exit codes that scripts rely on, and how an error is said. Never a traceback."""
import os
import sys
from types import TracebackType

from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput, FairyError, NoSuchThing, NotAllowed, NotSignedIn

FAILED, USAGE, REFUSED, NO_SUCH_THING, NOT_REACHED, INTERRUPTED = 1, 2, 3, 4, 5, 130

BY_STATUS = {400: USAGE, 401: REFUSED, 403: REFUSED, 404: NO_SUCH_THING, 409: REFUSED, 422: REFUSED, 429: REFUSED}
BY_KIND: dict[type[FairyError], int] = {
    BadInput: USAGE,
    NoSuchThing: NO_SUCH_THING,
    NotAllowed: REFUSED,
    NotSignedIn: REFUSED,
    ServerNotReached: NOT_REACHED,
}


def exit_code_of(error: FairyError) -> int:
    if isinstance(error, Problem):
        return BY_STATUS.get(error.status, FAILED)
    return BY_KIND.get(type(error), FAILED)


def say(text: str) -> None:
    print(safe(text), file=sys.stderr, flush=True)


def say_error(error: FairyError) -> None:
    say(f"fairy: {error.detail}")
    if error.next_step:
        say(f"  → {error.next_step}")


def say_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The last resort (`sys.excepthook`): a bug of ours, in one line, and how to see more of it."""
    if issubclass(kind, KeyboardInterrupt):
        return
    if os.environ.get("FAIRY_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    say(f"fairy: this should not have happened: {kind.__name__}: {error}")
    say("  → Run it again with FAIRY_DEBUG=1 to see where, and report it.")
