"""`fairy report`: a month in GPU-hours held and used, energy and cost; on the terminal, as CSV, JSON, or a page to print."""
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table
from gpufairy.cli.usage import hours
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput

Month = Annotated[str, typer.Argument(metavar="MONTH", help="2026-11, a year such as 2026, this or last.")]
ByWhat = Annotated[str, typer.Option("--by", metavar="WHAT", help="user, team, image, kind (of GPU) or month.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, with a line for the total at the end.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page to print, with all tables.")]
Language = Annotated[str | None, typer.Option("--language", metavar="en|ko", help="Of the page. Else that of your terminal.")]


def _report(
    ctx: typer.Context, month: Month = "this", *, by: ByWhat = "user", as_csv: AsCsv = False, html: Html = None, language: Language = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show what was held and used in a month, the energy of the GPUs, and what it costs by the tariff. Yours; admins see all."""
    with connect(ctx) as fairy:
        if html is not None:
            write(fairy.month_report(month, by, "html", language or own_language()), html)
        elif as_csv:
            sys.stdout.write(b"".join(fairy.month_report(month, by, "csv")).decode("utf-8-sig").replace("\r\n", "\n"))
        elif as_json:
            print_json(fairy.accounting(month, by))
        else:
            _print(fairy.accounting(month, by))


def own_language() -> str:
    said = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "ko" if said.startswith("ko") else "en"


def write(chunks: Iterable[bytes], path: Path) -> None:
    try:
        path.write_bytes(b"".join(chunks))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", "Give another name: --html FILE.") from None
    print(f"{path}: open it in a browser, and print it from there.")


def _print(answer: Record) -> None:
    items, total, priced = answer["items"], answer["total"], bool(answer["priced"])
    until = "" if answer["over"] else f", until {clock_of(answer['until'])}"
    if not items:
        print(f"Nobody held a GPU in {safe(answer['period'])}{until}.")
        return
    currency = f" {safe(answer['currency'])}" if answer["currency"] else ""
    columns = [safe(answer["by"]).upper(), "HELD GPU-H", "USED", "ENERGY KWH", *([f"COST{currency}"] if priced else [])]
    places = int(answer["decimals"]) if priced else None
    rows = [[safe(item["name"]) or "none", *figures(item, places)] for item in items]
    print_table(columns, [*rows, [Text("total", "bold"), *figures(total, places)]])
    for line in unknowns(total, priced):
        print(line)
    print(f"{safe(answer['period'])}{until}; sums are exact, what is shown is rounded")


def figures(item: Record, places: int | None) -> list[str | Text]:
    """`places`: of the cost; None: nothing is priced."""
    energy, cost = item["energy_kwh"], item["cost"]
    shown = [hours(item["held_gpu_hours"]), hours(item["used_gpu_hours"]), "?" if energy is None else f"{energy:,.3f}"]
    return [*shown, *([] if places is None else ["?" if cost is None else f"{cost:,.{places}f}"])]


def unknowns(total: Record, priced: bool) -> list[str]:
    told = [
        (total["use_unknown_gpu_hours"], "held while nobody could tell how much was used"),
        (total["energy_unknown_gpu_hours"], "held while the energy was not metered"),
        (total["unpriced_gpu_hours"] if priced else 0, "held while no rate was in force"),
    ]
    return [f"{amount:,.2f} GPU-hours {words}" for amount, words in told if amount >= 0.005]


report = one_command(_report, "fairy report 2026-11\nfairy report last --by team --csv\nfairy report 2026-11 --html november.html")
