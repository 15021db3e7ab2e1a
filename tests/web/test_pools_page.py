"""The page of pools: what would be made is shown first, with its price, and one form makes it."""
import pytest
from admin_browser import as_user, done_by_people
from house_scene import a_house
from pool_cloud import FakeCloud

from gpufairy.core.errors import EngineRefused

pytestmark = pytest.mark.slow
ASKED = {"name": "train-gpu", "cloud": "karpenter", "cluster": "", "instance": "g5.xlarge", "min": "0", "max": "4"}
PLAN = "/admin/pools?name=train-gpu&cloud=karpenter&instance=g5.xlarge&min=0&max=4"


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
async def scene(tmp_path, cloud):
    async with a_house(tmp_path) as found:
        found.house.pools.clouds = cloud.opened
        yield found


@pytest.fixture
async def admin(scene):
    return await as_user(scene)


async def test_the_plan_is_shown_with_its_price_and_nothing_is_made(admin, cloud):
    page = await admin.get(PLAN)
    assert "What would be made for train-gpu" in page.words
    assert "$0.00 an hour at rest, $4.02 an hour at most (AWS, June)" in page.words
    assert (cloud.made, cloud.calls) == ({}, [])


async def test_a_pool_is_made_told_and_taken_away(scene, admin, cloud):
    assert "There is no pool yet." in (await admin.get("/admin/pools")).words
    await admin.post("/admin/pools/add", **ASKED)
    words = (await admin.get("/admin/pools")).words
    assert "1 pool." in words
    assert "0 of 4" in words
    assert "3 min, as a guess" in words
    await admin.post("/admin/pools/remove", name="train-gpu")
    assert cloud.made == {}
    assert [(what, name) for _, what, name in await done_by_people(scene)][-2:] == [("pool_added", "pool train-gpu"), ("pool_removed", "pool train-gpu")]


async def test_what_is_refused_stands_beside_the_form_with_what_was_typed(admin, cloud):
    page = await admin.get("/admin/pools?name=Train&cloud=karpenter&instance=g5.xlarge")
    assert (page.status, "is no name of a pool" in page.text) == (400, True)
    page = await admin.post("/admin/pools/add", **{**ASKED, "max": "many"})
    assert (page.status, "max: 'many' is no number of nodes" in page.text) == (400, True)
    cloud.errors = [EngineRefused("AWS said <b>no</b>", "Ask for rights.")]
    await admin.post("/admin/pools/add", **ASKED)
    page = await admin.get("/admin/pools")
    assert "AWS said <b>no</b> Ask for rights." in page.text
    assert b"<b>no</b>" not in page.body


async def test_without_a_cluster_the_page_says_what_pools_are_for(tmp_path):
    async with a_house(tmp_path) as scene:
        page = await (await as_user(scene)).get("/admin/pools")
        assert "servers started with --engine kubernetes" in page.words
