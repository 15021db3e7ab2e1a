"""The admin's page of MIG: a plan is seen before it is done, and what is done is what was seen."""
import re

import pytest
from admin_browser import as_user, done_by_people
from cutter_scene import SMALL, UUID, FakeScissors, a_cut_node, a_cutter, profiles
from house_scene import a_house

pytestmark = pytest.mark.slow


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as found:
        await found.house.registry.ensure_user("ann")
        found.scissors = FakeScissors()
        found.cutter = a_cutter(found, tmp_path, found.scissors)
        yield found


@pytest.fixture
async def admin(scene):
    return await as_user(scene, cutter=scene.cutter)


def touched(page) -> str:
    return re.search(r'name="touched" value="([^"]*)"', page.text)[1]


async def test_the_cut_is_drawn_with_who_holds_what(scene, admin):
    await scene.submit(gpus="mig:1g.5gb")
    await scene.rest()
    page = await admin.get("/admin/mig")
    assert "1 GPU can be cut by MIG; 1 in MIG mode." in page.words
    assert page.text.count('class="idle') == 6
    assert "held by ann" in page.text


async def test_a_preview_names_what_would_go_and_touches_nothing(scene, admin):
    page = await admin.get(f"/admin/mig?gpu={UUID}&want=3g.20gb")
    assert "It fits, and 3 idle instances go for it." in page.words
    assert page.text.count('class="gone') == 3
    assert page.text.count('class="made') == 1
    assert profiles(scene) == [(one.profile, one.start) for one in SMALL]


async def test_what_was_seen_is_cut_and_the_event_says_by_whom(scene, admin):
    seen = touched(await admin.get(f"/admin/mig?gpu={UUID}&want=3g.20gb"))
    done = await admin.post("/admin/mig/apply", gpu=UUID, want="3g.20gb", touched=seen)
    assert done.status == 303
    assert "3g.20gb" in [profile for profile, _ in profiles(scene)]
    assert ("root", "mig_cut", "here GPU 0 (simulated)") in await done_by_people(scene)


async def test_a_gpu_that_changed_since_the_preview_is_not_cut(scene, admin):
    seen = touched(await admin.get(f"/admin/mig?gpu={UUID}&want=3g.20gb"))
    for _ in range(4):
        await scene.submit(gpus="mig:1g.5gb")
    await scene.rest()
    refused = await admin.post("/admin/mig/apply", gpu=UUID, want="3g.20gb", touched=f"{seen},7g.40gb@0")
    assert (refused.status, "has changed since the preview" in refused.text) == (409, True)
    assert scene.scissors.orders == []


async def test_what_does_not_fit_or_is_no_profile_is_said_beside_the_form(scene, admin):
    page = await admin.get(f"/admin/mig?gpu={UUID}&want=7g.40gb,1g.5gb")
    assert "It does not fit" in page.words
    assert 'action="/admin/mig/apply"' not in page.text
    wrong = await admin.get(f"/admin/mig?gpu={UUID}&want=huge")
    assert (wrong.status, "is no MIG profile" in wrong.text) == (400, True)


async def test_what_is_cut_so_already_needs_no_click(scene, admin):
    page = await admin.get(f"/admin/mig?gpu={UUID}&want=7x1g.5gb")
    assert "there is nothing to do" in page.words


async def test_a_gpu_is_told_to_follow_the_queue_and_no_longer(scene, admin):
    await admin.post("/admin/mig/auto", gpu=UUID)
    assert scene.house.cuts.is_auto(UUID)
    await admin.post("/admin/mig/fixed", gpu=UUID)
    assert not scene.house.cuts.is_auto(UUID)
    assert (await admin.post("/admin/mig/auto", gpu="GPU-nowhere")).status == 404


async def test_without_a_cutter_the_page_says_that_nothing_can_be_cut(scene):
    admin = await as_user(scene)
    assert "No GPU here can be cut by MIG" in (await admin.get("/admin/mig")).words
    assert (await admin.post("/admin/mig/apply", gpu=UUID, want="whole")).status == 404


