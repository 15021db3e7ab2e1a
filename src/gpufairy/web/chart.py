"""A line over time as the points of an SVG: what is not known is a gap, never a zero."""
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 80  # units of the drawing, which stretches to its place on the page


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    look: str  # a class of look.css
    pieces: tuple[str, ...]  # each the points of one polyline


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    now: str  # the last value that is known, in words
    top: str  # what the upper edge stands for
    lines: tuple[Line, ...]
    said: str  # the same for those who hear it


def line(name: str, look: str, values: Sequence[float | None], top: float) -> Line:
    return Line(name, look, tuple(pieces(values, top)))


def pieces(values: Sequence[float | None], top: float) -> list[str]:
    """One for each stretch without a gap. A single value becomes a dash: a point has no width, and would not be seen."""
    step = WIDTH / max(1, len(values) - 1)
    found: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            found.append([])
            continue
        height = HEIGHT * (1 - min(1.0, max(0.0, value / top if top > 0 else 0.0)))
        found[-1].append(f"{place * step:.1f},{height:.1f}")
    return [" ".join(piece if len(piece) > 1 else dash(piece[0])) for piece in found if piece]


def dash(point: str) -> list[str]:
    across, height = point.split(",")
    return [f"{max(0.0, float(across) - 1):.1f},{height}", f"{float(across) + 1:.1f},{height}"]
