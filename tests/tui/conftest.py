"""The live screen against a canned server: Textual's own pilot presses the keys."""
import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from cli.fake_server import TOKEN, FakeServer
from gpufairy.client import Fairy
from gpufairy.tui.app import TopApp

LIMIT_S = 10  # of waiting for something to be shown


@pytest.fixture
def server():
    fake = FakeServer()
    fake.answers["GET", "/nodes"] = {"items": [], "next": None}
    yield fake
    fake.close()


@pytest.fixture
def screen(server):
    """`async with screen(nodes) as shown`: the app, asking the canned server, with its first answer on the screen."""

    @asynccontextmanager
    async def start(nodes, size=(160, 40), every_s=0.02):
        server.answers["GET", "/nodes"] = {"items": nodes, "next": None}
        app = TopApp(lambda: Fairy(server.url, TOKEN), every_s)
        async with app.run_test(size=size) as pilot:
            shown = Shown(app, pilot)
            await shown.until(lambda: app.scene is not None)
            yield shown

    return start


class Shown:
    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    @property
    def rows(self):
        """What stands in the table now: a list of the texts of each line."""
        return [[cell.plain for cell in line.cells] for line in self.app.table.lines]

    def column(self, key):
        place = [column.key for column in self.app.table.shown_columns].index(key)
        return [row[place] for row in self.rows]

    def text(self, where):
        part = self.app.query_one(where)
        return part.visual.plain if part.display else ""

    def painted(self):
        """The screen as a terminal shows it, line by line."""
        return ["".join(segment.text for segment in strip) for strip in self.app.screen._compositor.render_strips()]

    async def press(self, *keys):
        await self.pilot.press(*keys)

    async def until(self, claim):
        end_s = time.monotonic() + LIMIT_S
        while not claim():
            assert time.monotonic() < end_s, "it was not shown in time"
            await self.pilot.pause()
            await asyncio.sleep(0)
