"""Tables and pairs on the terminal, by Rich. Into a pipe: no colour, nothing cut, however wide."""
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufairy.cli.words import is_simulated, mark_of, safe
from gpufairy.client.protocol import Record

UNBOUNDED = 1_000_000  # columns of a pipe: more than any value has
SIMULATED = Text("simulated", "medium_purple1")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """The last column is the one that gives way when the terminal is narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    _print(table)


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """`name  value` a line, without those that have no value; long values go on below themselves."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        text = value if isinstance(value, Text) else Text(safe(value))
        if text.plain:
            grid.add_row(Text(name), text)
    _print(grid)


def state_text(session: Record) -> Text:
    mark = mark_of(session)
    return Text(f"{mark.dot} {mark.word}", mark.style)


def with_simulated(text: str, simulated: bool) -> Text:
    return Text.assemble(Text(text), " ", SIMULATED) if simulated else Text(text)


def gpus_text(session: Record) -> Text:
    return with_simulated(safe((session.get("request") or {}).get("gpus")), is_simulated(session))


def _cell(value: str | Text) -> Text:
    text = value.copy() if isinstance(value, Text) else Text(safe(value))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _print(table: Table) -> None:
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else UNBOUNDED, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())
