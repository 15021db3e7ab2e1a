"""The pages, on the server as people start it: asked by urllib as a browser would ask."""
import contextlib
import http.client
import os
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpufairy.client import Fairy

ROOT = Path(__file__).parents[2]
NASTY = "<script>alert(1)</script>"
POLICY_HEADER = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
FOR_STRANGERS = ("/", "/sessions/nothing", "/signin?code=wrong", "/signin")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True, slots=True)
class Site:
    url: str
    token: str
    link: str

    def ask(self, path, cookie="", method="GET", **headers):
        """One request; redirects are not followed."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            sent["Cookie"] = f"fairy_page={cookie}"
        request = urllib.request.Request(self.url + path, method=method, headers=sent, data=b"" if method == "POST" else None)
        try:
            with OPENER.open(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, refusal.headers, refusal.read().decode())

    def client(self, token=None):
        return Fairy(self.url, token or self.token)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(Stay, urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def running_site(folder, settings=""):
    (folder / "fairy.toml").write_text(settings)
    env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT / "src")}
    for name in ("FAIRY_URL", "FAIRY_TOKEN"):
        env.pop(name, None)
    where = ["--data", str(folder / "data"), "--port", "0", "--config", str(folder / "fairy.toml")]
    command = [sys.executable, "-m", "gpufairy", "up", *where]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        path = re.search(r"https?://[^/]+(/signin\?code=\S+)", lines[2])
        assert path, (lines, (folder / "server.log").read_text())
        signed_in = tomllib.loads((folder / "config" / "gpufairy" / "config.toml").read_text())
        port = re.search(r":(\d+)", lines[2])[1] if not settings else listening_port(process.pid)
        yield Site(f"http://127.0.0.1:{port}", signed_in["token"], path[1])
    finally:
        process.terminate()
        process.communicate(timeout=30)


def listening_port(pid):
    """Where it listens, when its URL says something else."""
    own = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return next(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own)


@pytest.fixture
def site(tmp_path):
    with running_site(tmp_path) as made:
        yield made


def cookie_of(answer):
    return re.match(r"fairy_page=([^;]*)", answer.headers["Set-Cookie"])[1].strip('"')


def signed_in(site):
    return cookie_of(site.ask(site.link))


def ended(fairy, name):
    session = fairy.session(name)
    while session["state"] != "ENDED":
        session = fairy.wait(name, session["revision"], 10)
    return session


def other_user(site, name="stranger"):
    with site.client() as fairy:
        fairy.add_user({"name": name})
        return fairy.create_token({"user": name})["token"]


def test_the_link_signs_in_once_and_leaves_a_cookie_that_no_script_and_no_other_site_can_use(site):
    first = site.ask(site.link)
    assert first.status == 303
    assert first.headers["Location"] == "/"
    flags = {part.strip().lower() for part in first.headers["Set-Cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={30 * 86400}"} == flags  # not Secure: this server speaks plain HTTP
    page = site.ask("/", cookie_of(first))
    assert page.status == 200
    assert "You hold nothing" in page.text
    second = site.ask(site.link)
    assert second.status == 401
    assert "Set-Cookie" not in second.headers
    assert "used before" in second.text
    assert "up -d" in second.text


def test_only_opening_the_link_uses_it_up(site):
    assert site.ask(site.link, method="HEAD").status == 405
    assert site.ask(site.link, method="POST").status == 405
    assert site.ask(site.link, Sec_Purpose="prefetch;prerender").status == 503
    assert site.ask(site.link, Purpose="prefetch").status == 503
    assert site.ask(site.link).status == 303


def test_a_server_reached_by_https_marks_its_cookie_secure(tmp_path):
    with running_site(tmp_path, '[server]\nurl = "https://gpu.example.org"\n') as site:
        assert "secure" in site.ask(site.link).headers["Set-Cookie"].lower()


def test_strangers_are_shown_how_to_sign_in_and_nothing_else(site):
    for path in ("/", "/sessions/nothing"):
        for cookie in ("", "fairy_wrong", site.token):
            answer = site.ask(path, cookie)
            assert answer.status == (403 if cookie == site.token else 401)
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "not signed in" in site.ask("/").text
    assert 'http-equiv="refresh" content="0"' in site.ask("/", Sec_Fetch_Site="cross-site").text
    assert "http-equiv" not in site.ask("/").text


def test_the_api_does_not_take_the_cookie_and_its_token_opens_nothing_there(site):
    cookie = signed_in(site)
    assert site.ask("/api/v1/me", cookie).status == 401
    assert site.ask("/api/v1/me", Authorization=f"Bearer {cookie}").status == 403
    assert site.ask("/api/v1/sessions", Authorization=f"Bearer {cookie}").status == 403
    assert site.ask("/api/v1/users", Authorization=f"Bearer {cookie}").status == 403


def test_nobody_is_given_a_page_token_by_the_api(site):
    body = b'{"scope": "page"}'
    request = urllib.request.Request(f"{site.url}/api/v1/tokens", data=body, headers={"Authorization": f"Bearer {site.token}"})
    with pytest.raises(urllib.error.HTTPError) as refusal, OPENER.open(request):
        pass
    with refusal.value:
        assert refusal.value.code == 400


def test_every_page_lets_a_browser_run_nothing(site):
    cookie = signed_in(site)
    look = re.search(r'href="(/static/look\.css\?v=[0-9a-f]+)"', site.ask("/", cookie).text)[1]
    asked = [site.ask(path) for path in (*FOR_STRANGERS, look)] + [site.ask(path, cookie) for path in FOR_STRANGERS]
    asked.append(site.ask("/signout", cookie, "POST"))
    for answer in asked:
        assert answer.headers["Content-Security-Policy"] == POLICY_HEADER
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "<script" not in answer.text
        assert " style=" not in answer.text
    assert "immutable" in site.ask(look).headers["Cache-Control"]
    assert site.ask(look).headers["Content-Type"].startswith("text/css")
    assert site.ask("/", cookie).headers["Cache-Control"] == "no-store"
    assert site.ask("/static/../pages.py").status == 404


def test_markup_and_control_characters_in_commands_and_logs_are_only_shown(site):
    says = f"echo '{NASTY}'; printf '\\033[31mred\\033[0m \\007bell \\342\\200\\256turned\\n10%%\\r100%%\\n'"
    with site.client() as fairy:
        fairy.submit({"name": "loud", "command": ["sh", "-c", says, f"{NASTY}\x1b]0;title\x07"], "gpus": "0"})
        ended(fairy, "loud")
    page = site.ask("/sessions/loud", signed_in(site)).text
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2  # in the command, and in the log
    log = page[page.index('<div class="log"') :]
    assert "red \\x07bell \\u202eturned\n100%\n" in log
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page)


def test_a_name_with_markup_is_refused_in_words_that_hold_no_markup(site):
    answer = site.ask("/sessions/%3Cscript%3Ealert(1)%3C%2Fscript%3E%00", signed_in(site))
    assert answer.status == 404
    assert "<script" not in answer.text


def test_the_first_page_says_what_i_hold_what_waits_and_why(site):
    with site.client() as fairy:
        fairy.submit({"name": "holds", "command": ["sleep", "600"], "gpus": "2", "time": "1h"})
        session = fairy.session("holds")
        while session["state"] != "RUNNING":
            session = fairy.wait("holds", session["revision"], 10)
        fairy.submit({"name": "waits", "command": ["true"], "gpus": "1"})
        fairy.submit({"name": "fails", "command": ["sh", "-c", "exit 3"], "gpus": "0"})
        ended(fairy, "fails")
        page = site.ask("/", signed_in(site)).text
        fairy.stop("holds")
        ended(fairy, "waits")
    assert "You hold 2 GPUs in 1 session. 1 session waits: the first about 1 h more." in page
    assert "0 whole GPUs free" in page
    assert "place 1 in line" in page
    assert "exit code 3" in page
    assert page.count('class="seg ') == 2
    assert page.count("simulated") >= 3


def test_others_sessions_are_not_there_for_me_even_where_i_am_admin(site):
    token = other_user(site)
    with site.client(token) as stranger:
        hidden = stranger.submit({"name": "hidden", "command": ["sleep", "600"], "gpus": "1"})
        session = stranger.session("hidden")
        while session["state"] != "RUNNING":
            session = stranger.wait("hidden", session["revision"], 10)
        cookie = signed_in(site)
        for name in ("hidden", "stranger+hidden", hidden["id"]):
            assert site.ask(f"/sessions/{name}", cookie).status == 404
        page = site.ask("/", cookie).text
        stranger.stop("hidden")
        ended(stranger, "hidden")
    assert "stranger holds 1 GPU" in page  # who holds GPUs is everybody's business
    assert "hidden" not in page


def test_the_session_page_tells_what_was_given_and_how_firmly(site):
    with site.client() as fairy:
        fairy.submit({"name": "half", "command": ["sh", "-c", "echo hello"], "gpus": "0.5", "env": {"SECRET": "canary-7"}})
        ended(fairy, "half")
    page = site.ask("/sessions/half", signed_in(site)).text
    for words in ("Done", "exit code 0", "20 GiB", "50 %", "only accounted", "simulated", "hello", "submitted", "SECRET"):
        assert words in page
    assert "canary-7" not in page
    assert "http-equiv" not in page  # it has ended, so it does not change


def test_of_a_long_log_the_end_is_shown_in_whole_lines(site):
    with site.client() as fairy:
        fairy.submit({"name": "long", "command": ["seq", "100000", "200000"], "gpus": "0"})
        ended(fairy, "long")
    page = site.ask("/sessions/long", signed_in(site)).text
    lines = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1].split()
    assert lines[-1] == "200000"
    assert all(len(line) == 6 for line in lines)
    assert 63 * 2**10 < 7 * len(lines) <= 64 * 2**10
    assert "stand before this" in page


def test_signing_out_ends_the_token_and_only_our_own_page_may_ask_for_it(site):
    cookie = signed_in(site)
    port = urlsplit(site.url).port
    for origin in ("https://evil.example", f"{site.url}.evil.example", f"http://127.0.0.1:{port}0", "null", site.url.upper()):
        assert site.ask("/signout", cookie, "POST", Origin=origin).status == 403
    assert site.ask("/signout", cookie, "POST").status == 403
    assert site.ask("/signout", cookie, "POST", Sec_Fetch_Site="same-site").status == 403
    assert site.ask("/signout", cookie).status == 405
    assert site.ask("/", cookie).status == 200
    out = site.ask("/signout", cookie, "POST", Origin=site.url)
    assert out.status == 303
    assert "max-age=0" in out.headers["Set-Cookie"].lower()
    assert site.ask("/", cookie).status == 401


def test_a_browser_is_among_my_tokens_and_can_be_shut_out_there(site):
    cookie = signed_in(site)
    with site.client() as fairy:
        mine = [token for token in fairy.tokens() if token["label"] == "browser"]
        assert [token["scope"] for token in mine] == ["page"]
        fairy.revoke_token(mine[0]["id"])
    assert site.ask("/", cookie).status == 401
