"""Pieces of Markdown: tables and code that no text from elsewhere can break."""
from collections.abc import Iterable, Sequence

MARKS = str.maketrans({"|": r"\|", "<": "&lt;", "*": r"\*", "_": r"\_", "\n": " "})
# Within backticks nothing but the bar that ends a cell means anything.
IN_CODE = str.maketrans({"|": r"\|", "\n": " "})


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *lines]) + "\n"


def plain(text: str) -> str:
    """Text as it is, but for what stands between backticks, which is code."""
    pieces = " ".join(text.split()).split("`")
    return "`".join(piece.translate(IN_CODE if number % 2 else MARKS) for number, piece in enumerate(pieces))


def code(text: str) -> str:
    return f"`{text.translate(IN_CODE)}`"


def fenced(text: str) -> str:
    return f"```sh\n{text.rstrip()}\n```\n"
