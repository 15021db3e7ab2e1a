"""Every route, socket and page that the policy names, asked over the wire by everybody who must not get in."""
import pytest
from intruders import GUARDED, PAGES, come, says_why, sign_in, socket_by_cookie

from gpufairy.api.policy import WEBSOCKET, Who
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

RUBBISH = ("fairy_wrong", "fairyp_x.1.y")
MORE_RUBBISH = ("fairyg_", "x" * 5000, "fairy_\xff\xfe", "' or 1=1 --", "fairyp_", "fairyp_x.99999999999.y", "fairyp_x.\xb2.y")


def refused_everywhere(server, secret, status, routes=GUARDED):
    for route in routes:
        answer = come(server, route, secret)
        assert answer.status == status, (route, answer.status, answer.body[:200])
        assert says_why(answer), (route, answer.headers, answer.body[:200])


@pytest.fixture(scope="module")
def browser_of_admin(server):
    return sign_in(server, server.token)


@pytest.mark.parametrize("secret", RUBBISH, ids=range(len(RUBBISH)))
def test_nobody_gets_in_with_rubbish(server, secret):
    refused_everywhere(server, secret, 401)


@pytest.mark.parametrize("secret", MORE_RUBBISH, ids=range(len(MORE_RUBBISH)))
def test_no_rubbish_is_odd_enough(server, secret):
    one_of_each = {route.who: route for route in GUARDED}.values()
    refused_everywhere(server, secret, 401, one_of_each)


def test_nobody_gets_in_with_nothing(server):
    without_sockets = [route for route in GUARDED if route.method != WEBSOCKET]
    refused_everywhere(server, None, 401, without_sockets)
    for route in [route for route in GUARDED if route.method == WEBSOCKET]:
        assert come(server, route, None).status == 403  # a page must say that it is ours before it is asked who it is
        assert socket_by_cookie(server, route.filled, None).status == 401


def test_a_revoked_an_expired_and_a_disabled_users_token_open_nothing_by_bearer_and_by_cookie(server, fairy, make_user):
    revoked, expiring = fairy.create_token({"label": "revoked"}), fairy.create_token({"expires": "3s"})
    make_user("dora")
    disabled = fairy.create_token({"user": "dora"})["token"]
    secrets = [(made, sign_in(server, made)) for made in (revoked["token"], expiring["token"], disabled)]
    by_page = next(token["id"] for token in fairy.tokens() if token["label"] == "browser")
    fairy.revoke_token(revoked["id"])
    for token in [token["id"] for token in fairy.tokens() if token["scope"] == "page"]:
        fairy.revoke_token(token)
    assert by_page
    fairy.change_user("dora", {"disabled": True})
    until(lambda: ask(server.url, "GET", "/api/v1/me", token=expiring["token"]).status == 401, "the token to expire")
    for bearer, cookie in secrets:
        for route in GUARDED:
            answer = come(server, route, cookie if route.who in PAGES else bearer)
            assert answer.status == 401, (route, answer.status, answer.body[:200])
            assert says_why(answer), route


def test_a_browser_goes_no_further_than_the_token_it_came_by(server, fairy):
    expiring = fairy.create_token({"expires": "3s"})["token"]
    cookie = sign_in(server, expiring)
    until(lambda: ask(server.url, "GET", "/", headers={"Cookie": f"fairy_page={cookie}"}).status == 401, "the browser's token to expire")
    refused_everywhere(server, cookie, 401, [route for route in GUARDED if route.who in PAGES])


def test_a_token_without_rights_can_do_nothing(server, fairy):
    for_metrics = fairy.create_token({"scope": "metrics"})["token"]
    for route in GUARDED:
        answer = come(server, route, for_metrics)
        assert answer.status == (401 if route.who is Who.AGENT else 403), (route, answer.status)


def test_what_one_way_in_opens_no_other_does(server, fairy, make_user, browser_of_admin):
    """A cookie is no token, a token no cookie, and the gateway's own opens its five routes alone, even where an admin's does not."""
    gateway = (server.data / "ssh" / "gateway.token").read_text().strip()
    for route in GUARDED:
        if route.who is Who.AGENT:
            continue
        if route.who in PAGES:
            assert come(server, route, server.token).status == 403, route
            assert come(server, route, gateway).status == 403, route
        else:
            assert come(server, route, browser_of_admin).status == 403, route
            if route.who is Who.GATEWAY:
                assert come(server, route, server.token).status == 403, route
            else:
                assert come(server, route, gateway).status == 403, route


def test_what_is_an_admins_is_refused_to_a_user_whichever_way_they_come(server, make_user):
    eve = make_user("eve")
    cookie = sign_in(server, eve._token)
    for route in GUARDED:
        if route.who in (Who.ADMIN, Who.GATEWAY, Who.ADMIN_PAGE):
            answer = come(server, route, cookie if route.who is Who.ADMIN_PAGE else eve._token)
            assert answer.status == 403, (route, answer.status)
            assert says_why(answer), route


def test_from_inside_a_session_nothing_of_a_persons_or_an_admins_opens(server, fairy, tmp_path):
    fairy.submit({"name": "inside", "gpus": "0", "command": ["sh", "-c", f"cp $FAIRY_TOKEN_FILE {tmp_path}/stolen; echo copied; sleep 600"]})
    wait_for_state(fairy, "inside", "RUNNING")
    until((tmp_path / "stolen").exists, "the token to be copied")
    stolen = until((tmp_path / "stolen").read_text, "its text")
    for route in GUARDED:
        if route.who in (Who.ADMIN, Who.PERSON, Who.GATEWAY, *PAGES):
            assert come(server, route, stolen).status == 403, route
    fairy.stop("inside")
    wait_for_state(fairy, "inside", "ENDED")
    refused_everywhere(server, stolen, 401)


def test_no_change_is_taken_from_a_page_of_another_site(server, browser_of_admin):
    """The cookie comes along by itself wherever the browser is sent: each page that changes something asks who sent it."""
    for route in GUARDED:
        if route.who not in PAGES or route.method == "GET":
            continue
        for origin in ("https://evil.example", "null", f"{server.url}.evil.example", f"http://127.0.0.1:{server.port + 1}"):
            answer = ask(server.url, route.method, route.filled, body=b"", headers={"Cookie": f"fairy_page={browser_of_admin}", "Origin": origin})
            assert answer.status == 403, (route, origin, answer.status, answer.body[:300])


def test_ids_and_tokens_are_compared_whole(server):
    for cut in (server.token[:-1], server.token + "x", server.token.upper(), f" {server.token[1:]}", server.token[: len(server.token) // 2]):
        assert ask(server.url, "GET", "/api/v1/me", token=cut).status == 401


def test_who_is_refused_leaves_no_error_in_the_log(server):
    assert not [line for line in server.log.splitlines() if "ERROR" in line or "Traceback" in line]
