"""Ways to sign in to the pages, and out of them everywhere; one's own keys and tokens."""
import json
from datetime import timedelta

import pytest
from admin_browser import AnyBrowser, as_user, cookies_of
from house_scene import a_house
from starlette.requests import Request

from gpufairy.control.passes import make_gateway_pass
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.core.people import Role
from gpufairy.web.hosts import host_of
from gpufairy.web.sign_in_tries import A_WHILE, MOST_WRONG

pytestmark = pytest.mark.slow

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@laptop"


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.ensure_user("ann")
        yield found


async def test_a_token_signs_a_browser_in_and_is_not_kept(scene):
    token, text = await scene.house.registry.create_token("ann", "laptop", "full", None)
    stranger = AnyBrowser(scene)
    page = await stranger.post("/signin", token=f"  {text}\n")
    assert (page.status, page.headers["location"]) == (303, "/")
    cookie = cookies_of(page)["fairy_page"]
    assert cookie != text
    assert (await AnyBrowser(scene, cookie).get("/account")).status == 200
    await scene.house.registry.revoke_token(token.id)
    assert (await AnyBrowser(scene, cookie).get("/account")).status == 200  # a browser of its own: listed, and ended there


async def test_a_browser_is_trusted_no_longer_than_the_token_it_came_with(scene):
    _, text = await scene.house.registry.create_token("ann", "short", "full", timedelta(hours=1))
    cookie = cookies_of(await AnyBrowser(scene).post("/signin", token=text))["fairy_page"]
    scene.clock.go_on(timedelta(minutes=61))
    assert (await AnyBrowser(scene, cookie).get("/account")).status == 401


@pytest.mark.parametrize("scope", ["metrics", PAGE_SCOPE])
async def test_a_token_for_something_else_signs_nobody_in(scene, scope):
    _, text = await scene.house.registry.create_token("ann", "other", scope, None)
    page = await AnyBrowser(scene).post("/signin", token=text)
    assert (page.status, "set-cookie" in page.headers) == (401, False)


async def test_wrong_tokens_are_counted_by_address_and_it_passes(scene):
    stranger = AnyBrowser(scene)
    _, right = await scene.house.registry.create_token("ann", "laptop", "full", None)
    for _ in range(MOST_WRONG):
        page = await stranger.post("/signin", token="fairy_wrong")
        assert (page.status, "not known, has expired or was revoked" in page.words) == (401, True)
    assert (await stranger.post("/signin", token=right)).status == 429
    scene.clock.go_on(A_WHILE)
    assert (await stranger.post("/signin", token=right)).status == 303


async def test_a_form_of_another_site_signs_nobody_in(scene):
    _, text = await scene.house.registry.create_token("ann", "laptop", "full", None)
    assert (await AnyBrowser(scene).post("/signin", origin="https://evil.example", token=text)).status == 403


async def test_whoever_was_turned_away_comes_back_to_where_they_were_going(scene):
    stranger = AnyBrowser(scene)
    wanted = await stranger.get("/queue?mine=1", accept="text/html,*/*")
    assert cookies_of(wanted)["fairy_next"] == "/queue?mine=1"
    _, text = await scene.house.registry.create_token("ann", "laptop", "full", None)
    for next_page, to in (("/queue?mine=1", "/queue?mine=1"), ("//evil.example", "/"), ("https://evil.example", "/")):
        headers = {"cookie": f"fairy_next={next_page}", "origin": "http://server:8420"}
        page = await stranger._ask("POST", "/signin", f"token={text}".encode(), headers)
        assert page.headers["location"] == to


async def test_whoever_pressed_a_button_after_their_sign_in_ended_comes_back_to_the_page_of_the_button(scene):
    stranger, page = AnyBrowser(scene), {"accept": "text/html", "origin": "http://server:8420"}
    for referer, back in (("http://server:8420/bookings?span=week", "/bookings?span=week"), ("http://evil.example/x", None), ("http://server:8420//evil", None)):
        turned_away = await stranger._ask("POST", "/bookings", b"", {**page, "referer": referer})
        assert (turned_away.status, cookies_of(turned_away).get("fairy_next")) == (401, back)


