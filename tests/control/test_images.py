"""Images in a house: who may use which, swapping and committing. On the fake engine, with real loops and a real store."""
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import ANN, a_house

from gpufairy.control.alter import keep_longer, swap_image
from gpufairy.control.commit import commit
from gpufairy.control.expire import forget
from gpufairy.control.registry import Caller
from gpufairy.core import failpoints
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, NeverFits, NoSuchThing, NotAllowed, QuotaExceeded
from gpufairy.core.image import ImageRules, ImageState
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Role, User
from gpufairy.core.session import Request
from gpufairy.engines.fake_shelf import FakeShelf

AS_ANN = Caller(ANN, "full")
AS_BEA = Caller(User("bea", Role.USER, ANN.created_at), "full")
AS_ADMIN = Caller(User("root", Role.ADMIN, ANN.created_at), "full")
RULES = ImageRules("ubuntu:24.04", allow=("ubuntu:*", "pytorch:*"))


@pytest.fixture
async def scene(tmp_path):
    shelf = FakeShelf("ubuntu:24.04", "pytorch:2.7", in_registry=("pytorch:2.8",))
    async with a_house(tmp_path, shelf=shelf, images=RULES) as found:
        found.shelf = shelf
        shelf.printed = {"ubuntu:24.04": b"apt vim 9.0\n", "ann/apex:1": b"pip numpy 2.1\napt vim 9.0\nnot a package\npip \x1b[2J 1\n"}
        yield found


async def running(scene, **fields):
    session = await scene.submit(command=None, **fields)
    await scene.rest()
    return await scene.now(session)


async def test_without_a_word_the_default_image_is_meant(scene):
    assert (await scene.submit()).request.image == "ubuntu:24.04"


async def test_an_image_that_is_not_offered_is_refused_before_anything_is_written(scene):
    with pytest.raises(NotAllowed, match="evil/miner:latest is not one of those offered"):
        await scene.submit(image="evil/miner")
    assert len(scene.house.book) == 0


async def test_an_image_for_a_newer_cuda_than_the_drivers_is_refused_at_submit(tmp_path):
    async with a_house(tmp_path, shelf=FakeShelf("ubuntu:24.04", cuda="13.0"), images=RULES, driver_cuda="12.4") as scene:
        with pytest.raises(NeverFits, match=r"CUDA 13.0, and the driver takes up to 12.4"):
            await scene.submit()
        assert await scene.submit(gpus="0")


async def test_a_swap_keeps_name_and_seat_and_runs_the_new_image(scene):
    session = await running(scene)
    await swap_image(scene.house, AS_ANN, session, "pytorch:2.8")
    await scene.rest()
    after = await scene.now(session)
    assert (after.phase, after.name, after.seat, after.attempt) == (Phase.RUNNING, session.name, session.seat, 2)
    assert after.request.image == "pytorch:2.8"
    assert [name for _, name in scene.shelf.committed] == [f"gpufairy-kept/{session.id}:1"]


async def test_a_swap_to_an_image_that_does_not_start_goes_back_to_what_was_kept(scene):
    session = await running(scene)
    await swap_image(scene.house, AS_ANN, session, "pytorch:2.7")
    scene.containers.refuse_next.append("exec format error")
    await scene.rest()
    after = await scene.now(session)
    assert (after.phase, after.seat) == (Phase.RUNNING, session.seat)
    assert after.request.image.startswith("gpufairy-kept/")
    events = await scene.house.store.events.page(session_id=session.id, after=0, limit=50)
    assert any("exec format error" in event.why for event in events)


async def test_a_swap_to_an_image_that_cannot_be_had_changes_nothing(scene):
    session = await running(scene)
    with pytest.raises(EngineRefused, match="no registry has it"):
        await swap_image(scene.house, AS_ANN, session, "pytorch:9.9")
    assert await scene.now(session) == session


async def test_only_a_running_session_is_swapped(scene):
    session = await scene.submit(gpus="1", command=None)
    with pytest.raises(Conflict, match="PENDING"):
        await swap_image(scene.house, AS_ANN, session, "pytorch:2.7")


