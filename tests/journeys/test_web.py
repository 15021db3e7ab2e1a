"""The pages, on the server as people start it: asked as a browser would ask."""
import re
from urllib.parse import urlsplit

import pytest
from bench.server import LiveServer

from gpufairy.web.sign_in import signed_in
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow  # servers of their own

NASTY = "<script>alert(1)</script>"
POLICY_HEADER = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
OWN_SCRIPT = re.compile(r'<script defer src="/static/[a-z-]+\.js\?v=[0-9a-f]{12}"></script>')
FOR_ANYBODY = ("/", "/sessions/nothing", "/signin?code=wrong", "/signin")


@pytest.fixture
def fresh(tmp_path):
    """A server whose link nobody has opened."""
    with LiveServer(tmp_path / "fairy") as live:
        yield live


@pytest.fixture(scope="module")
def cookie(server):
    return cookie_of(get(server, link_of(server)))


def link_of(server):
    """The path of the first address that `fairy up` prints."""
    link = urlsplit(re.search(r"http\S+", server.banner)[0])
    return f"{link.path}?{link.query}"


def get(server, path, cookie="", method="GET", **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(server.url, method, path, headers={**sent, **({"Cookie": f"fairy_page={cookie}"} if cookie else {})})


def text(server, path, cookie="", **headers):
    return get(server, path, cookie, **headers).body.decode().replace("\N{NO-BREAK SPACE}", " ")


def without_ours(page):
    return OWN_SCRIPT.sub("", page)


def cookie_of(answer):
    return re.match(r"fairy_page=([^;]+)", answer.headers["set-cookie"])[1]


def test_the_link_signs_in_once_and_leaves_a_cookie_that_no_script_and_no_other_site_can_use(fresh):
    first = get(fresh, link_of(fresh))
    assert (first.status, first.headers["location"]) == (303, "/")
    flags = {part.strip().lower() for part in first.headers["set-cookie"].split(";")[1:]}
    assert flags == {"httponly", "samesite=strict", "path=/", f"max-age={30 * 86400}"}  # not Secure: this server speaks plain HTTP
    page = text(fresh, "/", cookie_of(first))
    assert "You hold nothing, and nothing of yours waits." in page
    assert "fairy run --gpus 0.5" in page
    second = get(fresh, link_of(fresh))
    assert second.status == 401
    assert "set-cookie" not in second.headers
    assert b"used before" in second.body
    assert b"fairy web" in second.body


def test_only_opening_the_link_uses_it_up(fresh):
    link = link_of(fresh)
    assert get(fresh, link, method="HEAD").status == 405
    assert get(fresh, link, method="POST").status == 403
    assert get(fresh, link, Sec_Purpose="prefetch;prerender").status == 503
    assert get(fresh, link, Purpose="prefetch").status == 503
    assert get(fresh, link).status == 303


class OneToken:
    async def create_token(self, *_):
        return None, "fairy_x"


@pytest.mark.parametrize(("url", "secure"), [("https://gpu.example.org", True), ("http://gpu01:8420", False)])
async def test_the_cookie_is_secure_where_the_server_is_reached_by_https(url, secure):
    answer = await signed_in(OneToken(), "ann", url)
    assert ("secure" in answer.headers["set-cookie"].lower()) is secure


def test_strangers_are_shown_how_to_sign_in_and_nothing_else(server):
    for path in ("/", "/sessions/nothing"):
        for sent in ("", "fairy_wrong", "x" * 5000, server.token):
            answer = get(server, path, sent)
            assert answer.status == (403 if sent == server.token else 401)  # a token for the API opens no page
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "You are not signed in." in text(server, "/")


def test_a_browser_that_keeps_the_cookie_back_on_a_link_from_elsewhere_is_asked_once_more(server):
    assert 'http-equiv="refresh" content="0"' in text(server, "/", Sec_Fetch_Site="cross-site")
    assert "http-equiv" not in text(server, "/", Sec_Fetch_Site="same-origin")


def test_the_api_does_not_take_the_cookie_and_its_token_opens_nothing_there(server, cookie):
    assert get(server, "/api/v1/me", cookie).status == 401
    for path in ("/api/v1/me", "/api/v1/sessions", "/api/v1/users", "/api/v1/tokens"):
        assert ask(server.url, "GET", path, token=cookie).status == 403


def test_nobody_is_given_a_page_token_by_the_api(server):
    assert ask(server.url, "POST", "/api/v1/tokens", token=server.token, body={"scope": "page"}).status == 400


def test_every_page_lets_a_browser_run_our_own_files_alone(server, cookie):
    look = re.search(r'href="(/static/look\.css\?v=[0-9a-f]+)"', text(server, "/", cookie))[1]
    asked = [get(server, path) for path in (*FOR_ANYBODY, look)] + [get(server, path, cookie) for path in FOR_ANYBODY]
    asked.append(get(server, "/signout", cookie, "POST"))
    for answer in asked:
        assert answer.headers["content-security-policy"] == POLICY_HEADER
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in without_ours(answer.body.decode())
        assert b" style=" not in answer.body
        assert not re.search(rb" on[a-z]+=", answer.body)
    assert get(server, "/", cookie).headers["cache-control"] == "no-store"


def test_files_of_pages_are_kept_long_and_there_are_no_others(server):
    answer = get(server, "/static/look.css")
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    for path in ("/static/../pages.py", "/static/%2e%2e/pages.py", "/static/", "/static/look.css/x"):
        assert get(server, path).status == 404


def test_markup_and_control_characters_in_commands_and_logs_are_only_shown(server, fairy, cookie):
    says = f"echo '{NASTY}'; printf '\\033[31mred\\033[0m \\007bell \\342\\200\\256turned\\n10%%\\r100%%\\n'"
    fairy.submit({"name": "loud", "command": ["sh", "-c", says, f"{NASTY}\x1b]0;title\x07"], "gpus": "0"})
    wait_for_state(fairy, "loud", "ENDED")
    page = text(server, "/sessions/loud", cookie)
    assert "<script" not in without_ours(page)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2  # in the command, and in the log
    assert "red \\x07bell \\u202eturned\n100%\n" in page[page.index('<div class="log"') :]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page)


