"""CSV as spreadsheets take it: with a mark so that Korean shows as it should, and no cell that a spreadsheet would run as a formula."""
import csv
import io
from collections.abc import Iterable, Sequence

MARK = "\ufeff"  # without it Excel reads UTF-8 as something else
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], *, mark: bool = False) -> str:
    """None is an empty cell: not known, never 0. Numbers stay as they are, also those below 0."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([[cell(value) for value in row] for row in rows])
    return (MARK if mark else "") + out.getvalue()


def cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
