"""Apps of sessions in the browser, by the server as users start it, with its gateway. Sessions are processes of this machine."""
import json
import sys
from urllib.parse import urlsplit

import pytest
from apps_browser import SCRIPT, SETTINGS, Tab, ends
from bench.ports import free_port
from bench.server import LiveServer

from gpufairy.client.errors import Problem
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow  # a server with its gateway

HERE = SETTINGS.format(ports="18430-18479")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), HERE, ssh=True) as live:
        yield live


@pytest.fixture
def with_app(server):
    """A running session of that client's, with an app of its own at some port: the port."""
    def start(client, name: str) -> int:
        port = free_port()
        client.submit({"name": name, "gpus": "0", "command": [sys.executable, str(SCRIPT), str(port)]})
        wait_for_state(client, name, "RUNNING")
        until(lambda: client.open_app(name, f"port:{port}")["state"] == "ready", "the app to answer")
        return port

    return start


def test_fairy_open_prints_an_address_that_opens_the_app_once(server, fairy, with_app):
    port = with_app(fairy, "shown")
    done = server.fairy("open", "shown", f"port:{port}")
    assert (done.returncode, done.stderr) == (0, "")
    url = done.stdout.strip()
    tab = Tab(url)
    assert tab.first.status == 303
    seen = tab.get("/who", Cookie=f"fairy_page=secret; {tab.cookie}; own=1")
    assert seen.json == {"session": "shown", "cookie": "own=1", "host": urlsplit(url).netloc}
    assert Tab(url).first.status == 401
    assert json.loads(server.fairy("open", "shown", f"port:{port}", "--json").stdout)["state"] == "ready"
    assert server.fairy("open", "shown", "jupiter").returncode == 2
    assert server.fairy("open", "nosuch", "jupyter").returncode == 4
    for path in (server.data / "ssh" / "gateway.log", server.folder / "server.log", server.data / "apps.json", server.data / "ssh" / "apps.json"):
        assert urlsplit(url).query.partition("=")[2] not in path.read_text()
        assert tab.cookie.partition("=")[2] not in path.read_text()


def test_each_app_has_an_origin_of_its_own_and_lets_in_nobody_else(server, fairy, make_user, with_app):
    ann, bob = make_user("ann"), make_user("bob")
    hers, his = with_app(ann, "hers"), with_app(bob, "his")
    her_url, his_url = ann.open_app("hers", f"port:{hers}")["url"], bob.open_app("his", f"port:{his}")["url"]
    assert urlsplit(her_url).port != urlsplit(his_url).port
    assert urlsplit(ann.open_app("hers", f"port:{hers}")["url"]).port == urlsplit(her_url).port
    swapped = f"http://{urlsplit(his_url).netloc}/?{urlsplit(her_url).query}"
    assert Tab(swapped).first.status == 401
    assert Tab(her_url).first.status == 401  # shown at the wrong door, it is used up
    tab = Tab(his_url)
    assert tab.get("/who").json["session"] == "his"
    assert ask(f"http://{urlsplit(her_url).netloc}", "GET", "/who", headers={"Cookie": tab.cookie}).status == 401
    for client, name, status in ((bob, "hers", 404), (bob, "ann+hers", 404), (fairy, "ann+hers", 403)):
        with pytest.raises(Problem) as refused:
            client.open_app(name, f"port:{hers}")
        assert refused.value.status == status


async def test_a_sessions_sockets_end_with_it_and_its_origin_is_free_again(server, fairy, with_app):
    port = with_app(fairy, "ends")
    tab = Tab(fairy.open_app("ends", f"port:{port}")["url"])
    async with tab.socket("/echo") as ours:
        await ours.send_str("hello")
        assert await ours.receive_str() == "hello, said ends"
        fairy.stop("ends")
        await ends(ours)
    wait_for_state(fairy, "ends", "ENDED")
    with pytest.raises(Problem, match="ENDED"):
        fairy.open_app("ends", f"port:{port}")


async def test_whoever_is_shut_out_loses_every_socket_within_five_seconds(server, fairy, make_user, with_app):
    carl = make_user("carl")
    port = with_app(carl, "watched")
    tab = Tab(carl.open_app("watched", f"port:{port}")["url"])
    async with tab.socket("/echo") as ours:
        await ours.send_str("hello")
        await ours.receive_str()
        fairy.change_user("carl", {"disabled": True})
        await ends(ours)


async def test_whoever_came_by_a_token_is_out_within_five_seconds_of_its_end(server, fairy, make_user, with_app):
    dora = make_user("dora")
    port = with_app(dora, "lent")
    made = dora.create_token({"label": "lost"})
    by_lost, by_own = (Tab(client.open_app("lent", f"port:{port}")["url"]) for client in (server.client(made["token"]), dora))
    async with by_lost.socket("/echo") as ours:
        await ours.send_str("hello")
        await ours.receive_str()
        dora.revoke_token(made["id"])
        await ends(ours)
    assert (by_lost.get("/who").status, by_own.get("/who").status) == (401, 200)


