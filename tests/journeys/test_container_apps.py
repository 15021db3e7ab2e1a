"""Apps in containers: JupyterLab and MLflow from /shared, in an image that has never heard of Python; reached as a browser reaches them."""
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from apps_browser import Tab
from apps_env import apps_environment
from bench.server import LiveServer
from chromium import a_page
from notebook import run_cell

from daemons import RealDaemon
from gpufairy.main.envs import write_programs
from images import BUSYBOX_IMAGE
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = "[images]\ndefault = '{image}'\npull = false\n[docker]\nsocket = '{socket}'\n[node]\ncpus = 8\nmemory = '16GiB'\n[apps]\nports = '18500-18509'\n"


def as_if_installed(shared: Path, name: str) -> None:
    """What `fairy env add` makes, from packages that are on this machine already."""
    made, have = shared / "envs" / name, apps_environment().parent
    site = made / "site"
    shutil.copytree(have / "lib" / f"python3.{sys.version_info.minor}" / "site-packages", site, copy_function=shutil.os.link)
    for folder in ("share", "etc"):
        shutil.copytree(have / folder, site / folder, dirs_exist_ok=True)
    write_programs(made, name)


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon):
    apps_environment()
    folder = Path(tempfile.mkdtemp(prefix="fairy-ca-", dir=apps_environment().parents[1]))  # one file system: packages are linked
    with LiveServer(folder, SETTINGS.format(image=BUSYBOX_IMAGE, socket=docker_daemon.socket), ("--simulate", "none"), engine="docker", ssh=True) as started:
        for name in ("jupyter", "mlflow"):
            as_if_installed(started.data / "shared", name)
        with started.client() as client:
            client.submit({"name": "lab", "kind": "interactive", "memory": "4GiB", "cpus": 2})
            wait_for_state(client, "lab", "RUNNING")
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def opened(live, app: str):
    with live.client() as client:
        return until(lambda: (found := client.open_app("lab", app))["state"] == "ready" and found, f"{app} to answer", limit_s=90)


async def test_jupyterlab_of_all_runs_a_cell_in_an_image_without_python(live):
    code = "import os; print(os.environ['FAIRY_SESSION'], os.getuid(), 6 * 7)"
    assert await run_cell(Tab(opened(live, "jupyter")["url"]), code) == "lab 20000 42\n"


def test_mlflow_of_all_answers_there_too(live):
    tab = Tab(opened(live, "mlflow")["url"])
    found = tab.send("POST", "/api/2.0/mlflow/experiments/search", {"max_results": 5})
    assert (found.status, [one["name"] for one in found.json["experiments"]]) == (200, ["Default"])


async def test_the_button_on_the_page_opens_jupyterlab_in_the_browser(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.open(f"{live.url}/sessions/lab")
        await page.until("document.querySelector('form[action$=\"/apps/jupyter\"] button') !== null")
        await page.see("form = document.querySelector('form[action$=\"/apps/jupyter\"]'); form.target = ''; form.submit()")
        await page.until("document.querySelector('.jp-Launcher') !== null && document.title.includes('JupyterLab')")
        await page.wide(1280)
        await page.keep("jupyterlab")
        assert await page.see("location.port") != str(live.port)  # an origin of its own
        assert "fairy_page" not in await page.see("document.cookie")
