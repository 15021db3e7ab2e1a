"""Tables and pairs on the terminal, in Rich's colours. Into a pipe: no colour, nothing cut, however wide."""
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from gpufairy.cli.words import is_simulated, mark_of
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

UNBOUNDED = 1_000_000  # columns of a pipe: more than any value has
GAP = 2  # blanks between two columns
SIMULATED = Text("simulated", "medium_purple1")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """One line a row. The last column is the one that gives way when the terminal is narrow, then the widest.

    Not by Rich's own table, which takes a millisecond for a line: a lab of a thousand GPUs would wait for seconds.
    """
    head: list[str | Text] = [Text(column, "bold") for column in columns]
    lines, console = [head, *([_cell(value) for value in row] for row in rows)], _console()
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    squeeze(widths, console.width - GAP * (len(widths) - 1))
    _print(console, Segments(_laid_out(lines, widths, console)))


def _laid_out(lines: Iterable[Sequence[str | Text]], widths: Sequence[int], console: Console) -> Iterator[Segment]:
    for line in lines:
        for cell, width in zip(line, widths, strict=True):
            fits = _width(cell) <= width
            if isinstance(cell, Text):
                cell.truncate(width, overflow="ellipsis")
                yield from Segment.apply_style(cell.render(console), console.get_style(cell.style))
            else:
                yield Segment(cell if fits else set_cell_size(cell, width - 1) + "…")
            yield Segment(" " * (GAP + (width - _width(cell) if fits else 0)))
        yield Segment.line()


def _width(cell: str | Text) -> int:
    return cell_len(cell if isinstance(cell, str) else cell.plain)


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


def print_lines(lines: Iterable[Text]) -> None:
    """As they are: cut at the edge of a terminal, whole into a pipe."""
    console = _console()
    shown = [line.copy() for line in lines]
    for line in shown:
        line.truncate(console.width)
    _print(console, Group(*shown))


def state_text(session: Record) -> Text:
    mark = mark_of(session)
    return Text(f"{mark.dot} {mark.word}", mark.style)


def with_simulated(text: str, simulated: bool) -> Text:
    return Text.assemble(Text(text), " ", SIMULATED) if simulated else Text(text)


def gpus_text(session: Record) -> Text:
    return with_simulated(safe((session.get("request") or {}).get("gpus")), is_simulated(session))


def _cell(value: str | Text) -> str | Text:
    return value.copy() if isinstance(value, Text) else safe(value)


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)


def _print(console: Console, shown: Table | Segments | Group) -> None:
    with console.capture() as captured:
        console.print(shown, crop=False)
    for line in captured.get().splitlines():
        print(line.rstrip())
