"""Whatever is Ann's, Bob neither sees nor changes: every route that a signed-in user has, asked with her names and ids, every list and stream."""
import http.client
import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from intruders import PAGES, ROUTES, come, sign_in

from gpufairy.api.policy import WEBSOCKET, Who
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

MARK = "nightjar"  # in all that is Ann's and nobody else's business: no answer to Bob may hold it
NAME = "zebrafinch"  # in all that she gave a name: only an answer to somebody who wrote it may repeat it
TEAM = "birds"  # everybody sees in the ledger which team holds how much
HERS = (Who.SIGNED_IN, Who.PERSON, Who.PAGE, Who.BROWSER)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"


@dataclass(frozen=True, slots=True)
class Ann:
    client: object
    session: dict
    ended: dict
    token: dict
    key: dict
    booking: dict

    def looks(self) -> tuple:
        """What must be the same after everything that Bob tried; readings and times of her session go on."""
        session = self.client.session(f"{NAME}-runs")
        steady = {name: session[name] for name in ("id", "name", "state", "command", "attempt", "ends_at") if name in session}
        bookings = [one for one in self.client.bookings() if one["id"] == self.booking["id"]]
        tokens = [{**one, "last_used_at": None} for one in self.client.tokens()]
        return (steady, tokens, list(self.client.keys()), bookings, list(self.client.messages()["items"]), self.client.user("ann"))


