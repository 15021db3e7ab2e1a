"""Who must not get in: every route, with no token, a stranger's, an expired, a revoked one, and from inside a session."""
import http.client
import re
import time

import pytest

from gpufairy.api.policy import POLICY, WEBSOCKET, Who
from gpufairy.client.errors import Problem
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow


def paths_of(server):
    """Every route that the running server itself names, with something in place of its parameters."""
    described = ask(server.url, "GET", "/api/v1/openapi.json").json["paths"]
    return [(method.upper(), path) for path, methods in described.items() for method in methods]


def filled(path: str) -> str:
    return re.sub(r"{[^}]*}", "x", path)


def needs_a_token(server):
    known = {(method, re.sub(r":path}", "}", path)): who for (method, path), who in POLICY.items()}
    return [(method, path) for method, path in paths_of(server) if known[method, path] not in (Who.ANYONE, Who.LOCAL, getattr(Who, "PAGE", None))]


def test_every_route_has_a_row_in_the_policy_and_every_row_a_route(server):
    """Those that the server describes; sockets and pages are walked in tests/control/test_routes.py."""
    rows = {(method, re.sub(r":path}", "}", path)) for method, path in POLICY if path.startswith("/api/") and "openapi" not in path and method != WEBSOCKET}
    assert rows == {(method, path) for method, path in paths_of(server) if path.startswith("/api/")}


@pytest.mark.parametrize("token", [None, "fairy_wrong", "fairyp_x.1.y", "fairyp_", "x" * 5000])
def test_no_route_answers_without_a_good_token(server, token):
    for method, path in needs_a_token(server):
        answer = ask(server.url, method, filled(path), token=token, body={})
        assert answer.status == 401, (method, path)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["next"]


def test_a_revoked_token_an_expired_one_and_a_disabled_user_are_out_at_once(server, fairy, make_user):
    revoked = fairy.create_token({"label": "to be revoked"})
    assert ask(server.url, "GET", "/api/v1/me", token=revoked["token"]).status == 200
    fairy.revoke_token(revoked["id"])
    expired = fairy.create_token({"expires": "1s"})["token"]
    until(lambda: ask(server.url, "GET", "/api/v1/me", token=expired).status == 401, "the token to expire")
    dora = make_user("dora")
    assert dora.me()["name"] == "dora"
    fairy.change_user("dora", {"disabled": True})
    for method, path in needs_a_token(server):
        for token in (revoked["token"], expired):
            assert ask(server.url, method, filled(path), token=token, body={}).status == 401, (method, path)
    with pytest.raises(Problem) as refused:
        dora.me()
    assert refused.value.status == 401


@pytest.mark.slow
def test_every_live_stream_ends_within_five_seconds_of_its_readers_rights(server, fairy, make_user):
    fairy.submit({"name": "watched", "gpus": "0", "command": ["sh", "-c", "echo hello; sleep 600"]})
    watched = wait_for_state(fairy, "watched", "RUNNING")["id"]
    revoked, expiring = fairy.create_token({"label": "short"}), fairy.create_token({"expires": "3s"})
    tokens = {"revoked": revoked["token"], "expiring": expiring["token"], "no admin": make_user("pat", "admin")._token}
    tokens["disabled"] = make_user("quinn", "admin")._token
    paths = ("/api/v1/events?follow=1&after=0", f"/api/v1/sessions/{watched}/logs?follow=1")
    stays = [opened_stream(server, path, server.token) for path in paths]
    streams = [opened_stream(server, path, token) for path in paths for token in tokens.values()]
    fairy.revoke_token(revoked["id"])
    fairy.change_user("pat", {"role": "user"})
    fairy.change_user("quinn", {"disabled": True})
    deadline = time.monotonic() + 5 + 3  # the one that expires has 3 s to live
    for stream in streams:
        stream.read()
        stream.close()
    assert time.monotonic() < deadline
    fairy.stop("watched")
    wait_for_state(fairy, "watched", "ENDED")
    stays[1].read()  # ended with its session, and not before
    while b'"ENDED"' not in stays[0].readline():
        pass
    for stream in stays:
        stream.close()


def opened_stream(server, path, token):
    """After its first line has come."""
    # Shorter than the pause between two signs of life: a stream that goes on fails the test, and does not hang it.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Connection": "close"})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.readline() in (b": hello\n", b"hello\n")
    return answer


