"""`fairy selftest`: tries to get more than a share on each GPU, and says what is enforced."""
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.exits import FAILED
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import EngineRefused

app = group("Self-tests: what really holds on this machine.", "fairy selftest isolation")

WHATS = ("memory", "sm", "devices", "evasion")
STYLES = {"enforced": "green", "accounted": "yellow", "failed": "bold red", "untried": "bright_black"}
NOTHING = "No real GPU here; nothing to test."
Gpu = Annotated[str | None, typer.Option("--gpu", metavar="UUID", help="Only this GPU. Else every real one.")]


@app.command(epilog=example_text("fairy selftest isolation\nfairy selftest isolation --gpu GPU-5c1…"))
def isolation(ctx: typer.Context, gpu: Gpu = None, as_json: AsJson = False) -> None:
    """Try to get more than a share, from two sessions on each idle GPU (admins). Exit code 1 if one gets what it should not."""
    line, tests, untested, last = StatusLine(), [], [], {}
    with connect(ctx) as fairy:
        for last in fairy.test_isolation(gpu):
            if "words" in last and not as_json:
                line.show_text(str(last["words"]))
            tests += [last["test"]] if "test" in last else []
            untested += [last["untested"]] if "untested" in last else []
    line.clear()
    _print(tests, untested, as_json)
    if "error" in last:
        raise EngineRefused(str(last["error"]), str(last.get("next") or ""))
    if any(test[what] == "failed" for test in tests for what in WHATS):
        raise typer.Exit(FAILED)


@app.command(epilog=example_text("fairy selftest show"))
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what the last self-tests found."""
    with connect(ctx) as fairy:
        tests = fairy.isolation_tests()
        if not tests and not as_json:
            print(f"Nothing was tested yet. {who_tests(fairy)}")
            return
    _print(tests, [], as_json)


def who_tests(fairy: Fairy) -> str:
    """What somebody can do who wants to know what is enforced."""
    command = "`fairy selftest isolation`"
    return f"Run {command}." if fairy.me().get("role") == "admin" else f"Ask an admin to run {command}."


def _print(tests: list[Record], untested: list[Record], as_json: bool) -> None:
    if as_json:
        print_json([*tests, *map(untried, untested)])
        return
    if not tests and not untested:
        print(NOTHING)
    for test in tests:
        driver = f", driver {safe(test['driver'])}" if test.get("driver") else ""
        print(f"{safe(test['node'])} {safe(test['gpu'])}, shared by {safe(test['sharing'])}{driver}, {clock_of(test['at'])}")
        print_table(["WAY", "OF", "VERDICT", "FOUND"], [_row(attempt) for attempt in test["attempts"]])
        print(summary(test))
    for one in untested:
        print(f"{safe(one['node'])} {safe(one['gpu'])}: {safe(one['why'])}")


def _row(attempt: Record) -> list[str | Text]:
    verdict = safe(attempt["verdict"])
    return [safe(attempt["way"]), safe(attempt["of"]), Text(verdict, STYLES.get(verdict, "")), safe(attempt["found"])]


def untried(one: Record) -> Record:
    """A GPU that was not tested, like one that was: whoever reads it must not take its absence for a good sign."""
    of_a_test: Record = {"sharing": None, "at": None, "driver": None, **dict.fromkeys(WHATS, "untried"), "attempts": []}
    return {"node": one["node"], "gpu": one["gpu"], **of_a_test, "why": one["why"]}


def summary(test: Record) -> str:
    return ", ".join(f"{what}: {safe(test[what])}" for what in WHATS)