def test_apps_without_end_are_refused_in_words(server, fairy, make_user):
    eli = make_user("eli")
    for name in ("one", "two", "three"):
        eli.submit({"name": name, "kind": "interactive", "gpus": "0"})
        wait_for_state(eli, name, "RUNNING")
    for name in ("one", "two"):
        for port in range(1, 9):
            eli.open_app(name, f"port:{port}")
        with pytest.raises(Problem, match=f"session {name} has 8 apps open"):
            eli.open_app(name, "port:9")
    with pytest.raises(Problem, match="eli has 16 apps open") as refused:
        eli.open_app("three", "port:1")
    assert "ssh -L" in refused.value.next_step
    assert eli.open_app("one", "port:8")["state"] == "starting"
    eli.stop("one")
    wait_for_state(eli, "one", "ENDED")
    assert eli.open_app("three", "port:1")["state"] == "starting"


async def test_a_restart_of_the_server_cuts_no_socket_and_signs_nobody_out(server, fairy, with_app):
    port = with_app(fairy, "stays")
    tab = Tab(fairy.open_app("stays", f"port:{port}")["url"])
    async with tab.socket("/echo") as ours:
        server.stop()
        await ours.send_str("alone")
        assert await ours.receive_str() == "alone, said stays"
        server.start()
        await ours.send_str("again")
        assert await ours.receive_str() == "again, said stays"

    def answers() -> bool:
        try:
            return tab.get("/who").status == 200
        except ConnectionError:
            return False

    until(answers, "the new gateway to listen")


def test_an_app_that_is_not_in_the_session_is_refused_with_how_to_get_it(server, fairy):
    fairy.submit({"name": "bare", "kind": "interactive", "gpus": "0", "env": {"PATH": "/usr/bin:/bin"}})
    wait_for_state(fairy, "bare", "RUNNING")
    done = server.fairy("open", "bare", "tensorboard")
    assert done.returncode == 3
    assert "looked for tensorboard" in done.stderr
    assert "pip install --user tensorboard" in done.stderr


def test_an_app_that_ends_at_once_is_told_in_its_own_words(server, fairy, tmp_path):
    (tmp_path / "tensorboard").write_text("#!/bin/sh\necho no such board >&2\nexit 1\n")
    (tmp_path / "tensorboard").chmod(0o755)
    fairy.submit({"name": "broken", "kind": "interactive", "gpus": "0", "env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}})
    wait_for_state(fairy, "broken", "RUNNING")
    with pytest.raises(Problem, match="no such board"):
        fairy.open_app("broken", "tensorboard")


def test_what_was_started_is_started_once_and_ends_with_the_session(server, fairy, tmp_path):
    script = "import http.server, os, sys; open('starts', 'a').write(f'{os.getpid()}\\n'); http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[-1]), bind='127.0.0.1')"
    (tmp_path / "tensorboard").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
    (tmp_path / "tensorboard").chmod(0o755)
    fairy.submit({"name": "once", "kind": "interactive", "gpus": "0", "env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}})
    wait_for_state(fairy, "once", "RUNNING")
    for _ in range(3):
        opened = fairy.open_app("once", "tensorboard")
    assert opened["state"] == "ready"
    assert Tab(opened["url"]).get("/starts").body.count(b"\n") == 1
    (pid,) = Tab(fairy.open_app("once", "tensorboard")["url"]).get("/starts").body.split()
    fairy.stop("once")
    wait_for_state(fairy, "once", "ENDED")
    until(lambda: not is_alive(int(pid)), "the app to end")


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_with_a_domain_every_app_has_a_host_name(tmp_path):
    settings = f"{HERE}domain = 'apps.lab.example'\nport = {free_port()}\n"
    with LiveServer(tmp_path / "fairy", settings, ssh=True) as live:
        client, port = live.client(), free_port()
        client.submit({"name": "web", "gpus": "0", "command": [sys.executable, str(SCRIPT), str(port)]})
        wait_for_state(client, "web", "RUNNING")
        until(lambda: client.open_app("web", f"port:{port}")["state"] == "ready", "the app to answer")
        url = client.open_app("web", f"port:{port}")["url"]
        me = client.me()["name"]
        assert urlsplit(url).hostname == f"web-{me}.apps.lab.example"
        here = f"http://127.0.0.1:{urlsplit(url).port}"
        assert Tab(url, here).get("/who").json["session"] == "web"
        second = client.open_app("web", "port:9")["url"]
        assert urlsplit(second).hostname == f"web-{me}-2.apps.lab.example"
        assert b"Nothing listens on port 9" in Tab(second, here).get("/").body


def test_without_a_gateway_nothing_is_opened_and_the_reason_is_told(tmp_path):
    with LiveServer(tmp_path / "fairy", HERE) as live:
        client = live.client()
        client.submit({"name": "lone", "kind": "interactive", "gpus": "0"})
        wait_for_state(client, "lone", "RUNNING")
        with pytest.raises(Problem, match="no gateway"):
            client.open_app("lone", "jupyter")