@pytest.fixture(scope="module")
def ann(server, fairy, make_user):
    client = make_user("ann")
    fairy.add_team(TEAM, 1.0)
    fairy.change_user("ann", {"team": TEAM})
    script = f"echo {MARK}-log; echo {MARK}-result > $FAIRY_RESULTS/{NAME}-file; "
    asked = {"gpus": "0", "env": {f"V_{MARK}".upper(): f"{MARK}-value"}, "workdir": "."}
    client.submit({"name": f"{NAME}-over", "command": ["sh", "-c", script + "true"], **asked})
    ended = wait_for_state(client, f"{NAME}-over", "ENDED")
    client.submit({"name": f"{NAME}-runs", "command": ["sh", "-c", script + f"exec sleep 600 # {MARK}"], **asked})
    session = wait_for_state(client, f"{NAME}-runs", "RUNNING")
    client.submit({"name": f"{NAME}-waits", "command": ["true"], "gpus": "0", "after": [f"{NAME}-runs"]})
    token, key = client.create_token({"label": f"{MARK}-token"}), client.add_key({"key": f"{KEY} {MARK}-key"})
    put = ask(server.url, "PUT", "/api/v1/messages", token=client._token, body={"kind": "webhook", "address": f"https://hooks.example/{MARK}"})
    assert put.status == 200, put.body
    booking = client.book({"gpus": 1, "title": "a lesson", "from": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:00:00Z}", "time": "1h"})
    return Ann(client, session, ended, token, key, booking)


@pytest.fixture(scope="module")
def bob(server, make_user):
    client = make_user("bob")
    return {"client": client, "bearer": client._token, "cookie": sign_in(server, client._token)}


def secret_for(bob, route):
    return bob["cookie"] if route.who in PAGES else bob["bearer"]


def paths_of_hers(route, ann):
    """The path with everything of hers that it could name, in every way that it can be named."""
    first = route.path.removeprefix("/api/v1").split("/")[1]
    names = {
        "sessions": (ann.session["id"], ann.ended["id"], f"{NAME}-runs", f"ann+{NAME}-runs", f"{NAME}-over", f"{ann.session['id']}%00"),
        "users": ("ann",), "teams": (TEAM,), "classes": ("nosuch",), "images": ("x",),
    }  # fmt: skip
    chosen = {
        "name": names.get(first, ("x",)), "token_id": (ann.token["id"],), "fingerprint": (ann.key["fingerprint"],),
        "booking_id": (ann.booking["id"],), "kind": ("webhook",), "path": (f"{NAME}-file", "../" * 6 + "etc/passwd"), "app": ("jupyter",),
        "deed": ("revoke", "remove-key", "key", "token", "language", "message"),
    }  # fmt: skip
    pattern = route.path.replace(":path}", "}")
    wanted = [field for field in chosen if f"{{{field}}}" in pattern]
    assert pattern.count("{") == len(wanted), f"this test knows nothing to put into {route.path}"
    return [pattern.format(**dict(zip(wanted, values, strict=True))) for values in itertools.product(*(chosen[field] for field in wanted))]


def queries_of_hers(ann):
    asked = [f"{field}={ann.session['id']}" for field in ("session", "name", "of", "id", "q")]
    asked += [f"session={NAME}-runs", f"session=ann+{NAME}-runs", f"name={NAME}-runs", f"q={NAME}", f"kind=session&name={NAME}-runs"]
    asked += [f"{field}=ann" for field in ("user", "owner", "who", "q")] + ["all_users=1", "all=1&all_users=1", "all=1", "past=1"]
    asked += ["by=user", "by=session", "by=team", f"kind=session&name={ann.session['id']}", "kind=user&name=ann"]
    return ["", *asked, "month=this&format=csv", "month=this&format=html&by=team"]


def test_no_list_page_search_or_export_shows_bob_what_is_anns(server, ann, bob):
    looked = 0
    for route in ROUTES:
        if route.method != "GET" or route.who not in HERS or route.path == "/live":
            continue
        queries = queries_of_hers(ann) if "{" not in route.path else ["", "all_users=1&user=ann&owner=ann"]
        for path, query in itertools.product(paths_of_hers(route, ann), queries):
            answer = come(server, route, secret_for(bob, route), f"{path}?{query}")
            assert answer.status < 500, (route, path, query, answer.body)
            for word in (MARK,) if NAME in path + query else (MARK, NAME):
                assert word.encode() not in answer.body, (route, path, query, answer.status, around(answer.body, word))
            looked += 1
    assert looked > 800


def around(body: bytes, word: str) -> bytes:
    at = body.find(word.encode())
    return body[max(0, at - 200) : at + 100]


BODIES = {
    "/api/v1/sessions/{name}/keep": [{"time": "2h"}], "/api/v1/sessions/{name}/swap": [{"image": "busybox"}],
    "/api/v1/sessions/{name}/commit": [{"image": "stolen:1"}], "/api/v1/sessions/{name}/apps": [{"app": "port:80"}],
    "/api/v1/messages/{kind}/test": [{}], "/sessions/{name}/keep": [b"time=2h"], "/sessions/{name}/swap": [b"image=busybox"],
    "/sessions/{name}/commit": [b"image=stolen:1"],
}  # fmt: skip


def test_nothing_of_anns_is_changed_by_whatever_bob_sends_to_her_names_and_ids(server, ann, bob):
    before, tried = ann.looks(), 0
    for route in ROUTES:
        if route.method in ("GET", WEBSOCKET) or route.who not in HERS or "{" not in route.path:
            continue
        fields = f"id={ann.token['id']}&token={ann.token['id']}&fingerprint={ann.key['fingerprint']}&kind=webhook&user=ann&name=ann"
        for path in paths_of_hers(route, ann):
            for body in BODIES.get(route.path, [fields.encode() if route.who in PAGES else {}]):
                answer = come(server, route, secret_for(bob, route), path, body)
                assert 400 <= answer.status < 500 or answer.status in (303, 204), (route, path, answer.status, answer.body[:200])
                tried += 1
    assert tried > 50
    assert ann.looks() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/tokens", {"user": "ann"}, 403), ("POST", "/keys", {"user": "ann", "key": f"{KEY} theirs"}, 403),
        ("GET", "/tokens?user=ann", None, 403), ("GET", "/keys?user=ann", None, 403), ("GET", "/users/ann", None, 403),
        ("GET", "/disk?user=ann", None, 403), ("GET", "/quotas?user=ann", None, 403), ("GET", "/sessions?owner=ann", None, 403),
        ("GET", "/readings?kind=user&name=ann", None, 403), ("GET", "/advice?user=ann", None, 403), ("PATCH", "/users/bob", {"role": "admin"}, 403),
        ("POST", "/users", {"name": "mallory", "role": "admin"}, 403), ("PUT", "/quotas", {"of": "user:bob", "gpus": 8}, 403),
        ("POST", "/sessions", {"command": ["true"], "priority": 1}, 403), ("POST", "/tokens", {"scope": "page"}, 400),
        ("POST", "/tokens", {"scope": "gateway"}, 400), ("POST", "/tokens", {"role": "admin"}, 400), ("POST", "/sessions", {"command": ["true"], "owner": "ann"}, 400),
    ],
)  # fmt: skip
def test_no_call_of_a_users_yields_more_rights_or_anothers_name(server, bob, ann, method, path, body, status):
    answer = ask(server.url, method, f"/api/v1{path}", token=bob["bearer"], body=body)
    assert answer.status == status, answer.body
    assert bob["client"].me()["role"] == "user"


