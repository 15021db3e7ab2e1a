"""What takes its time on a session's page: shown while it goes on, told when it is over."""
import asyncio

import pytest
from house_scene import a_house

from builders import NOW
from gpufairy.core.errors import Conflict, EngineRefused
from gpufairy.web import under_way as module
from gpufairy.web.under_way import Doing, UnderWay

SWAP = Doing("swap", "pytorch:2.8", NOW)


@pytest.fixture
async def under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "QUICK_S", 0.01)
    async with a_house(tmp_path) as scene:
        made = UnderWay(scene.house)
        made.house = scene.house
        yield made


async def test_it_is_shown_while_it_goes_on_and_then_what_came_of_it(under_way):
    may_end = asyncio.Event()

    async def slow() -> str:
        await may_end.wait()
        return "made"

    await under_way.begin("one", SWAP, slow())
    assert under_way.of("one").going
    with under_way.house.bells.listen("one") as bell:
        may_end.set()
        await asyncio.wait_for(bell.wait(), 5)
    assert (under_way.of("one").going, under_way.of("one").made) == (False, "made")


async def test_a_second_waits_its_turn(under_way):
    never = asyncio.Event()

    async def slow() -> str:
        await never.wait()
        return ""

    await under_way.begin("one", SWAP, slow())
    with pytest.raises(Conflict, match=r"pytorch:2\.8 is still being worked on"):
        await under_way.begin("one", SWAP, slow())


async def test_what_is_refused_at_once_is_raised_and_what_is_refused_late_is_kept(under_way, monkeypatch):
    async def refused() -> str:
        raise EngineRefused("no registry has it", "See how it is spelt.")

    with pytest.raises(EngineRefused):
        await under_way.begin("one", SWAP, refused())
    assert under_way.of("one") is None
    may_end = asyncio.Event()

    async def refused_late() -> str:
        await may_end.wait()
        return await refused()

    await under_way.begin("two", SWAP, refused_late())
    with under_way.house.bells.listen("two") as bell:
        may_end.set()
        await asyncio.wait_for(bell.wait(), 5)
    assert (under_way.of("two").error, under_way.of("two").next_step) == ("no registry has it", "See how it is spelt.")