async def test_an_image_of_a_session_says_where_it_comes_from_and_waits_for_an_admin(scene):
    session = await running(scene)
    made = await commit(scene.house, AS_ANN, session, "ann/apex:1")
    assert made.packages == ("+ pip numpy 2.1",)
    assert (made.made_from, made.session_name, made.state, made.size_bytes) == ("ubuntu:24.04", session.name, ImageState.WAITING, 2 * 10**9)
    assert (await scene.submit(image="ann/apex:1", gpus="0")).request.image == "ann/apex:1"
    with pytest.raises(NotAllowed, match="waits for an admin"):
        scene.house.gallery.check_right(AS_BEA, "ann/apex:1")
    await scene.house.gallery.decide("ann/apex:1", ImageState.APPROVED, "root")
    scene.house.gallery.check_right(AS_BEA, "ann/apex:1")


async def test_what_was_decided_of_an_image_survives_a_restart(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    await scene.house.gallery.decide("ann/apex:1", ImageState.REFUSED, "root")
    await scene.house.gallery.load()
    assert scene.house.gallery.made("ann/apex:1").decided_by == "root"


async def test_nobody_writes_over_an_image_that_is_not_theirs(scene):
    session = await running(scene)
    with pytest.raises(BadInput, match="ann/"):
        await commit(scene.house, AS_ANN, session, "pytorch:2.7")
    await commit(scene.house, AS_ANN, session, "ann/apex:1")
    with pytest.raises(NotAllowed, match="made by ann"):
        await commit(scene.house, AS_BEA, session, "ann/apex:1")


async def test_an_image_is_known_by_all_ways_of_writing_its_name(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    for alias in ("docker.io/ann/apex:1", "index.docker.io/ann/apex:1"):
        with pytest.raises(NotAllowed, match="waits for an admin"):
            await scene.house.gallery.chosen(AS_BEA, Request(image=alias), scene.house.nodes)
    scene.shelf.there["ubuntu:alias"] = replace(scene.shelf.there["ann/apex:1"], name="ubuntu:alias")
    with pytest.raises(NotAllowed, match="waits for an admin"):
        await scene.house.gallery.chosen(AS_BEA, Request(image="ubuntu:alias"), scene.house.nodes)


async def test_an_image_that_was_replaced_is_not_the_one_that_was_approved(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    await scene.house.gallery.decide("ann/apex:1", ImageState.APPROVED, "root")
    scene.shelf.there["ann/apex:1"] = replace(scene.shelf.there["ann/apex:1"], id="sha256:strangers")
    with pytest.raises(Conflict, match="no longer the one"):
        await scene.house.gallery.chosen(AS_BEA, Request(image="ann/apex:1"), scene.house.nodes)


async def test_an_image_whose_making_was_cut_short_is_its_makers_alone_and_can_be_made_again(tmp_path, monkeypatch):
    """A server that dies between the engine's answer and its own note of it: else the image would be open to all, and its name taken."""
    def dies(point):
        if point == "after_image_made_before_noted":
            raise KeyError(point)

    async with a_house(tmp_path, shelf=FakeShelf("ubuntu:24.04"), images=ImageRules("ubuntu:24.04")) as scene:
        session = await running(scene)
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "on_pass", dies)
            with pytest.raises(KeyError):
                await commit(scene.house, AS_ANN, session, "ann/apex:1")
        await scene.house.gallery.load()  # the next server
        with pytest.raises(NotAllowed, match="waits for an admin"):
            scene.house.gallery.check_right(AS_BEA, "ann/apex:1")
        for caller in (AS_ANN, AS_ADMIN):
            with pytest.raises(Conflict, match="no longer the one"):
                await scene.house.gallery.chosen(caller, Request(image="ann/apex:1"), scene.house.nodes)
        assert (await commit(scene.house, AS_ANN, session, "ann/apex:1")).image_id == "sha256:ann/apex:1"


async def test_an_image_that_could_not_be_made_leaves_its_name_free(scene):
    scene.shelf.refuse = "no room"
    with pytest.raises(EngineRefused, match="no room"):
        await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    assert scene.house.gallery.made_named("ann/apex:1") is None
    await scene.house.gallery.load()
    assert scene.house.gallery.made_named("ann/apex:1") is None


async def test_what_is_kept_for_a_swap_is_nobodys_to_use_and_goes_when_it_is_no_longer_wanted(scene):
    session = await running(scene)
    await swap_image(scene.house, AS_ANN, session, "pytorch:2.7")
    await scene.rest()
    kept = f"gpufairy-kept/{session.id}:1"
    with pytest.raises(NotAllowed, match="kept for a session"):
        await scene.submit(image=kept)
    await forget(scene.house)
    assert kept in scene.shelf.there
    await scene.later(timedelta(seconds=30))
    await forget(scene.house)
    assert kept not in scene.shelf.there


async def test_no_image_is_made_over_one_that_came_from_elsewhere(scene):
    scene.shelf.there["ann/base:1"] = scene.shelf.there["ubuntu:24.04"]
    with pytest.raises(Conflict, match="already"):
        await commit(scene.house, AS_ANN, await running(scene), "ann/base:1")


async def test_others_images_are_not_even_listed_before_they_are_let_in(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    assert "ann/apex:1" not in {offer.image.name for offer in await scene.house.gallery.offers(AS_BEA)}
    assert "ann/apex:1" in {offer.image.name for offer in await scene.house.gallery.offers(AS_ANN)}


async def test_without_fetching_a_missing_image_is_told_at_submit_with_the_nearest(tmp_path):
    async with a_house(tmp_path, shelf=FakeShelf("lab/debian:12"), images=ImageRules("lab/debian:12", pull=False)) as scene:
        with pytest.raises(NoSuchThing, match="did you mean lab/debian:12"):
            await scene.submit(image="lab/debain:12")


async def test_images_have_a_quota_for_each_user(tmp_path):
    rules = ImageRules("ubuntu:24.04", commit_quota_bytes=2 * 10**9)
    async with a_house(tmp_path, shelf=FakeShelf("ubuntu:24.04"), images=rules) as scene:
        session = await running(scene)
        await commit(scene.house, AS_ANN, session, "ann/one:1")
        with pytest.raises(QuotaExceeded, match="ann's images hold"):
            await commit(scene.house, AS_ANN, session, "ann/two:1")


async def test_an_image_is_removed_by_its_maker_or_an_admin_alone(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/apex:1")
    with pytest.raises(NotAllowed):
        await scene.house.gallery.remove(AS_BEA, "ann/apex:1")
    with pytest.raises(NotAllowed):
        await scene.house.gallery.remove(AS_ANN, "ubuntu:24.04")
    await scene.house.gallery.remove(AS_ANN, "ann/apex:1")
    assert "ann/apex:1" not in scene.shelf.there


async def test_the_list_says_what_may_be_used_and_hides_what_was_kept_for_a_swap(scene):
    scene.shelf.there |= {name: scene.shelf.there["ubuntu:24.04"].__class__(name, "x", 1) for name in ("evil:1", "gpufairy-kept/ann.x:1")}
    offers = {offer.image.name: offer.refusal for offer in await scene.house.gallery.offers(AS_ANN)}
    assert offers["pytorch:2.7"] is None
    assert "not one of those offered" in offers["evil:1"]
    assert "gpufairy-kept/ann.x:1" not in offers


async def test_keeping_puts_the_end_off_and_never_nearer(scene):
    session = await running(scene, time="1h")
    end = session.expected_end
    kept = await keep_longer(scene.house, AS_ANN, session, timedelta(hours=3))
    assert kept.expected_end == scene.clock() + timedelta(hours=3)
    assert (await keep_longer(scene.house, AS_ANN, session, timedelta(minutes=1))).expected_end == kept.expected_end
    await scene.later(end - scene.clock() + timedelta(minutes=1))
    assert (await scene.now(session)).phase is Phase.RUNNING
    await scene.later(timedelta(hours=3))
    assert (await scene.now(session)).phase is Phase.ENDED


async def test_nobody_keeps_a_session_for_ever(scene):
    with pytest.raises(BadInput, match="more than 1 d"):
        await keep_longer(scene.house, AS_ANN, await running(scene, time="1h"), timedelta(days=2))
