"""The screen of `fairy top`: tabs of views, a table, the chosen line in full below it. It draws; threads of feed.py ask."""
import time
from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.timer import Timer
from textual.widgets import ContentSwitcher, DataTable, Footer, Input, Static, Tab, Tabs

from gpufairy.client import Fairy
from gpufairy.tui.cells import Column, Piece
from gpufairy.tui.detail import detail_of
from gpufairy.tui.feed import Feed, Past, Remembrance, Silence
from gpufairy.tui.history import History
from gpufairy.tui.live_table import LiveTable
from gpufairy.tui.order import Order, arranged
from gpufairy.tui.palette import painted, theme
from gpufairy.tui.scene import Scene, remember
from gpufairy.tui.summary import silence, summary, troubles
from gpufairy.tui.views import TABLES, TITLES, fitted

FILTER_BY = "filter: host, user, session, kind, free, idle, outside …   Enter keeps it, Esc drops it"

GATHER_S = 0.2
SCROLLBAR = 1  # place that it may need at the side
DETAIL_LINES = 5  # by which a key moves the details
PARTS = "#summary, #banner, #remarks, #empty, #detail, #told, #filter, ContentSwitcher, LiveTable"
NUMBER_OF_PARTS = 8 + len(TABLES)


class Heard(Message):
    """From a feed's thread to the screen."""

    def __init__(self, what: Scene | Silence | Past) -> None:
        super().__init__()
        self.what = what


