"""The page of images: what may be used, versions side by side, what is being fetched, what waits for an admin."""
from dataclasses import replace

import pytest
from house_scene import ANN, a_house

from gpufairy.control.commit import commit
from gpufairy.control.registry import Caller
from gpufairy.core.errors import Conflict, NotAllowed
from gpufairy.core.image import ImageRules
from gpufairy.core.people import Role
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.web.image_pulls import Pulls
from gpufairy.web.image_versions import repository_of
from gpufairy.web.images_page import images
from gpufairy.web.pages import show

AS_ANN, AS_ADMIN = Caller(ANN, "full"), Caller(replace(ANN, name="root", role=Role.ADMIN), "full")
RULES = ImageRules("ubuntu:24.04", allow=("ubuntu:*", "pytorch:*"))


@pytest.fixture
async def scene(tmp_path):
    shelf = FakeShelf("ubuntu:24.04", "pytorch:2.7", "pytorch:2.8", "secret:1", in_registry=("pytorch:2.9",))
    async with a_house(tmp_path, shelf=shelf, images=RULES) as found:
        yield found


def drawn(seen, is_admin=False):
    return show("images.html", user="ann", is_admin=is_admin, refresh_s=5, images=seen, typed="", error=None, fairy="fairy").body.decode()


async def test_versions_of_one_image_stand_side_by_side_and_what_is_not_for_me_says_why(scene):
    seen = await images(scene.house, AS_ANN, [])
    assert {one.name: [version.tag for version in one.versions] for one in seen.repositories}["pytorch"] == ["2.7", "2.8"]
    assert seen.answer.startswith("You may use 3 images; all here take 3.7")
    text = drawn(seen)
    assert "secret:1 is not one of those offered" in text
    assert 'href="/new?image=pytorch%3A2.8"' in text


async def test_what_was_made_from_a_session_waits_for_an_admin_who_decides_here(scene):
    session = await scene.submit(command=None, kind="interactive")
    await scene.rest()
    await commit(scene.house, AS_ANN, await scene.now(session), "ann/mine:1")
    for_admin, for_ann = await images(scene.house, AS_ADMIN, []), await images(scene.house, AS_ANN, [])
    assert [one.name for one in for_admin.waiting] == [one.name for one in for_ann.waiting] == ["ann/mine:1"]
    assert 'action="/admin/images/approve"' in drawn(for_admin, is_admin=True)
    assert 'action="/admin/images/approve"' not in drawn(for_ann)
    assert "wait" in for_admin.next_step


async def test_fetching_is_shown_as_it_goes_and_how_it_ended(scene):
    pulls = Pulls(scene.house)
    pulls.begin("pytorch:2.9", "ann")
    pulls.begin("pytorch:2.9", "ann")
    pulls.begin("nowhere:1", "ann")
    assert "Fetching pytorch:2.9" in drawn(await images(scene.house, AS_ANN, pulls.shown()))
    await pulls.settled()
    text = drawn(await images(scene.house, AS_ANN, pulls.shown()))
    assert "pytorch:2.9 is here." in text
    assert "no registry has it" in text
    assert (await images(scene.house, Caller(replace(ANN, name="bea"), "full"), pulls.shown())).pulls == ()


async def test_who_may_not_use_an_image_may_not_have_it_fetched(scene):
    with pytest.raises(NotAllowed):
        scene.house.gallery.check_pull(AS_ANN, "evil:1")
    session = await scene.submit(command=None, kind="interactive")
    await scene.rest()
    await commit(scene.house, AS_ANN, await scene.now(session), "ann/mine:1")
    with pytest.raises(Conflict, match="was made here"):
        scene.house.gallery.check_pull(AS_ANN, "ann/mine:1")


async def test_without_images_the_page_says_so_and_what_to_do(tmp_path):
    async with a_house(tmp_path) as scene:
        seen = await images(scene.house, AS_ANN, [])
    assert (seen.there, seen.may_pull) == (False, False)
    assert "--engine docker" in seen.next_step


def test_a_port_of_a_registry_is_no_tag():
    assert repository_of("host:5000/a/b:1") == ("host:5000/a/b", "1")
    assert repository_of("host:5000/a") == ("host:5000/a", "latest")