def test_what_is_for_admins_is_refused_to_users(server, make_user):
    eve = make_user("eve")
    token = eve._token
    for method, path in needs_a_token(server):
        if POLICY.get((method, path)) is Who.ADMIN:
            assert ask(server.url, method, filled(path), token=token, body={}).status == 403, (method, path)
    for body in ({"user": "root"}, {"user": "nobody"}):
        assert ask(server.url, "POST", "/api/v1/tokens", token=token, body=body).status == 403
    assert ask(server.url, "POST", "/api/v1/sessions", token=token, body={"command": ["true"], "priority": 1}).status == 403


def test_a_user_sees_nothing_of_anothers_sessions(server, make_user):
    ann, bob = make_user("ann"), make_user("bob")
    hers = ann.submit({"name": "secret", "gpus": "0", "command": ["sh", "-c", "echo hidden; sleep 600"]})
    wait_for_state(ann, "secret", "RUNNING")
    for name in ("secret", hers["id"], "ann+secret"):
        for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/results"), ("GET", "/events"), ("GET", "/why")):
            answer = ask(server.url, method, f"/api/v1/sessions/{name}{tail}", token=bob._token)
            assert answer.status == 404, (name, method, tail)
            assert b"hidden" not in answer.body
    assert list(bob.sessions(ended=True)) == []
    assert all(event["owner"] == "bob" for event in bob.events())
    for query in ("owner=ann", "all_users=1"):
        assert ask(server.url, "GET", f"/api/v1/sessions?{query}", token=bob._token).status == 403
    assert ask(server.url, "POST", "/api/v1/sessions", token=bob._token, body={"command": ["true"], "after": ["secret"]}).status == 404
    ann.stop("secret")
    wait_for_state(ann, "secret", "ENDED")


def test_a_session_speaks_for_its_owner_and_for_nobody_else(server, make_user, tmp_path):
    """From inside: submit and read one's own; no admin's work, no tokens, no keys; and nothing after it has ended."""
    carl, _ = make_user("carl"), make_user("dan").submit({"name": "dans", "gpus": "0", "command": ["sleep", "600"]})
    script = f"""
        cp $FAIRY_TOKEN_FILE {tmp_path}/stolen; stat -c %a $FAIRY_TOKEN_FILE
        fairy run --gpus 0 --name child -- echo from the child
        fairy ps -a --json; fairy token create; echo tokens $?; fairy show dans; echo show $?; fairy show dan+dans; echo show $?
        fairy user list; echo users $?"""
    carl.submit({"name": "parent", "gpus": "0", "command": ["sh", "-c", script]})
    assert wait_for_state(carl, "parent", "ENDED")["outcome"] == "done"
    said = b"".join(carl.logs("parent")).decode()
    assert said.startswith("600\n")
    assert "from the child\n" in said
    assert '"name": "dans"' not in said
    for refused in ("tokens 3", "show 4", "users 3"):
        assert refused in said
    assert carl.session("child")["owner"] == "carl"
    stolen = (tmp_path / "stolen").read_text()
    assert ask(server.url, "GET", "/api/v1/me", token=stolen).status == 401


def test_an_admins_session_is_no_admin(server, fairy):
    fairy.submit({"name": "admins", "gpus": "0", "command": ["sh", "-c", "fairy user list; echo users $?"]})
    wait_for_state(fairy, "admins", "ENDED")
    assert b"users 3" in b"".join(fairy.logs("admins"))


def test_the_last_admin_cannot_be_shut_out(server, fairy):
    me = fairy.me()["name"]
    for change in ({"role": "user"}, {"disabled": True}):
        answer = ask(server.url, "PATCH", f"/api/v1/users/{me}", token=server.token, body=change)
        assert (answer.status, answer.json["detail"]) == (409, f"{me} is the only admin")


def test_metrics_are_for_this_machine_or_a_token_with_that_right(server, fairy):
    assert ask(server.url, "GET", "/metrics").status == 200
    forwarded = {"X-Forwarded-For": "192.0.2.7"}
    assert ask(server.url, "GET", "/metrics", headers=forwarded).status == 401
    reader = fairy.create_token({"label": "prometheus", "scope": "metrics"})["token"]
    assert ask(server.url, "GET", "/metrics", headers=forwarded, token=reader).status == 200
    for method, path in needs_a_token(server):
        refused = 401 if POLICY.get((method, path)) is Who.AGENT else 403  # a token of any kind says nothing of an agent
        assert ask(server.url, method, filled(path), token=reader, body={}).status == refused, (method, path)


def test_the_health_answers_anyone_and_says_nothing_private(server):
    assert ask(server.url, "GET", "/healthz").json["status"] == "ok"
    assert ask(server.url, "GET", "/readyz").json["status"] == "ready"
