"""`fairy ledger`: who had how much of the GPUs, how much was theirs by right, and who is ahead or behind."""
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table
from gpufairy.cli.usage import hours
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="How far back: 1h, 7d, or 2026-11-15T08:00:00Z. Else 7d.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Likewise. Else now.")]
ByWhat = Annotated[str, typer.Option("--by", metavar="WHAT", help="user or team.")]

COLUMNS = ["HELD GPU-H", "ENTITLED", "AHEAD", "CHARGED", "USED"]
COUNTS = ("lent", "shrunk", "reclaimed", "preempted")  # shown where any is more than 0
ABOUT = "ENTITLED: their share of all that was held, among those who wanted GPUs then. AHEAD: held less entitled; below 0, behind."


def _ledger(ctx: typer.Context, since: Since = None, until: Until = None, by: ByWhat = "user", as_json: AsJson = False) -> None:
    """Show who held how much, and how much was theirs by right."""
    with connect(ctx) as fairy:
        answer = fairy.ledger(since, until, by)
    if as_json:
        print_json(answer)
        return
    items = answer["items"]
    if not items:
        print(f"Nobody held or wanted a GPU since {clock_of(answer.get('since'))}.")
        return
    counted = [name for name in COUNTS if any(item.get(name) for item in items)]
    names = ["USER", "TEAM"] if answer.get("by") == "user" else ["TEAM"]
    print_table([*names, *COLUMNS, *map(str.upper, counted)], [_row(item, len(names) == 2, counted) for item in items])
    print(f"since {clock_of(answer.get('since'))}, {hours((answer.get('total') or {}).get('held_gpu_hours'))} GPU-hours in all. {ABOUT}")


def _row(item: Record, of_user: bool, counted: list[str]) -> list[str | Text]:
    ahead = float(item.get("ahead_gpu_hours") or 0.0)
    cells: list[str | Text] = [safe(item.get("name")), *([safe(item.get("team") or "")] if of_user else [])]
    cells += [hours(item.get("held_gpu_hours")), hours(item.get("entitled_gpu_hours"))]
    cells += [Text(f"{ahead:+,.2f}", "red" if ahead < 0 else "green"), hours(item.get("charged_gpu_hours"))]
    cells.append(hours(item.get("used_gpu_hours")) if item.get("used_shown") else "")
    return [*cells, *(str(item.get(name) or 0) for name in counted)]


ledger = one_command(_ledger, "fairy ledger\nfairy ledger --since 30d --by team")
