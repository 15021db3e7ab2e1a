"""A DataTable that is told all its lines each time and paints only those in sight, so that a thousand lines stay smooth."""
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from gpufairy.tui.cells import Column, Line
from gpufairy.tui.order import Order
from gpufairy.tui.palette import painted

MOST_REMOVED_SINGLY = 20  # removing a row costs as much as the table is long; beyond this it is filled anew


class Spot:
    """A cell of the DataTable: it knows its place, and is painted with what stands there when it comes into sight."""

    __slots__ = ("column", "row", "table")

    def __init__(self, table: "LiveTable", row: int, column: int) -> None:
        self.table, self.row, self.column = table, row, column

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table.painted_at(self.row, self.column)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, 1)  # columns have widths of their own: no need to paint a thousand rows to learn it


class LiveTable(DataTable[Spot]):
    """Rows are places: the first row shows the first line, whichever that is. The cursor stays with its line, unless it is at the top."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Details")]

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cursor_foreground_priority="renderable")
        self.lines: Sequence[Line] = ()
        self.shown_columns: tuple[Column, ...] = ()
        self._dark = True
        self._order = Order()

    @property
    def chosen(self) -> str | None:
        """The key of the line under the cursor."""
        return self.lines[self.cursor_row].key if 0 <= self.cursor_row < len(self.lines) else None

    def painted_at(self, row: int, column: int) -> Text:
        if row >= len(self.lines):
            return Text("")
        return painted(self.lines[row].cells[column].pieces, self._dark, right=self.shown_columns[column].right)

    def show(self, columns: tuple[Column, ...], lines: Sequence[Line], order: Order, *, dark: bool, follow: bool = False) -> bool:
        """Whether anything had to be painted. `follow`: the cursor stays with its line even at the top."""
        chosen = self.chosen if follow or self.cursor_row > 0 else None
        before = (self.shown_columns, self._dark, self._order, [line.cells for line in self.lines])
        now = (columns, dark, order, [line.cells for line in lines])
        self.lines, self._dark, self._order = lines, dark, order
        if columns != self.shown_columns:
            self._begin(columns)
        self._fit(len(lines))
        place = next((number for number, line in enumerate(lines) if line.key == chosen), None) if chosen is not None else None
        if place is not None and place != self.cursor_row:
            self.move_cursor(row=place, animate=False)
        if now == before:
            return False
        self._head()
        self.notify_style_update()  # drops what was painted before, and paints what is in sight
        return True

    def in_sight(self) -> Sequence[Line]:
        top = int(self.scroll_offset.y)
        return self.lines[top : top + self.size.height]

    def _head(self) -> None:
        """Each title with the letter that sorts by it underlined, and an arrow at the one that does."""
        for column, title in zip(self.columns.values(), self.shown_columns, strict=True):
            label = Text(title.title, justify="right" if title.right else "left")
            if title.letter and (place := title.title.casefold().find(title.letter)) >= 0:
                label.stylize("underline", place, place + 1)
            if self._order.column == title.key:
                label.append("▼" if self._order.falling else "▲", "bold")
            column.label = label

    def _begin(self, columns: tuple[Column, ...]) -> None:
        top, row = self.scroll_y, self.cursor_row
        self.clear(columns=True)
        self.shown_columns = columns
        for column in columns:
            self.add_column(column.title, width=column.width, key=column.key)
        self._fit(len(self.lines))
        self.move_cursor(row=row, animate=False)
        self.scroll_to(y=top, animate=False)

    def _fit(self, rows: int) -> None:
        if self.row_count - rows > MOST_REMOVED_SINGLY:
            self.clear()
        while self.row_count > rows:
            self.remove_row(str(self.row_count - 1))
        for row in range(self.row_count, rows):
            self.add_row(*(Spot(self, row, column) for column in range(len(self.shown_columns))), key=str(row), height=1)
