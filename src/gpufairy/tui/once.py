"""`fairy top` without a screen: one screenful as text, or the nodes as JSON, a document a line."""
import json
import sys
import time
from datetime import UTC, datetime

from rich.console import Console

from gpufairy.client import Fairy, Problem, ServerNotReached
from gpufairy.tui.cells import Piece, cell, grid
from gpufairy.tui.history import History
from gpufairy.tui.palette import painted
from gpufairy.tui.rates import Rates
from gpufairy.tui.scene import Scene, scene_of
from gpufairy.tui.summary import summary
from gpufairy.tui.views import TABLES

UNBOUNDED = 1_000_000  # columns of a pipe: more than any value has
NOT_NOW = (502, 503, 504)  # a server that starts, or a proxy in front of one
LEFT_OUT = "history"  # nothing was seen before


def print_once(fairy: Fairy, view: str) -> None:
    nodes = fairy.nodes()
    rates: dict[str, Rates] = {}  # those need two readings
    lines = screenful(scene_of(nodes, rates, time.time()), view)
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else UNBOUNDED, highlight=False)
    for line in lines:
        console.print(painted(line, dark=True), soft_wrap=not terminal)


def screenful(scene: Scene, view: str) -> list[tuple[Piece, ...]]:
    table = TABLES[view](scene, History())
    places = [place for place, column in enumerate(table.columns) if column.key != LEFT_OUT]
    rows = [[cell(table.columns[place].title, "soft") for place in places]]
    rows += [[line.cells[place] for place in places] for line in table.lines]
    right = [table.columns[place].right for place in places]
    remarks: list[tuple[Piece, ...]] = [((f"◆ {words}", "bad"),) for words in scene.remarks]
    return [summary(scene), *remarks, (), *grid(rows, right=right)]


def print_json(fairy: Fairy, every_s: float, *, once: bool) -> None:
    """Until interrupted. A server that goes away later is waited for, and said so on stderr once."""
    seen, away = False, False
    while True:
        try:
            nodes = fairy.nodes()
        except (ServerNotReached, Problem) as error:
            if not seen or (isinstance(error, Problem) and error.status not in NOT_NOW):
                raise
            if not away:
                sys.stderr.write(f"fairy: {error.detail}; trying again\n")
            away = True
        else:
            seen, away = True, False
            sys.stdout.write(json.dumps({"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "items": nodes}) + "\n")
            sys.stdout.flush()
        if once:
            return
        time.sleep(every_s)
