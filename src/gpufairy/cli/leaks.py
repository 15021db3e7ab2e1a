"""`fairy leaks`: what is held and nobody has, and what was put right."""
import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

MENDED_PRINTED = 5


def _leaks(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show seats without containers, containers without seats, and GPU memory that no process has."""
    with connect(ctx) as fairy:
        found = fairy.leaks()
    if as_json:
        print_json(found)
        return
    print_found(found)
    if found["mended"]:
        print("Put right of late:")
        for one in found["mended"][:MENDED_PRINTED]:
            print(f"  {clock_of(one['at'])}  {safe(one['what'])}")


def print_found(found: Record) -> None:
    if found["looked_at"] is None:
        print("Nobody has looked yet: the first look is a minute after the start.")
        return
    if not found["engine_answers"]:
        print("The engine did not answer, so nothing is said of its containers.")
    if not found["items"]:
        print(f"Nothing is held by nobody (looked at {clock_of(found['looked_at'])}).")
        return
    print_table(["SINCE", "NODE", "KIND", "HOW SURE", "WHAT"], (_row(one) for one in found["items"]))
    for todo in dict.fromkeys(safe(one["todo"]) for one in found["items"] if one["sure"]):
        print(todo)


def _row(one: Record) -> list[str | Text]:
    return [clock_of(one["since"]), safe(one["node"]), safe(one["kind"]), sure_words(one), safe(one["sentence"])]


def sure_words(one: Record) -> str:
    if not one["sure"]:
        return f"seen {one['looks']} of {one['looks_needed']} times"
    return "sure" if one["mending_since"] is None else "sure, being put right"


leaks = one_command(_leaks, "fairy leaks")
