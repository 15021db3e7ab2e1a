"""`fairy top`: the command. Without a terminal it prints once and ends."""
import sys
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from gpufairy.client.where import connect_to
from gpufairy.tui.app import TopApp
from gpufairy.tui.feed import ANSWER_LIMIT_S
from gpufairy.tui.once import print_json, print_once

EXAMPLE = "\b\nExample:\n  fairy top\n  fairy top --view users --once"
HELP_BY = {"help_option_names": ["-h", "--help"]}


class View(StrEnum):
    GPUS = "gpus"
    USERS = "users"
    SESSIONS = "sessions"
    HOSTS = "hosts"


def _top(
    ctx: typer.Context,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.2, max=3600, help="Ask the server so often.")] = 2.0,
    view: Annotated[View, typer.Option("--view", help="What to show first.")] = View.GPUS,
    once: Annotated[bool, typer.Option("--once", help="Print one screenful and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the nodes as JSON, a document a line, until interrupted.")] = False,
) -> None:
    """Watch every GPU of every host, live: how hot, how full, how busy, whose."""
    connect = partial(connect_to, ctx.obj, ANSWER_LIMIT_S)
    if not (as_json or once) and sys.stdout.isatty() and sys.stdin.isatty():
        TopApp(connect, every, view).run()
        return
    with connect() as fairy:
        if as_json:
            print_json(fairy, every, once=once)
        else:
            print_once(fairy, view)


top = typer.Typer(add_completion=False, rich_markup_mode=None)
top.command(context_settings=HELP_BY, epilog=EXAMPLE)(_top)
