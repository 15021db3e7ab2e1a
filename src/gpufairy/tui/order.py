"""Which lines are shown, and in which order. What lies under another line stays there; what is not known is last, whichever way."""
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpufairy.tui.cells import Column, Line, SortValue

_DIGITS = re.compile(r"([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Order:
    column: str | None = None  # None: as the server tells them
    falling: bool = False

    def by(self, column: Column) -> "Order":
        """By another column; by the same one, the other way round."""
        return self.turned() if self.column == column.key else Order(column.key, column.falling)

    def turned(self) -> "Order":
        return replace(self, falling=not self.falling)


def arranged(lines: Sequence[Line], order: Order, wanted: str = "") -> list[Line]:
    blocks = [block for block in _blocks(lines) if _matches(block, wanted)]
    if order.column is None:
        blocks = blocks[::-1] if order.falling else blocks
    else:
        valued = [(_value(block, order), block) for block in blocks]
        known = sorted(((value, block) for value, block in valued if value is not None), key=lambda pair: pair[0], reverse=order.falling)
        blocks = [block for _, block in known] + [block for value, block in valued if value is None]
    return [line for block in blocks for line in block]


def _blocks(lines: Sequence[Line]) -> list[list[Line]]:
    blocks: list[list[Line]] = []
    for line in lines:
        if line.under is None or not blocks:
            blocks.append([line])
        else:
            blocks[-1].append(line)
    return blocks


def _matches(block: Sequence[Line], wanted: str) -> bool:
    """Every word is found in one of its lines."""
    words = wanted.casefold().split()
    return not words or any(all(word in line.words for word in words) for line in block)


def _value(block: Sequence[Line], order: Order) -> SortValue:
    known = [value for line in block if (value := line.values.get(order.column or "")) is not None]
    if not known:
        return None
    return max(known) if order.falling else min(known)


@lru_cache(maxsize=8192)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """gpu2 comes before gpu10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text.casefold()) if part)
