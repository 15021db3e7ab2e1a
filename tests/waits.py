"""Waiting for the thing itself, never for a time."""
import time
from collections.abc import Callable

from gpufairy.client import Fairy


def until(look, what: str | Callable[[], str], limit_s: float = 20.0):
    """Looks again and again until there is something to see, and returns that. `what` may be asked only once it has not come."""
    deadline = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {limit_s} s for {what if isinstance(what, str) else what()}"
        time.sleep(0.02)
    return seen


def wait_for_state(client: Fairy, name: str, *states: str, limit_s: float = 20.0):
    """By the server's own long poll."""
    deadline = time.monotonic() + limit_s
    session = client.session(name)
    while session["state"] not in states:
        assert time.monotonic() < deadline, f"{name} is {session['state']} ({session['why']}), not {states}"
        session = client.wait(name, session["revision"], 1)
    return session
