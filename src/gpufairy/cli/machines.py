"""Commands about the server on this machine."""
import os
from typing import Annotated

import typer

from gpufairy.cli.follow import WAIT_S
from gpufairy.cli.options import connect, one_command
from gpufairy.cli.words import safe
from gpufairy.client import Fairy
from gpufairy.client.local_server import find_running, forget, stop
from gpufairy.core.errors import NoSuchThing

LEAVE_LIMIT_S = 30.0  # the server itself gives its connections 10 s to finish


def _down(
    ctx: typer.Context,
    sessions: Annotated[bool, typer.Option("--sessions", help="Stop all sessions first.")] = False,
) -> None:
    """Stop the server on this machine. Sessions run on, unless --sessions is given."""
    server = find_running(os.environ)
    if server is None:
        raise NoSuchThing("no server of yours runs on this machine", "Start one with `fairy up`.")
    if sessions:
        with connect(ctx) as fairy:
            print(f"stopped {_stop_sessions(fairy)} sessions")
    stop(server, LEAVE_LIMIT_S)
    forget(os.environ)
    print(f"the server at {safe(server.url)} is down" + ("" if sessions else "; sessions run on"))


def _stop_sessions(fairy: Fairy) -> int:
    """Tells all to stop, then waits until the last is over: the server is what stops them."""
    everybodys = fairy.me().get("role") == "admin"
    live = [fairy.stop(session["id"]) for session in list(fairy.sessions(all_users=everybodys))]
    for session in live:
        while session["state"] != "ENDED":
            session = fairy.wait(session["id"], session["revision"], WAIT_S)  # noqa: PLW2901 - the same session, later
    return len(live)


down = one_command(_down, "fairy down")
