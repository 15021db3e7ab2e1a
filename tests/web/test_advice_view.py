"""Advice on the pages: its figures with their units, in the reader's tongue, and nothing of others'."""
from datetime import timedelta
from pathlib import Path

import pytest
from house_scene import Scene, a_house
from test_advice import works
from test_history import a_running_session

from gpufairy.core.insight import Evidence
from gpufairy.web.advice_view import advice_of_session, advice_of_user, afterwards, figures, sure_words
from gpufairy.web.home import home

GIB = 2**30


@pytest.fixture
async def scene(tmp_path: Path):
    async with a_house(tmp_path) as made:
        await made.house.registry.ensure_user("ann")
        yield made


def spaced(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


async def test_home_and_the_sessions_page_say_the_same(scene: Scene):
    session = await a_running_session(scene)
    await works(scene, session, 30)
    (at_home,) = await advice_of_user(scene.house, "ann")
    assert (await advice_of_session(scene.house, session)) == (at_home,)
    assert (await home(scene.house, "ann")).advice == (at_home,)
    assert at_home.href == f"/sessions/{session.name}"
    assert [spaced(one) for one in at_home.figures] == ["GPU 23 %", "CPUs 1.7 of 1.8"]
    assert (at_home.sure, spaced(at_home.window), at_home.simulated) == ("sure", "30 min", True)
    assert await advice_of_user(scene.house, "bob") == ()


async def test_what_is_over_says_what_would_suffice(scene: Scene):
    session = await a_running_session(scene, memory="8GiB")
    assert await afterwards(scene.house, session) is None
    await works(scene, session, 40, memory=2 * GIB)
    await scene.stop(session)
    await scene.rest()
    after = await afterwards(scene.house, await scene.now(session))
    assert after.sufficed == "--gpus 0.5 --memory 3GiB"
    assert spaced(after.energy) == "0.2 kWh"
    assert after.cost == ""
    assert [spaced(one) for one in after.peaks] == ["GPU memory 1 GiB of 40 GiB", "CPUs 1.7 of 1.8", "Memory 2 GiB of 8 GiB"]


def test_every_figure_has_its_unit():
    seen = (
        Evidence("gpu 1", 0.5, "ratio"), Evidence("power", 695, "watts", 700), Evidence("temperature", 91, "celsius"),
        Evidence("received", 2**20, "bytes_per_s"), Evidence("rests", timedelta(hours=2).total_seconds(), "seconds"),
    )  # fmt: skip
    told = [spaced(one) for one in figures(seen)]
    assert told == ["GPU 1 50 %", "power 695 W of 700 W", "temperature 91 °C", "received 1 MiB/s", "nothing ran for 2 h"]
    assert [sure_words(confidence) for confidence in (0.9, 0.75, 0.6)] == ["sure", "likely", "perhaps"]
