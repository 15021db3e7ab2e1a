"""Lines of the last minutes, drawn with blocks. A value that is not known is a gap; 0 is the thinnest line."""
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
LOW = BLOCKS[:-1]  # so that the lines of neighbouring rows do not touch
GAP = " "


def sparkline(values: Sequence[float | None]) -> str:
    """One place a value, each 0 to 1."""
    return "".join(GAP if value is None else LOW[min(len(LOW) - 1, int(_clamped(value) * len(LOW)))] for value in values)


def chart(values: Sequence[float | None], height: int) -> list[str]:
    """The same, so many rows high, the uppermost first."""
    return ["".join(_block(value, row, height) for value in values) for row in reversed(range(height))]


def _block(value: float | None, row: int, height: int) -> str:
    if value is None:
        return GAP
    eighths = max(1, round(_clamped(value) * height * len(BLOCKS))) - row * len(BLOCKS)
    return GAP if eighths <= 0 else BLOCKS[min(eighths, len(BLOCKS)) - 1]


def _clamped(value: float) -> float:
    return min(1.0, max(0.0, value))
