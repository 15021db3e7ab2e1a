"""Tables and pairs on the terminal, in Rich's colours. Into a pipe: no colour, nothing cut, however wide."""
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufairy.cli.words import is_simulated, mark_of, safe
from gpufairy.client.protocol import Record

UNBOUNDED = 1_000_000  # columns of a pipe: more than any value has
GAP = 2  # blanks between two columns
SIMULATED = Text("simulated", "medium_purple1")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """One line a row. The last column is the one that gives way when the terminal is narrow, then the widest.

    Not by Rich's own table, which takes a millisecond for a line: a lab of a thousand GPUs would wait for seconds.
    """
    lines, console = [[Text(column, "bold") for column in columns], *([_cell(value) for value in row] for row in rows)], _console()
    widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
    squeeze(widths, console.width - GAP * (len(widths) - 1))
    for line in lines:
        for cell, width in zip(line, widths, strict=True):
            cell.truncate(width, overflow="ellipsis")
        for cell, width in zip(line[:-1], widths, strict=False):
            cell.pad_right(width + GAP - cell.cell_len)
    _print(console, Text("\n").join(Text("").join(line) for line in lines))


def squeeze(widths: list[int], room: int) -> None:
    """The last column first, then the widest, whichever that is by then."""
    widths[-1] = max(min(widths[-1], room - sum(widths[:-1])), 1)
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """`name  value` a line, without those that have no value; long values go on below themselves."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        text = value if isinstance(value, Text) else Text(safe(value))
        if text.plain:
            grid.add_row(Text(name), text)
    _print(_console(), grid)


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


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)


def _print(console: Console, shown: Table | Text) -> None:
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        print(line.rstrip())
