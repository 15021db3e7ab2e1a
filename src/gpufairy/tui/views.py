"""The views by name, in the order of their tabs; and how their columns share the width that there is."""
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.cells import cell_len

from gpufairy.tui.cells import Column, Line, Table
from gpufairy.tui.gpu_view import gpu_table
from gpufairy.tui.history import History
from gpufairy.tui.host_view import host_table
from gpufairy.tui.people_view import session_table, user_table
from gpufairy.tui.scene import Scene

TABLES: dict[str, Callable[[Scene, History], Table]] = {
    "gpus": gpu_table,
    "users": lambda scene, _: user_table(scene),
    "sessions": lambda scene, _: session_table(scene),
    "hosts": lambda scene, _: host_table(scene),
}
TITLES = {"gpus": "GPUs", "users": "Users", "sessions": "Sessions", "hosts": "Hosts"}
NAMES = {"host": 24, "kind": 16, "gpu": 10}  # columns as wide as what they hold, and at most so wide
PADDING = 2  # places beside each column


def fitted(table: Table, width: int) -> Table:
    """As much of it as goes into the width: columns of names as wide as the names; the last one takes what is left."""
    columns = [_as_wide_as_needed(column, place, table.lines) for place, column in enumerate(table.columns)]
    kept = _kept(columns, width)
    rest = width - sum(columns[place].width + PADDING for place in kept[:-1]) - PADDING
    last = columns[kept[-1]]
    columns[kept[-1]] = replace(last, width=max(last.width, rest))
    if len(kept) == len(columns):
        return Table(tuple(columns), table.lines)
    lines = [replace(line, cells=tuple(line.cells[place] for place in kept)) for line in table.lines]
    return Table(tuple(columns[place] for place in kept), lines)


def _as_wide_as_needed(column: Column, place: int, lines: Sequence[Line]) -> Column:
    if column.key not in NAMES:
        return column
    longest = max((cell_len(line.cells[place].plain) for line in lines), default=0)
    return replace(column, width=min(NAMES[column.key], max(len(column.title) + 1, longest)))


def _kept(columns: Sequence[Column], width: int) -> list[int]:
    """The places of those that fit, the ones that matter most first."""
    taken, kept = 0, []
    for place in sorted(range(len(columns)), key=lambda place: columns[place].spare):
        if columns[place].spare == 0 or taken + columns[place].width + PADDING <= width:
            taken += columns[place].width + PADDING
            kept.append(place)
    return sorted(kept)
