"""Images in a house on a cluster: the same rules as on one machine, with a shelf that fetches nothing and has names of its own."""
from dataclasses import replace

import pytest
from house_scene import ANN, a_house

from gpufairy.control.alter import swap_image
from gpufairy.control.commit import commit
from gpufairy.control.reclaim_stop import StopIdle
from gpufairy.control.registry import Caller
from gpufairy.core.errors import EngineRefused, NoSuchThing, NotAllowed
from gpufairy.core.image import Image, ImageRules, ImageState
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Role, User
from gpufairy.core.session import Request
from gpufairy.engines.node_images import NodeImages, images_told
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pod_shelf import PodShelf

AS_ANN = Caller(ANN, "full")
AS_BEA = Caller(User("bea", Role.USER, ANN.created_at), "full")
RULES = ImageRules("ubuntu:24.04", allow=("ubuntu:*", "*.*:5000/*"))
D1 = "sha256:" + "1" * 64


class ClusterShelf(PodShelf):
    """Of one node; what is committed is said to be in the registry, and no registry is asked."""

    def __init__(self, registry=""):
        seen = NodeImages()
        told = [{"names": ["docker.io/library/ubuntu:24.04"], "sizeBytes": 7}, {"names": ["docker.io/evil/miner:1"], "sizeBytes": 7}]
        seen.changed((), images_told({"images": told}))
        settings = PodSettings(registry=registry)
        super().__init__(None, settings, seen=seen, looks=None, commits=None, http=None, pod_of=lambda _: None)
        self.gone = False

    async def commit(self, workload, name):
        return Image(name, D1, 9)

    async def remove(self, name):
        self.gone = True

    async def run_once(self, name, argv):
        return b""

    async def made_here(self, made):
        return None if self.gone else Image(made.name, made.image_id, made.size_bytes)


@pytest.fixture
async def scene(tmp_path):
    shelf = ClusterShelf("registry.lab:5000/fairy")
    async with a_house(tmp_path, shelf=shelf, images=RULES) as found:
        found.shelf = shelf
        yield found


async def running(scene, **fields):
    session = await scene.submit(command=None, **fields)
    await scene.rest()
    return await scene.now(session)


async def test_an_image_that_is_not_offered_is_refused_on_a_cluster_too(scene):
    with pytest.raises(NotAllowed, match="evil/miner:1 is not one of those offered"):
        await scene.submit(image="docker.io/evil/miner:1")
    assert (await scene.submit(image="docker.io/library/ubuntu:24.04")).request.image == "ubuntu:24.04"


async def test_an_image_that_no_node_has_is_left_to_the_node_to_fetch(scene):
    assert (await scene.submit(image="ubuntu:26.04")).request.image == "ubuntu:26.04"


async def test_without_fetching_an_image_must_be_on_some_node(tmp_path):
    async with a_house(tmp_path, shelf=ClusterShelf(), images=replace(RULES, pull=False)) as scene:
        assert await scene.submit(image="ubuntu:24.04")
        with pytest.raises(NoSuchThing, match=r"ubuntu:26.04 is not on any node, as far as nodes tell"):
            await scene.submit(image="ubuntu:26.04")


