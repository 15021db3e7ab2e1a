"""Prometheus' text format: families with their rows, each row once, unknown values left out. What the families are is told elsewhere."""
import math
from dataclasses import dataclass

Value = float | bool | None  # None: not known

CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
ESCAPES = str.maketrans({**CONTROLS, "\\": r"\\", '"': r"\"", "\n": r"\n"})
VALUE_LETTERS = 256  # of a label's value: a name that fills a page says nothing more


@dataclass(frozen=True, eq=False)  # compared as itself: it is looked up for every row
class Family:
    name: str
    kind: str  # gauge, counter or untyped
    words: str  # its HELP line

    @property
    def head(self) -> str:
        return f"# HELP {self.name} {self.words}\n# TYPE {self.name} {self.kind}\n"


def gauge(name: str, words: str) -> Family:
    return Family(name, "gauge", words)


def counter(name: str, words: str) -> Family:
    return Family(name, "counter", words)


class Text:
    """Rows, kept by family whatever the order they come in. Of two with the same labels the last stays: readers refuse a page with both."""

    def __init__(self) -> None:
        self._families: dict[Family, dict[str, str]] = {}

    def put(self, family: Family, labels: str, value: Value) -> None:
        shown = None if value is None else number(value)
        if shown is not None:
            self._families.setdefault(family, {})[labels] = shown

    def encode(self) -> bytes:
        parts: list[str] = []
        for family, rows in self._families.items():
            parts.append(family.head)
            parts += [f"{family.name}{{{labels}}} {value}\n" if labels else f"{family.name} {value}\n" for labels, value in rows.items()]
        return "".join(parts).encode(errors="replace")  # names on a host may hold bytes that are no text


def labelled(**values: str) -> str:
    return ",".join([f'{name}="{escaped(value)}"' for name, value in values.items()])


def escaped(value: str, letters: int = VALUE_LETTERS) -> str:
    """Cut first: an escape is never cut in two."""
    return value[:letters].translate(ESCAPES)


def number(value: float) -> str | None:
    """None: NaN or endless, which is no reading."""
    if isinstance(value, int):
        return str(int(value))
    if not math.isfinite(value):
        return None
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
