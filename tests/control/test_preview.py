"""What would become of a submit: told in the same words as it is refused or waits with, and nothing is written by asking."""
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from gpufairy.control.find import wait_of
from gpufairy.control.preview import preview, shares_now
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, Conflict, FairyError, NeverFits, NotAllowed, QuotaExceeded
from gpufairy.core.quota_rules import ANY_KIND, EACH_USER
from gpufairy.core.share import PARTS, parse_share
from gpufairy.wire.submit import SubmitBody

AS_ANN = Caller(ANN, "full")
SMALL = {"cpus": "0.1", "memory": "1GiB"}


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


async def asked(scene, **fields):
    body = SubmitBody.model_validate({"command": ["work"], "gpus": "1", **SMALL, **fields})
    before = len(scene.house.book), dict(scene.house.book.queues)
    try:
        return await preview(scene.house, AS_ANN, body, {})
    finally:
        assert (len(scene.house.book), dict(scene.house.book.queues)) == before


async def test_what_fits_is_said_to_start_now_with_what_it_is_given(scene):
    found = await asked(scene, gpus="0.5")
    assert (found.starts_now, found.wait) == (1, None)
    assert found.seat.gpu_parts == PARTS // 2
    assert found.seat.gpus[0].accounted == ("memory", "sm")
    assert (await scene.submit(gpus="0.5", **SMALL)).request == found.sessions[0].request


async def test_what_does_not_fit_waits_and_is_told_what_the_session_itself_is_told_later(scene):
    await scene.submit(gpus="2", time="1h", **SMALL)
    await scene.rest()
    found = await asked(scene, gpus="1")
    session = await scene.submit(gpus="1", **SMALL)
    await scene.rest()
    scene.clock.go_on(timedelta(seconds=2))
    waits = wait_of(scene.house, session)
    assert found.starts_now == 0
    assert (found.wait.place, found.wait.summary, found.wait.helps) == (waits.place, waits.summary, waits.helps)
    assert abs(found.wait.forecast_start - waits.forecast_start) < timedelta(seconds=5)
    assert found.seat.gpu_parts == PARTS


async def test_it_comes_after_those_of_its_owner_who_wait_already(scene):
    await scene.submit(gpus="2", time="1h", **SMALL)
    await scene.submit(gpus="2", time="2h", **SMALL)
    await scene.rest()
    found = await asked(scene, gpus="2")
    assert found.wait.place == 2
    assert found.wait.forecast_start - scene.clock() > timedelta(hours=2)


async def test_of_several_it_is_told_how_many_start_now(scene):
    found = await asked(scene, count=3)
    assert (len(found.sessions), found.starts_now) == (3, 2)
    assert found.wait.place == 3
    assert "0 of 2 GPUs wholly free" in found.wait.summary


async def test_of_those_who_start_together_all_do_or_none(scene):
    assert (await asked(scene, count=2, together=True)).starts_now == 2
    await scene.submit(gpus="1", time="1h", **SMALL)
    await scene.rest()
    found = await asked(scene, count=2, together=True)
    assert found.starts_now == 0
    assert "1 of the 2 that start together would fit" in found.wait.summary
    assert "ask for --count 1" in found.wait.helps[0]


async def test_whoever_waits_for_anothers_end_is_told_so(scene):
    await scene.submit(name="first", **SMALL)
    assert "waits for first to end well" in (await asked(scene, after="first")).wait.summary


@pytest.mark.parametrize(
    ("fields", "error"),
    [({"gpus": "9"}, NeverFits), ({"gpus": "x"}, BadInput), ({"priority": "high"}, NotAllowed), ({"name": "taken"}, Conflict), ({"gpus": "2"}, QuotaExceeded)],
)
async def test_what_would_be_refused_is_refused_in_the_same_words(scene, fields, error):
    if error is QuotaExceeded:
        await scene.house.quotas.set(EACH_USER, ANY_KIND, lambda quota: replace(quota, gpu_parts=PARTS), scene.house.nodes)
    await scene.submit(name="taken", gpus="0", **SMALL)
    with pytest.raises(error) as told:
        await asked(scene, **fields)
    with pytest.raises(FairyError) as refused:
        await scene.submit(**{**SMALL, **fields})
    assert (told.value.detail, told.value.next_step) == (refused.value.detail, refused.value.next_step)


async def test_of_each_share_it_is_known_whether_it_would_start_now(scene):
    await scene.submit(gpus="1", **SMALL)
    await scene.submit(gpus="0.5", **SMALL)
    await scene.rest()
    session = (await asked(scene, gpus="0.5")).sessions[0]
    shares = [parse_share(text) for text in ("0", "0.5", "0.75", "1", "2")]
    assert [shares_now(scene.house, session, shares)[share] for share in shares] == [True, True, False, False, False]
