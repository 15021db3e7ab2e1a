"""What is shown, before any screen: cells of styled pieces, lines of cells, columns. Styles are words of palette.py, never colours."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

Piece: TypeAlias = tuple[str, str]  # text and its style; "" is plain
SortValue: TypeAlias = float | tuple[tuple[int, int, str], ...] | None  # None: not known, and last whichever way


@dataclass(frozen=True, slots=True)
class Cell:
    pieces: tuple[Piece, ...] = ()

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    title: str
    width: int
    letter: str = ""  # the key that sorts by it; empty: it is not sorted by
    right: bool = False
    falling: bool = False  # the first press puts the largest on top
    spare: int = 0  # left out where the screen is narrow, the highest first; 0: always there


@dataclass(frozen=True, slots=True)
class Line:
    key: str
    cells: tuple[Cell, ...]
    values: Mapping[str, SortValue]  # by column
    words: str  # what a filter looks into, folded
    under: str | None = None  # the line that it always stays below: the GPU of an instance


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    lines: list[Line] = field(default_factory=list)


NOTHING = Cell()


def cell(text: str, style: str = "") -> Cell:
    return Cell(((text, style),)) if text else NOTHING


def joined(parts: Sequence[Sequence[Piece]], between: str = " ") -> tuple[Piece, ...]:
    """The pieces of all parts that have some, with the same text between each two."""
    pieces: list[Piece] = []
    for part in parts:
        if any(text for text, _ in part):
            pieces.extend([(between, ""), *part] if pieces else part)
    return tuple(pieces)


def grid(rows: Sequence[Sequence[Cell]], right: Sequence[bool] = (), gap: int = 2) -> list[tuple[Piece, ...]]:
    """Rows as lines of text whose columns stand below each other, however wide; the last column is not padded."""
    columns = max((len(row) for row in rows), default=0)
    widths = [max((cell_len(row[place].plain) for row in rows if place < len(row)), default=0) for place in range(columns)]
    lines = []
    for row in rows:
        pieces: list[Piece] = []
        for place, one in enumerate(row):
            pad = " " * (widths[place] - cell_len(one.plain))
            to_right = place < len(right) and right[place]
            pieces += [*([(pad, "")] if to_right and pad else []), *one.pieces]
            if place < len(row) - 1:
                pieces.append((" " * gap if to_right else pad + " " * gap, ""))
        lines.append(tuple(pieces))
    return lines


def cut(text: str, width: int) -> str:
    """So wide at the most on a terminal, where a Korean letter takes two places."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