def test_values_of_variables_are_their_owners_alone_and_admins_see_the_names(fairy, ann):
    name = f"V_{MARK}".upper()
    assert ann.client.session(f"{NAME}-runs")["request"]["env"] == {name: f"{MARK}-value"}
    found = next(one for one in fairy.sessions(all_users=True) if one["id"] == ann.session["id"])
    for seen in (found, fairy.session(ann.session["id"]), fairy.keep(ann.session["id"], "2h")):
        assert seen["request"]["env"] == {name: None}


def test_stopping_by_a_list_of_names_reaches_nobody_elses(server, ann, bob):
    names = [ann.session["id"], f"{NAME}-runs", f"ann+{NAME}-runs"]
    ask(server.url, "POST", "/api/v1/stops", token=bob["bearer"], body={"names": names})
    ask(server.url, "POST", "/api/v1/stops", token=bob["bearer"], body={"all": True})
    assert ann.client.session(f"{NAME}-runs")["state"] == "RUNNING"


def test_bobs_streams_tell_nothing_of_what_befalls_ann(server, ann, bob):
    by_events = opened(server, "/api/v1/events?follow=1&after=0", {"Authorization": f"Bearer {bob['bearer']}"})
    by_page = opened(server, f"/live?of={ann.session['id']}", {"Cookie": f"fairy_page={bob['cookie']}"})
    ann.client.submit({"name": f"{NAME}-live", "gpus": "0", "command": ["true"]})
    wait_for_state(ann.client, f"{NAME}-live", "ENDED")
    bob["client"].submit({"name": "bobs-own", "gpus": "0", "command": ["true"]})
    seen = until_seen(by_events, b"bobs-own")
    seen += until_seen(by_page, b"data: 1")
    assert MARK.encode() not in seen
    assert NAME.encode() not in seen
    for stream in (by_events, by_page):
        stream.close()


def opened(server, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", path, headers={**headers, "Connection": "close"})
    return connection.getresponse()


def until_seen(stream, word: bytes) -> bytes:
    seen = b""
    while word not in seen:
        line = stream.readline()
        assert line, seen
        seen += line
    return seen


def test_two_users_never_share_a_folder_a_route_or_a_container_name(server, fairy, make_user):
    """Names that differ by what other systems fold together."""
    for name in ("Ann", "ann.", "ann ", "ａnn", "аnn", "ann\u200b", "ann+x", "../ann", "ann/x", "ANN", "a\u0301nn", "", ".", "..", "-ann", "root\n"):
        answer = ask(server.url, "POST", "/api/v1/users", token=server.token, body={"name": name})
        assert answer.status in (400, 409), (name, answer.status, answer.body)
    until(lambda: {user["name"] for user in fairy.users()} >= {"ann"}, "the list of users")
    assert not [user["name"] for user in fairy.users() if user["name"] != "ann" and user["name"].casefold().strip(". ") == "ann"]