def test_a_name_with_markup_is_refused_in_words_that_hold_no_markup(server, cookie):
    answer = get(server, "/sessions/%3Cscript%3Ealert(1)%00%22'", cookie)
    assert answer.status == 404
    assert "<script" not in without_ours(answer.body.decode())
    assert b"&lt;script" in answer.body


def test_the_first_page_says_what_i_hold_what_waits_and_why(server, fairy, cookie):
    room = {"cpus": 1, "memory": "1GiB"}
    fairy.submit({"name": "holds", "command": ["sleep", "600"], "gpus": "2", "time": "1h", **room})
    wait_for_state(fairy, "holds", "RUNNING")
    fairy.submit({"name": "waits", "command": ["true"], "gpus": "1", **room})
    fairy.submit({"name": "fails", "command": ["sh", "-c", "exit 3"], "gpus": "0", **room})
    wait_for_state(fairy, "fails", "ENDED")
    says = "You hold 2 GPUs in 1 session. 1 session waits: the first about 1 h more."
    page = until(lambda: says in (seen := text(server, "/", cookie)) and seen, says)  # the line is looked at once a second
    fairy.stop("holds")
    wait_for_state(fairy, "waits", "ENDED")
    assert "0 of 2 GPUs wholly free" in page
    assert "place 1 in line" in page
    assert "exit code 3" in page
    assert page.count('class="seg ') == 2
    assert "simulated" in page


def test_others_sessions_are_not_there_for_me_even_where_i_am_admin(server, make_user, cookie):
    stranger = make_user("stranger")
    hidden = stranger.submit({"name": "hidden", "command": ["sleep", "600"], "gpus": "1"})
    wait_for_state(stranger, "hidden", "RUNNING")
    for name in ("hidden", "stranger+hidden", hidden["id"]):
        assert get(server, f"/sessions/{name}", cookie).status == 404
    page = text(server, "/", cookie)
    stranger.stop("hidden")
    wait_for_state(stranger, "hidden", "ENDED")
    assert "stranger holds 1 GPU" in page  # who holds GPUs is everybody's business
    assert "hidden" not in re.sub(r'aria-hidden="true"|type="hidden"', "", page)


def test_the_session_page_tells_what_was_given_and_how_firmly(server, fairy, cookie):
    fairy.submit({"name": "half", "command": ["sh", "-c", "echo hello"], "gpus": "0.5", "env": {"SECRET": "canary-7"}})
    wait_for_state(fairy, "half", "ENDED")
    page = text(server, "/sessions/half", cookie)
    for words in ("Done", "exit code 0", "20 GiB", "50 %", "only accounted", "simulated", "hello", "submitted", "SECRET"):
        assert words in page
    assert "canary-7" not in page
    assert "http-equiv" not in page  # it has ended, so it does not change


def test_of_a_long_log_the_end_is_shown_in_whole_lines(server, fairy, cookie):
    fairy.submit({"name": "long", "command": ["seq", "100000", "200000"], "gpus": "0"})
    wait_for_state(fairy, "long", "ENDED")
    page = text(server, "/sessions/long", cookie)
    lines = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1].split()
    assert lines[-1] == "200000"
    assert all(len(line) == 6 for line in lines)
    assert 63 * 2**10 < 7 * len(lines) <= 64 * 2**10
    assert "The end alone" in page


def test_signing_out_ends_the_token_and_only_our_own_page_may_ask_for_it(fresh):
    cookie = cookie_of(get(fresh, link_of(fresh)))
    for origin in ("https://evil.example", f"{fresh.url}.evil.example", f"{fresh.url}0", "null", fresh.url.upper()):
        assert get(fresh, "/signout", cookie, "POST", Origin=origin).status == 403
    assert get(fresh, "/signout", cookie, "POST").status == 403
    assert get(fresh, "/signout", cookie, "POST", Sec_Fetch_Site="same-site").status == 403
    assert get(fresh, "/signout", cookie).status == 405
    assert get(fresh, "/", cookie).status == 200
    out = get(fresh, "/signout", cookie, "POST", Origin=fresh.url)
    assert out.status == 303
    assert "max-age=0" in out.headers["set-cookie"].lower()
    assert get(fresh, "/", cookie).status == 401


def test_a_browser_is_among_my_tokens_and_can_be_shut_out_there(fresh):
    cookie = cookie_of(get(fresh, link_of(fresh)))
    fairy = fresh.client()
    browsers = [token for token in fairy.tokens() if token["label"] == "browser"]
    assert [token["scope"] for token in browsers] == ["page"]
    fairy.revoke_token(browsers[0]["id"])
    assert get(fresh, "/", cookie).status == 401
