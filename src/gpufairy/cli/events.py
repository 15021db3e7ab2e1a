"""`fairy events`: what happened, and with -f what happens."""
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from gpufairy.cli.follow import FIRST_PAUSE_S, NOT_NOW, patiently
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy, Problem, ServerNotReached
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe


def _events(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="From now on, as it happens.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what happened to sessions."""
    with connect(ctx) as fairy:
        found = _from_now_on(fairy) if follow else fairy.events()
        if as_json and not follow:
            print_json({"items": list(found)})
            return
        nothing = True
        for event in found:
            nothing = False
            if as_json:
                print_json(event)
            else:
                print(_line(event), flush=follow)
    if nothing and not follow:
        print("Nothing has happened yet.")


def _from_now_on(fairy: Fairy) -> Iterator[Record]:
    """Without end, over restarts of the server, and without a gap: after each break from the last event seen."""
    last = max((event["number"] for event in fairy.events()), default=0)
    while True:
        try:
            for event in fairy.events(follow=True, after=str(last)):
                last = event["number"]
                yield event
        except (ServerNotReached, Problem) as error:  # asked for again below, where patience ends
            if isinstance(error, Problem) and error.status not in NOT_NOW:
                raise
        time.sleep(FIRST_PAUSE_S)
        patiently(fairy.me, lambda: None, "Run it again when the server is back.")


def _line(event: Record) -> str:
    """`14:20  student1/brave-otter  RUNNING  ready on gpu01 (by admin)`."""
    gpu = event.get("gpu")
    named = gpu["name"] if gpu else event.get("about")
    whose = safe(named) if named else f"{safe(event.get('owner'))}/{safe(event.get('session'))}"
    by = f"(by {safe(event['actor'])})" if event.get("actor") else ""
    said = " ".join(part for part in (safe(event.get("what")), safe(event.get("why")), by) if part)
    return "  ".join(part for part in (clock_of(event.get("at")), whose, safe(event.get("state")), said) if part)


events = one_command(_events, "fairy events -f")
