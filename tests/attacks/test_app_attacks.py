"""A hostile app, opened in a real browser by somebody who is signed in to us in the same one: what its script tries, as its page."""
import json
import sys

import pytest
from apps_browser import SCRIPT, SETTINGS
from attacked import a_server
from bench.ports import free_port
from chromium import a_page
from intruders import sign_in

from raw_http import ask
from waits import until, wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

# Each is one attempt of the app's script; it says how it went. OURS is our origin, ID the session of the very user who looks at the app.
READS_COOKIES = "Promise.resolve(document.cookie)"
READS = "fetch('OURS{path}', {{credentials: 'include'}}).then(answer => answer.text()).catch(error => 'no: ' + error.name)"
SENDS = (
    "fetch('OURS{path}', {{method: '{method}', mode: 'no-cors', credentials: 'include', body: new URLSearchParams({{time: '1h', image: 'x'}})}})"
    ".then(answer => answer.type).catch(error => 'no: ' + error.name)"
)
OPENS_SOCKET = """new Promise(done => { const socket = new WebSocket('OURS/api/v1/sessions/ID/terminal'.replace('http', 'ws'));
    socket.onopen = () => done('open'); socket.onerror = () => done('no'); })"""
FRAMES = """new Promise(done => { const frame = document.createElement('iframe'); frame.src = 'OURS/'; document.body.append(frame);
    frame.onload = () => { try { done(String(frame.contentDocument && frame.contentDocument.body.innerText)); } catch (error) { done('no: ' + error.name); } }; })"""
OPENS_WINDOW = """new Promise(done => { const other = window.open('OURS/');
    setTimeout(() => { try { done(String(other && other.document.body.innerText)); } catch (error) { done('no: ' + error.name); } }, 1500); })"""
READS_STREAM = """new Promise(done => { const events = new EventSource('OURS/live', {withCredentials: true});
    events.onmessage = () => done('open'); events.onopen = () => done('open'); events.onerror = () => done('no'); })"""


@pytest.fixture(scope="module")
def server():
    with a_server(SETTINGS.format(ports="18820-18839")) as live:
        yield live


@pytest.fixture(scope="module")
def lured(server, make_user):
    """kim, who runs the app, and a browser cookie of mallory's, who wrote it."""
    kim, port = make_user("kim"), free_port()
    kim.submit({"name": "lure", "gpus": "0", "command": [sys.executable, str(SCRIPT), str(port)]})
    session = wait_for_state(kim, "lure", "RUNNING")
    until(lambda: kim.open_app("lure", f"port:{port}")["state"] == "ready", "the app to answer")
    return kim, session["id"], port, sign_in(server, make_user("mallory")._token)


async def test_no_script_of_an_app_reads_us_changes_us_or_opens_a_shell(server, lured):
    kim, session_id, port, _ = lured
    async with a_page() as page:
        await page.sign_in(kim.sign_in_link())
        await page.go(kim.open_app("lure", f"port:{port}")["url"])
        await page.until("document.body?.innerText.includes('\"session\"') || document.readyState === 'complete'")
        await page.go(f"{await page.see('location.origin')}/who")
        await page.until("document.body?.innerText.includes('lure')")

        async def tries(script: str) -> str:
            return str(await page.told(script.replace("OURS", server.url).replace("ID", session_id)))

        assert "fairy_page" not in (seen := await tries(READS_COOKIES)), seen
        assert "fairy_app" not in seen, seen
        assert "fairy" not in (await page.see("document.body.innerText")).lower().replace("fairy_session", "")
        for path in ("/", "/account", f"/sessions/{session_id}", "/api/v1/me", "/api/v1/tokens", "/static/live.js"):
            assert (await tries(READS.format(path=path))).startswith("no"), path
        for path in (f"/sessions/{session_id}/stop", f"/sessions/{session_id}/keep", "/signout", "/signout/everywhere", "/new"):
            await tries(SENDS.format(path=path, method="POST"))
        assert await tries(OPENS_SOCKET) == "no"
        assert await tries(READS_STREAM) == "no"
        framed = await tries(FRAMES)
        assert framed.startswith("no") or "kim" not in framed
        assert (await tries(OPENS_WINDOW)).startswith("no")
        await page.go(f"{server.url}/account")
        await page.shows("kim")
    assert kim.session("lure")["state"] == "RUNNING"
    assert [session["name"] for session in kim.sessions(ended=True)] == ["lure"]


async def test_no_cookie_that_an_app_sets_makes_its_user_somebody_else(server, lured):
    """Browsers keep one jar for all ports of a host: ours cannot be overwritten by a script, and of two nobody is believed."""
    kim, _, port, mallorys = lured
    async with a_page() as page:
        await page.sign_in(kim.sign_in_link())
        await page.go(kim.open_app("lure", f"port:{port}")["url"])
        await page.until("document.readyState === 'complete' && location.port !== ''")
        await page.see(f"document.cookie = 'fairy_page={mallorys}; path=/'")
        await page.open(f"{server.url}/account")
        assert "mallory" not in await page.see("document.body.innerText")
        await page.shows("kim")
        await page.go(kim.open_app("lure", f"port:{port}")["url"])
        await page.until(f"document.readyState === 'complete' && location.port !== '{server.port}'")
        await page.see(f"document.cookie = 'fairy_page={mallorys}; path=/account'")
        await page.open(f"{server.url}/account")
        assert "mallory" not in await page.see("document.body.innerText")


def test_of_two_sign_ins_in_one_request_none_counts(server, lured):
    own = sign_in(server, lured[0]._token)
    for cookie in (f"fairy_page={own}; fairy_page={lured[3]}", f"fairy_page={lured[3]}; fairy_page={own}", f"fairy_page=x;fairy_page={own}"):
        answer = ask(server.url, "GET", "/account", headers={"Cookie": cookie})
        assert answer.status == 401, json.dumps(answer.headers)
    assert ask(server.url, "GET", "/account", headers={"Cookie": f"other=1; fairy_page={own}; fairy_page={own}"}).status == 200
