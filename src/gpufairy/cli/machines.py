"""Commands about the server on this machine."""
import os
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.follow import WAIT_S
from gpufairy.cli.options import one_command, where_of
from gpufairy.client import Fairy
from gpufairy.client.connection import find
from gpufairy.client.local_server import LocalServer, find_running, forget, stop
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput, NoSuchThing

LEAVE_LIMIT_S = 30.0  # the server itself gives open requests 3 s to end, then closes its store; a full disk may make that slow


def _down(
    ctx: typer.Context,
    sessions: Annotated[bool, typer.Option("--sessions", help="Stop all sessions first.")] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The one of this data folder. Else the last started.")] = None,
) -> None:
    """Stop the server on this machine. Sessions run on, unless --sessions is given."""
    server = find_running(os.environ, data)
    if server is None:
        raise NoSuchThing("no server of yours runs on this machine", "Start one with `fairy up`.")
    if sessions:
        with _local(ctx, server) as fairy:
            stopped = _stop_sessions(fairy)
            print(f"stopped {stopped} session{'s' * (stopped != 1)}")
    stop(server, LEAVE_LIMIT_S)
    if find_running(os.environ) is None:
        forget(os.environ)
    print(f"the server at {safe(server.url)} is down" + ("" if sessions else "; sessions run on"))


def _local(ctx: typer.Context, server: LocalServer) -> Fairy:
    """To the server that is about to be stopped, and to no other: its sessions are meant, wherever one is signed in besides."""
    where = where_of(ctx)
    if where.server is not None and where.server.strip().rstrip("/") != server.url:
        raise BadInput(
            f"--server names {safe(where.server)}, but the server on this machine is {safe(server.url)}: nothing was stopped",
            "Leave out --server; elsewhere, sessions are stopped with `fairy stop`.",
        )
    found = find(server.url, where.token_file, os.environ)
    return Fairy(found.url, found.token)


def _stop_sessions(fairy: Fairy) -> int:
    """Tells all to stop, then waits until the last is over: the server is what stops them."""
    everybodys = fairy.me().get("role") == "admin"
    ids = [session["id"] for session in fairy.sessions(all_users=everybodys)]
    live = fairy.stop_all(ids)["items"] if ids else []
    for session in live:
        while session["state"] != "ENDED":
            session = fairy.wait(session["id"], session["revision"], WAIT_S)  # noqa: PLW2901 - the same session, later
    return len(live)


down = one_command(_down, "fairy down")