async def test_what_is_made_here_is_started_by_its_digest_in_our_registry(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/tools:1")
    session = await running(scene, image="ann/tools:1", gpus="0")
    assert session.request.image == "ann/tools:1"
    assert scene.house.gallery.as_started(session, is_admin=False).request.image == f"registry.lab:5000/fairy/ann/tools:1@{D1}"


async def test_what_became_of_an_image_while_a_session_waited_is_looked_at_again_at_its_start(scene):
    gallery, session = scene.house.gallery, await running(scene)
    await commit(scene.house, AS_ANN, session, "ann/tools:1")
    of_bea = replace(session, owner="bea", request=replace(session.request, image="ann/tools:1"))
    await gallery.decide("ann/tools:1", ImageState.APPROVED, "root")
    assert gallery.as_started(of_bea, is_admin=False).request.image.endswith(D1)
    await commit(scene.house, AS_ANN, session, "ann/tools:1")
    with pytest.raises(EngineRefused, match="waits for an admin's approval"):
        gallery.as_started(of_bea, is_admin=False)
    await gallery.remove(AS_ANN, "ann/tools:1")
    with pytest.raises(EngineRefused, match="which was made here, is removed"):
        gallery.as_started(of_bea, is_admin=False)


@pytest.mark.parametrize("other", ["registry.lab:5000/fairy/ann/tools:1", "Registry.LAB:5000/fairy/ann/tools:1", f"registry.lab:5000/fairy/ann/tools:1@{D1}"])
async def test_nobody_comes_past_an_approval_by_the_registrys_own_name(scene, other):
    await commit(scene.house, AS_ANN, await running(scene), "ann/tools:1")
    with pytest.raises(NotAllowed, match="waits for an admin"):
        await scene.house.gallery.chosen(AS_BEA, Request(image=other), scene.house.nodes)
    await scene.house.gallery.decide("ann/tools:1", ImageState.APPROVED, "root")
    assert (await scene.house.gallery.chosen(AS_BEA, Request(image=other), scene.house.nodes)).image == "ann/tools:1"


@pytest.mark.parametrize("other", [f"registry.lab:5000/fairy/ann/tools@{D1}", "registry.lab:5000/fairy/gpufairy-kept:x-1", "registry.lab:5000/fairy/old:1"])
async def test_nothing_else_in_our_corner_of_the_registry_can_be_started(scene, other):
    await commit(scene.house, AS_ANN, await running(scene), "ann/tools:1")
    with pytest.raises(NoSuchThing, match="was made here"):
        await scene.house.gallery.chosen(AS_BEA, Request(image=other), scene.house.nodes)


async def test_what_is_made_here_is_listed_though_no_node_has_it(scene):
    await commit(scene.house, AS_ANN, await running(scene), "ann/tools:1")
    assert {offer.image.name for offer in await scene.house.gallery.offers(AS_ANN)} == {"ann/tools:1", "evil/miner:1", "ubuntu:24.04"}
    scene.shelf.gone = True
    assert "ann/tools:1" not in {offer.image.name for offer in await scene.house.gallery.offers(AS_ANN)}


async def test_nothing_is_fetched_beforehand_and_that_is_said(scene):
    scene.house.gallery.check_pull(AS_ANN, "ubuntu:26.04")
    with pytest.raises(EngineRefused, match=r"each node fetches ubuntu:26\.04 when a session starts there"):
        async for _ in scene.shelf.pull("ubuntu:26.04"):
            pass


async def test_a_swap_fetches_nothing_first_and_keeps_what_it_was(scene):
    session = await running(scene)
    await swap_image(scene.house, AS_ANN, session, "ubuntu:26.04")
    kept = (await scene.now(session)).swapped_from
    assert kept == f"gpufairy-kept/{session.id}:1"
    assert scene.shelf.started_as(kept, None) == f"registry.lab:5000/fairy/gpufairy-kept:{session.id}-1"


@pytest.fixture
async def without_registry(tmp_path):
    async with a_house(tmp_path, shelf=ClusterShelf(), images=RULES) as found:
        yield found


async def test_without_a_registry_a_swap_says_what_is_lost_and_goes_back_to_the_image_it_had(without_registry):
    scene = without_registry
    session = await running(scene)
    await swap_image(scene.house, AS_ANN, session, "ubuntu:26.04")
    now = await scene.now(session)
    assert now.swapped_from == "ubuntu:24.04"
    assert "what was installed outside of its home is not kept: this server has no registry" in now.why
    scene.containers.refuse_next.append("no such image")
    await scene.rest()
    after = await scene.now(session)
    assert (after.phase, after.request.image) == (Phase.RUNNING, "ubuntu:24.04")


async def test_without_a_registry_no_image_is_made_and_what_to_do_is_said(without_registry):
    session = await running(without_registry)
    with pytest.raises(EngineRefused, match="stays with every image") as refused:
        await commit(without_registry.house, AS_ANN, session, "ann/tools:1")
    assert "[kubernetes] registry" in str(refused.value)


async def test_an_idle_session_is_not_stopped_where_no_registry_could_keep_it(without_registry):
    session = await running(without_registry)
    refused = StopIdle(without_registry.house).refusal(session)
    assert refused.startswith("not stopped: what was installed outside of its home would be lost (this server has no registry to put an image in.")