class TopApp(App[None]):
    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "fairy top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        *(Binding(str(number), f"view('{name}')", title, show=False) for number, (name, title) in enumerate(TITLES.items(), 1)),
        Binding("tab", "step(1)", "Next view", priority=True),
        Binding("shift+tab", "step(-1)", "View before", show=False, priority=True),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("r", "turn", "Turn order"),
        Binding("d", "light", "Dark/light"),
        Binding("shift+down", "move_detail(1)", "Details down", show=False),
        Binding("shift+up", "move_detail(-1)", "Details up", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]

    def __init__(self, connect: Callable[[], Fairy], every_s: float, view: str = "gpus") -> None:
        super().__init__()
        self.register_theme(theme(dark=True))
        self.register_theme(theme(dark=False))
        self.theme = "fairy-dark"
        self.history = History()
        self.scene: Scene | None = None
        self.silence: Silence | None = None
        self.view = view
        self.wanted = ""
        self._soon: Timer | None = None
        self.orders = dict.fromkeys(TABLES, Order())
        self.feed = Feed(connect(), every_s, self._tell)
        self.remembrance = Remembrance(connect(), self._tell)

    def _tell(self, what: Scene | Silence | Past) -> None:
        self.post_message(Heard(what))  # from another thread; after the end it goes nowhere

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        tabs = Tabs(*(Tab(f"{number} {title}", id=name) for number, (name, title) in enumerate(TITLES.items(), 1)), active=self.view)
        tabs.can_focus = False
        yield tabs
        yield Static(id="banner")
        yield Static(id="remarks")
        with ContentSwitcher(initial=f"table-{self.view}"):
            for name in TABLES:
                yield LiveTable(f"table-{name}")
        yield Static(id="empty")
        with VerticalScroll(id="detail"):
            yield Static(id="told")
        yield Input(placeholder=FILTER_BY, id="filter", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        self._write("#summary", (("Asking the server …", "soft"),))
        self.table.focus()
        self.feed.start()
        self.remembrance.start()
        self.set_interval(1.0, self._count_silence)

    def on_unmount(self) -> None:
        self.feed.end()
        self.remembrance.end()

    @property
    def table(self) -> LiveTable:
        return self.query_one(f"#table-{self.view}", LiveTable)

    @property
    def dark(self) -> bool:
        return self.theme != "fairy-light"

    @on(Heard)
    def hear(self, heard: Heard) -> None:
        what = heard.what
        if isinstance(what, Past):
            self._recall(what)
            return
        if isinstance(what, Silence):
            self.silence = self.silence or what
        else:
            if self.silence is not None:
                self.remembrance.again()
            self.silence, self.scene = None, what
            remember(what, self.history)
        self.draw()

    def _recall(self, past: Past) -> None:
        if past.answer is None:
            return
        self.history.fill(past.uuid, past.answer, time.time())
        # At the start they come in dozens: drawn once for all of them.
        if self._soon is None:
            self._soon = self.set_timer(GATHER_S, self._draw_gathered)

    def _draw_gathered(self) -> None:
        self._soon = None
        self.draw()

    def draw(self) -> None:
        """All that there is, from what is known now. Only what changed is painted."""
        self._count_silence()
        if self.scene is None or not self._parts_are_there:
            return
        self._write("#summary", summary(self.scene))
        self._write("#remarks", tuple((f"◆ {words}\n", "bad") for words in troubles(self.scene)))
        self._draw_table(self.scene)
        self._draw_detail(self.scene)

    def _draw_table(self, scene: Scene) -> None:
        table, order = self.table, self.orders[self.view]
        told = fitted(TABLES[self.view](scene, self.history), self.size.width - SCROLLBAR)
        lines = arranged(told.lines, order, self.wanted)
        table.show(told.columns, lines, order, dark=self.dark, follow=self._detail_open)
        empty = f"Nothing matches {self.wanted!r}. Esc drops the filter." if self.wanted else "There is nothing to show here yet."
        self._write("#empty", () if lines else ((empty, "soft"),))
        if self.view == "gpus":
            uuids = {line.key: line.key.rsplit("/", 2)[1] for line in table.in_sight()}
            for uuid in uuids.values():
                self.remembrance.want(uuid)

    def _draw_detail(self, scene: Scene) -> None:
        if not self._detail_open:
            return
        key = self.table.chosen
        lines = [] if key is None else detail_of(self.view, scene, self.history, key)
        self._write("#told", tuple(piece for line in lines for piece in (*line, ("\n", ""))))

    @property
    def _parts_are_there(self) -> bool:
        """Not before the first message, nor after the last: while the screen is taken down, feeds still tell."""
        return len(self.query(PARTS)) == NUMBER_OF_PARTS

    def _count_silence(self) -> None:
        if not self._parts_are_there:
            return
        said: tuple[Piece, ...] = ()
        if self.silence is not None:
            said = ((silence(self.silence.words, self.silence.at_s, time.time(), shown=self.scene is not None), "bold"),)
        self._write("#banner", said)
        for part in (self.query_one(ContentSwitcher), self.query_one("#summary"), self.query_one("#detail")):
            part.set_class(self.silence is not None, "old")

    def _write(self, where: str, pieces: tuple[Piece, ...]) -> None:
        """A part without words takes no room."""
        part = self.query_one(where, Static)
        part.display = bool(pieces)
        if pieces:
            text = painted(pieces, self.dark)
            text.rstrip()
            part.update(text)

    @property
    def _detail_open(self) -> bool:
        return bool(self.query_one("#detail").display)

    @on(Tabs.TabActivated)
    def _tab_chosen(self, event: Tabs.TabActivated) -> None:
        self.action_view(event.tab.id or "gpus")

    def action_view(self, name: str) -> None:
        if name == self.view:
            return
        self.view = name
        tabs = self.query_one(Tabs)
        with tabs.prevent(Tabs.TabActivated):  # else it answers late, and leads back to a view left meanwhile
            tabs.active = name
        self.query_one(ContentSwitcher).current = f"table-{name}"
        self.table.focus()
        self.draw()

    def action_step(self, way: int) -> None:
        names = list(TABLES)
        self.action_view(names[(names.index(self.view) + way) % len(names)])

    def action_turn(self) -> None:
        self.orders[self.view] = self.orders[self.view].turned()
        self.draw()

    def action_light(self) -> None:
        self.theme = "fairy-light" if self.dark else "fairy-dark"
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """The letter underlined in a title sorts by that column."""
        if event.character and not isinstance(self.focused, Input):
            self._sort_by(lambda column: column.letter == event.character)

    @on(DataTable.HeaderSelected)
    def _title_chosen(self, event: DataTable.HeaderSelected) -> None:
        self._sort_by(lambda column: bool(column.letter) and column.key == event.column_key.value)

    def _sort_by(self, wanted: Callable[[Column], bool]) -> None:
        column = next((column for column in self.table.shown_columns if wanted(column)), None)
        if column is not None:
            self.orders[self.view] = self.orders[self.view].by(column)
            self.draw()

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    @on(Input.Changed)
    def _filter_typed(self, event: Input.Changed) -> None:
        self.wanted = event.value
        self.draw()

    @on(Input.Submitted)
    def _filter_kept(self) -> None:
        self.query_one("#filter", Input).display = bool(self.wanted)
        self.table.focus()

    def action_leave(self) -> None:
        """First out of the details, then out of the filter."""
        box = self.query_one("#filter", Input)
        if self._detail_open and self.focused is not box:
            self.query_one("#detail").display = False
        else:
            box.value, box.display = "", False
        self.table.focus()

    @on(DataTable.RowSelected)
    def _open_detail(self) -> None:
        self.query_one("#detail").display = True
        self.draw()

    def action_move_detail(self, way: int) -> None:
        self.query_one("#detail").scroll_relative(y=way * DETAIL_LINES, animate=False)

    @on(DataTable.RowHighlighted)
    def _line_chosen(self) -> None:
        if self.scene is not None and self._parts_are_there:
            self._draw_detail(self.scene)

    def on_resize(self) -> None:
        self.draw()
