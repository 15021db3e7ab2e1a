"""The page of a new session, as its views make it: the verdict, the shares that start now, faults beside their fields, hostile names."""
from dataclasses import replace

import pytest
from house_scene import ANN, a_house

from builders import a_gpu, a_node
from gpufairy.api.problems import status_and_title
from gpufairy.control.links import SignInLinks
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, NeverFits, NotAllowed
from gpufairy.core.image import ImageRules
from gpufairy.core.people import Role
from gpufairy.core.sharing import SHARED_FAULTS
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.web.context import PageContext
from gpufairy.web.launch import joined, page, told
from gpufairy.web.launch_choices import LATER, NOW, gpus_asked, kinds, preset_cards, priorities
from gpufairy.web.launch_form import Typed
from gpufairy.web.launch_verdict import fault_of
from gpufairy.wire.submit import SubmitBody

AS_ANN = Caller(ANN, "full")
NASTY = "<script>alert(1)</script>"
ROOM = {"cpus": "0.1", "memory": "1GiB"}


def context_of(scene, **fields):
    return PageContext(scene.house, SignInLinks(scene.house.clock), "http://server:8420", "fairy", status_and_title, **fields)


async def verdict(scene, **fields):
    return (await told(context_of(scene), AS_ANN, Typed(**{**ROOM, **fields}))).verdict


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


async def test_it_says_that_it_starts_now_and_what_is_enforced_and_what_only_accounted(scene):
    found = await verdict(scene, gpus="0.5")
    assert (found.mark.look, found.answer) == ("run", "It starts now: there is room on here.")
    rows = {row.what: (row.share.replace("\N{NO-BREAK SPACE}", " "), row.enforced) for row in found.given}
    assert rows["GPU memory"] == ("20 GiB", False)
    assert rows["Multiprocessors"] == ("50 %", False)
    assert found.simulated
    assert found.shared_faults == ""  # nothing computes on a simulated GPU


async def test_a_part_of_a_real_gpu_by_mps_is_told_with_the_faults_it_shares(tmp_path):
    real = replace(a_node(gpus=1), gpus=(a_gpu(0, simulated=False),))
    async with a_house(tmp_path, node=real) as scene:
        assert (await verdict(scene, gpus="0.5")).shared_faults == SHARED_FAULTS
        assert (await verdict(scene, gpus="1")).shared_faults == ""


async def test_it_says_when_and_why_if_it_waits_and_which_shares_would_not(scene):
    await scene.submit(gpus="1", time="1h", **ROOM)
    await scene.submit(gpus="0.5", time="2h", **ROOM)
    await scene.rest()
    found = await told(context_of(scene), AS_ANN, Typed(gpus="1", **ROOM))
    assert found.verdict.mark.look == "wait"
    assert found.verdict.when.startswith("Starts about")
    assert "0 of 2 GPUs wholly free" in found.verdict.why
    assert any("--gpus 0.5" in way for way in found.verdict.helps)
    starts = {stop.text: stop.starts for stop in found.stops}
    assert (starts["0"], starts["0.5"], starts["0.75"], starts["2"]) == (NOW, NOW, LATER, LATER)


async def test_a_fault_stands_beside_its_field_and_what_was_asked_is_still_known(scene):
    found = await verdict(scene, gpus="0.5", time="soon")
    assert found.mark.look == "bad"
    assert found.fault_at("time").detail.startswith("'soon' is no duration")
    assert found.fault_at("gpus") is None


def test_faults_are_told_by_the_field_they_speak_of():
    assert fault_of(BadInput("session: cpus: input should be…")).field == "cpus"
    assert fault_of(NotAllowed("image evil:1 is not one of those offered to ann")).field == "image"
    assert fault_of(NeverFits("no node here can ever hold this")).field == ""


async def test_what_strangers_named_is_only_shown(tmp_path):
    shelf = FakeShelf("ubuntu:24.04", f"evil/{NASTY}:1\x1b[31m")
    presets = {NASTY: SubmitBody(command=[NASTY], image="a:1", gpus="1")}
    async with a_house(tmp_path, shelf=shelf, images=ImageRules("ubuntu:24.04")) as scene:
        context = context_of(scene, presets=presets, folders=(NASTY,))
        response = await page(context, AS_ANN, Typed(kind="batch", command=NASTY, env=f"A={NASTY}\x07", gpu_kind=NASTY), NASTY)
    text = response.body.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text
    assert " style=" not in text


async def test_images_are_offered_side_by_side_and_those_that_are_not_for_me_are_not(tmp_path):
    shelf = FakeShelf("ubuntu:24.04", "pytorch:2.7", "pytorch:2.8", "secret:1")
    async with a_house(tmp_path, shelf=shelf, images=ImageRules("ubuntu:24.04", allow=("ubuntu:*", "pytorch:*"))) as scene:
        text = (await page(context_of(scene), AS_ANN, Typed(image="pytorch:2.8"), "")).body.decode()
    assert 'value="pytorch:2.8" checked' in text
    assert 'value="pytorch:2.7"' in text
    assert "secret:1" not in text


async def test_where_there_is_no_gpu_none_is_asked_for(tmp_path):
    async with a_house(tmp_path, gpus=0) as scene:
        text = (await page(context_of(scene), AS_ANN, Typed(gpus="0"), "")).body.decode()
    assert "There is no GPU here" in text
    assert 'type="hidden" name="gpus" value="0"' in text


async def test_kinds_tell_what_is_free_of_each(scene):
    await scene.submit(gpus="0.5", **ROOM)
    await scene.rest()
    assert [choice.label for choice in kinds(scene.house.cluster().rooms())] == ["A100-40GB: 1.5 of 2 free, simulated"]


def test_priority_is_offered_as_far_as_one_may_have_it():
    assert [choice.value for choice in priorities(False, "")] == ["", "-10"]
    assert [choice.value for choice in priorities(True, "7")] == ["10", "", "-10", "7"]


def test_presets_are_cards_that_lead_to_the_filled_form():
    (card,) = preset_cards({"big one": SubmitBody(gpus=4, command=["python", "x.py"], time="1d")})
    assert (card.href, card.command) == ("/new?preset=big+one", "python x.py")
    assert card.facts == ("4\N{NO-BREAK SPACE}GPUs", "1d")
    assert (gpus_asked("mig:1g.5gb"), gpus_asked(None)) == ("mig:1g.5gb", "")


def test_boxes_of_one_name_are_lines_of_one_field():
    assert joined([("mounts", "a"), ("name", "x"), ("mounts", "b")]) == {"mounts": "a\nb", "name": "x"}


async def test_an_admin_may_ask_for_a_high_priority(scene):
    admin = Caller(replace(ANN, role=Role.ADMIN), "full")
    assert "goes first" in (await page(context_of(scene), admin, Typed(), "")).body.decode()
    assert "goes first" not in (await page(context_of(scene), AS_ANN, Typed(), "")).body.decode()
