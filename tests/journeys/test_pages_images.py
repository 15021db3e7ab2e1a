"""Images in a real browser, on a real dockerd: chosen, fetched, swapped, made from a session, approved. What takes long says that it goes on."""
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.server import LiveServer
from test_containers import BROKEN, OTHER, broken_image, other_image

from daemons import RealDaemon
from docker_settings import docker_settings
from images import busybox_layer, image_tar
from registry import running_registry
from waits import wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = "fairy-test/hostile:1"
MARKUP = "<img src=x onerror=alert(1)>"
STATE = "document.querySelector('.state')?.textContent"


def hostile_image() -> bytes:
    """Whoever builds an image writes into it what they like."""
    return image_tar(HOSTILE, busybox_layer(), {"Env": [f"CUDA_VERSION={MARKUP}", "PATH=/bin"], "Labels": {"maintainer": MARKUP}})


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon):
    for archive in (other_image(), broken_image(), hostile_image()):
        docker_daemon.load(archive)
    folder = Path(tempfile.mkdtemp(prefix="fairy-pi-"))
    settings = docker_settings(docker_daemon.socket, allow="127.0.0.1*", pull=True)
    with LiveServer(folder, settings, ("--simulate", "2xA100-40GB"), engine="docker") as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def kim(live):
    return somebody(live, "kim")


def somebody(live, name: str):
    admin = live.client()
    admin.add_user({"name": name})
    return live.client(admin.create_token({"user": name})["token"])


def a_session(client, name: str, **more: object) -> str:
    client.submit({"name": name, "kind": "interactive", "gpus": "0", "cpus": 1, "memory": "256MiB", **more})
    return wait_for_state(client, name, "RUNNING")["name"]


@contextmanager
def hanging(daemon: RealDaemon):
    """Docker takes its time."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


async def test_a_session_is_started_from_a_version_that_one_picks(live, kim, page):
    await page.sign_in(kim.sign_in_link())
    await page.open(f"{live.url}/new?gpus=0.5&cpus=1&memory=256MiB&name=picked")
    await page.press(f"input[name=image][value='{OTHER}']")
    await page.until(f"document.getElementById('command-text').textContent.includes('--image {OTHER}')")
    await page.keep("images-launch")
    await page.press("form.launch .button.main")
    await page.until(f"location.pathname === '/sessions/picked' && {STATE} === 'Running'")
    assert kim.session("picked")["request"]["image"] == OTHER
    assert page.forbidden == []


async def test_one_whose_image_must_be_fetched_says_how_far_it_is(live, kim, page):
    with running_registry() as registry:
        await page.sign_in(kim.sign_in_link())
        await page.open(f"{live.url}/new?gpus=0&cpus=1&memory=256MiB&name=fetched&image={registry.name}")
        await page.until(f"document.getElementById('command-text').textContent.includes('{registry.name}')")
        await page.press("form.launch .button.main")
        await page.until(f"{STATE} === 'Starting'")
        await page.until("document.querySelector('.said progress') !== null")
        await page.shows(f"pulling {registry.name}")
        await page.keep("images-launch-fetches")
        registry.go_on.set()
        await page.until(f"{STATE} === 'Running'")


async def test_an_image_is_fetched_while_the_page_says_so(live, page):
    with running_registry() as registry:
        await page.sign_in(live.client().sign_in_link())
        await page.open(f"{live.url}/images")
        await page.see("document.querySelector('form[action=\"/images/pull\"] input').focus()")
        await page.type(registry.name)
        await page.enter()
        await page.shows(f"Fetching {registry.name}")
        await page.until("document.querySelector('.said progress') !== null")
        await page.keep("images-fetching")
        registry.go_on.set()
        await page.shows(f"{registry.name} is here.")
    await page.see("document.querySelector('form[action=\"/images/pull\"] input').value = ''; document.querySelector('form[action=\"/images/pull\"] input').focus()")
    await page.type(MARKUP)
    await page.enter()
    await page.shows("<img")
    assert await page.see("document.querySelectorAll('main img').length") == 0
    assert page.forbidden == page.dialogs == []


async def test_a_session_goes_on_in_another_image_and_back_when_that_one_does_not_start(live, kim, page):
    name = a_session(kim, "swaps")
    await page.sign_in(kim.sign_in_link())
    await page.open(f"{live.url}/sessions/{name}")
    await page.press("a[href$='/swap']")
    await page.press(f"button[name=image][value='{OTHER}']")
    await page.shows(f"It goes on with {OTHER}")
    await page.until(f"{STATE} === 'Running'")
    assert (kim.session(name)["request"]["image"], kim.session(name)["attempt"]) == (OTHER, 2)
    await page.keep("images-swapped")
    await page.open(f"{live.url}/sessions/{name}/swap")
    await page.keep("images-swap")
    assert await page.faults() == []
    await page.press(f"button[name=image][value='{BROKEN}']")
    await page.until("document.getElementById('history')?.innerText.includes('did not start')")
    await page.until(f"{STATE} === 'Running'")
    assert kim.session(name)["attempt"] > 2
    assert page.forbidden == []


async def test_what_is_in_a_session_becomes_an_image_that_an_admin_approves(live, kim, page, docker_daemon):
    lee, name = somebody(live, "lee"), a_session(kim, "makes")
    await page.sign_in(kim.sign_in_link())
    await page.open(f"{live.url}/sessions/{name}/commit")
    await page.see("document.querySelector('input[name=image]').value = 'kim/paged:1'")
    await page.keep("images-commit")
    assert await page.faults() == []
    with hanging(docker_daemon):
        await page.see("document.querySelector('form[action$=\"/commit\"]').requestSubmit()")
        await page.shows("Making image kim/paged:1…")
        await page.until("document.querySelector('#doing progress') !== null")
        await page.keep("images-commit-goes-on")
    await page.shows("Image kim/paged:1 is made")
    await page.shows("others can when an admin has approved it")
    await page.fresh()
    await page.sign_in(live.client().sign_in_link())
    await page.open(f"{live.url}/admin")
    await page.press("main a[href='/admin/images']")
    await page.shows("kim/paged:1")
    await page.keep("images-admin")
    assert await page.faults() == []
    await page.press("form[action='/admin/images/approve'] button")
    await page.until("document.querySelector('form[action=\"/admin/images/approve\"]') === null")
    await page.fresh()
    await page.sign_in(lee.sign_in_link())
    await page.open(f"{live.url}/new?image=kim/paged:1&gpus=0&cpus=1&memory=256MiB&name=uses")
    await page.press("form.launch .button.main")
    await page.until(f"location.pathname === '/sessions/uses' && {STATE} === 'Running'")
    assert page.forbidden == []


async def test_what_an_image_says_of_itself_is_only_shown(live, kim, page):
    await page.sign_in(live.client().sign_in_link())
    name = a_session(kim, "bystander")
    for path in ("/images", "/new", "/admin/images"):
        await page.open(f"{live.url}{path}")
        await page.shows(HOSTILE.rpartition(":")[0])
        assert await page.see("document.querySelectorAll('main img').length") == 0, path
    await page.keep("images-admin-all")
    await page.open(f"{live.url}/images")
    for across in (1280, 360):
        await page.wide(across)
        await page.until(f"document.documentElement.scrollWidth <= {across}")
        await page.keep(f"images-{across}")
        assert await page.faults() == []
    await page.fresh()
    await page.sign_in(kim.sign_in_link())
    await page.open(f"{live.url}/sessions/{name}/swap")
    await page.shows(HOSTILE)
    assert await page.see("document.querySelectorAll('main img').length") == 0
    assert page.forbidden == page.dialogs == []
