"""The pages of images where sessions are pods: nodes fetch, and without a registry no image is made."""
import pytest
from house_scene import ANN, a_house
from session_browser import a_browser

from gpufairy.control.registry import Caller
from gpufairy.core.image import ImageRules
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.engines.pod_shelf import NO_REGISTRY
from gpufairy.web.images_page import images
from gpufairy.web.pages import show

pytestmark = pytest.mark.slow

AS_ANN = Caller(ANN, "full")


class ClusterShelf(FakeShelf):
    fetches = False
    no_commits = NO_REGISTRY


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, shelf=ClusterShelf("ubuntu:24.04"), images=ImageRules("ubuntu:24.04")) as made:
        made.browser = await a_browser(made)
        made.session = await made.submit(name="work")
        await made.rest()
        yield made


async def test_nobody_is_offered_to_fetch_an_image(scene):
    seen = await images(scene.house, AS_ANN, [])
    text = show("images.html", user="ann", is_admin=False, refresh_s=5, images=seen, typed="", error=None, fairy="fairy").body.decode()
    assert not seen.may_pull
    assert "On the nodes, and made here" in text
    assert "On this machine" not in text
    assert "/images/pull" not in text
    assert seen.next_step == "Start a session from one; what you install into your home stays with every image."


async def test_the_page_to_make_an_image_says_that_none_can_be_made_and_what_to_do(scene):
    text = (await scene.browser.get("/sessions/work/commit")).text
    assert "No image can be made of a session here." in text
    assert "pip, conda and the like install into your home stays with every image" in text
    assert "It runs on meanwhile" in text
    refused = await scene.browser.post("/sessions/work/commit", image="ann/a:1")
    assert refused.status >= 400
    assert "this server has no registry" in refused.text


async def test_the_page_to_swap_says_what_is_lost(scene):
    text = (await scene.browser.get("/sessions/work/swap")).text
    assert "What was installed outside of your home is lost" in text
    assert "Images on the nodes, and made here" in text