async def test_what_a_script_asks_for_is_no_page_to_come_back_to(scene):
    stranger = AnyBrowser(scene)
    for path in ("/sessions/held/log?from=0", "/sessions/held/readings", "/live"):
        assert "fairy_next" not in cookies_of(await stranger.get(path, accept="*/*"))


async def test_the_page_shows_the_very_command_for_an_ssh_key(scene):
    page = await AnyBrowser(scene, ssh_port=8422).get("/signin")
    assert (page.status, "ssh -p 8422 NAME@server signin" in page.text) == (200, True)
    assert "signin</code>" not in (await AnyBrowser(scene).get("/signin")).text


async def test_signing_out_everywhere_ends_every_browser_and_nothing_else(scene):
    first, second = await as_user(scene, "ann", Role.USER), await as_user(scene, "ann", Role.USER)
    other = await as_user(scene, "bea", Role.USER)
    _, text = await scene.house.registry.create_token("ann", "laptop", "full", None)
    assert (await first.post("/signout/everywhere", origin="https://evil.example")).status == 403
    assert (await first.post("/signout/everywhere")).status == 303
    assert [(await one.get("/account")).status for one in (first, second, other)] == [401, 401, 200]
    assert scene.house.registry.caller(text).user.name == "ann"


async def test_i_add_a_key_and_take_it_away_on_my_account(scene):
    ann = await as_user(scene, "ann", Role.USER)
    assert (await ann.post("/account/add-key", key=KEY)).status == 303
    key = scene.house.keyring.of("ann")[0]
    assert key.fingerprint in (await ann.get("/account")).text
    await ann.post("/account/remove-key", key=key.fingerprint)
    assert scene.house.keyring.of("ann") == []
    wrong = await ann.post("/account/add-key", key="-----BEGIN OPENSSH PRIVATE KEY-----")
    assert (wrong.status, "this is a private key" in wrong.text) == (400, True)


async def test_nobody_revokes_what_is_not_theirs(scene):
    ann = await as_user(scene, "ann", Role.USER)
    token, _ = await scene.house.registry.create_token((await scene.house.registry.ensure_user("bea")).name, "hers", "full", None)
    assert (await ann.post("/account/revoke", token=token.id)).status == 404
    assert scene.house.registry.token(token.id)


@pytest.mark.parametrize(
    ("url", "header", "shown"),
    [
        ("http://127.0.0.1:8420", "gpu01.lab:8420", "gpu01.lab"),
        ("https://gpu.lab.example", "gpu01.lab:8420", "gpu.lab.example"),
        ("http://127.0.0.1:8420", "x; rm -rf /", "127.0.0.1"),
        ("http://127.0.0.1:8420", "", "127.0.0.1"),
    ],
)
def test_commands_name_the_server_as_it_was_reached_and_never_what_a_shell_would_run(url, header, shown):
    request = Request({"type": "http", "headers": [(b"host", header.encode())]})
    assert host_of(request, url) == shown


async def test_the_gateway_gets_a_link_for_whoever_proved_their_key_and_nobody_else_does(scene):
    stranger = AnyBrowser(scene)

    async def asked(token: str, user: str):
        body = json.dumps({"user": user}).encode()
        return await stranger._ask("POST", "/api/v1/gateway/signin-links", body, {"authorization": f"Bearer {token}"})

    gateway = make_gateway_pass(b"secret")
    code = (await asked(gateway, "ann")).json()["url"].partition("code=")[2]
    assert stranger.links.use(code) == "ann"
    _, full = await scene.house.registry.create_token("ann", "laptop", "full", None)
    assert (await asked(full, "ann")).status == 403
    await scene.house.registry.change_user("ann", disabled=True)
    assert (await asked(gateway, "ann")).status == 403
