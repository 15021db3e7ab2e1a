"""Every route of the description and every page, asked with what nobody expects: no server error, and each refusal a problem in words.

More at one go: `FAIRY_FUZZ_ROUNDS=500 ./test tests/attacks/test_routes_fuzzed.py`.
"""
import os
import random
import re
from urllib.parse import quote

import pytest
from bodies import ODD_NUMBERS, ODD_WORDS, odd_body
from intruders import GUARDED, PAGES, come, sign_in

from gpufairy.api.bodies import BODIES
from gpufairy.api.policy import WEBSOCKET, Who
from raw_http import ask
from waits import wait_for_state

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FAIRY_FUZZ_ROUNDS", "12"))  # of each route
SLOW = {("POST", "/api/v1/doctor"), ("POST", "/api/v1/disk/walks"), ("POST", "/api/v1/backups")}  # once each: they are real


@pytest.fixture(scope="module")
def server(own_server):
    """What is sent here drains nodes and makes users, among others."""
    return own_server


@pytest.fixture(scope="module")
def described(server):
    return ask(server.url, "GET", "/api/v1/openapi.json").json["paths"]


@pytest.fixture(scope="module")
def things(fairy, make_user):
    """So that some names that are asked for are there."""
    make_user("kim")
    fairy.submit({"name": "x", "gpus": "0", "command": ["sh", "-c", "echo hello; echo y > $FAIRY_RESULTS/x; sleep 600"]})
    wait_for_state(fairy, "x", "RUNNING")


def test_no_route_answers_with_a_server_error_whatever_it_is_sent(server, described, things):
    chance, gateway = random.Random(20261116), (server.data / "ssh" / "gateway.token").read_text().strip()
    wrong: dict[tuple[str, str], str] = {}
    for path, methods in described.items():
        for method, route in methods.items():
            key = (method.upper(), path)
            for _ in range(1 if key in SLOW else ROUNDS):
                address, body = f"{filled(path, chance)}{query(route, chance)}", odd_body(BODIES.get(key), chance)
                token = gateway if "/gateway/" in path else server.token
                answer = ask(server.url, method.upper(), address, token=token, body=None if method == "get" else body, headers=odd_headers(route, chance))
                fault = fault_of(answer)
                if fault:
                    wrong.setdefault(key, f"{fault}: {method.upper()} {address[:200]} {body!r:.600} was answered {answer.status} {answer.body[:300]!r}")
    assert wrong == {}, "\n".join(wrong.values())
    assert ask(server.url, "GET", "/api/v1/me", token=server.token).status == 200


def filled(path: str, chance: random.Random) -> str:
    return re.sub(r"{[^}]*}", lambda _: quote(chance.choice((*ODD_WORDS, "x", "x", "kim")) or "x", safe=""), path)


def query(route, chance: random.Random) -> str:
    """Without those that would wait or follow: answers are wanted here."""
    asked = [one for one in route.get("parameters", ()) if one["in"] == "query" and one["name"] not in ("wait", "follow")]
    chosen = [one["name"] for one in asked if one["required"] or chance.random() < 0.5]
    values = [chance.choice((*ODD_WORDS, *map(str, ODD_NUMBERS), *one_of(route, name))) for name in chosen]
    return "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in zip(chosen, values, strict=True))


def one_of(route, name: str) -> tuple[str, ...]:
    return {"kind": ("gpu", "node", "user", "session") * 5, "by": ("user", "team", "session", "gpu", "node") * 5}.get(name, ("1", "true"))


def odd_headers(route, chance: random.Random) -> dict[str, str]:
    odd = ("x", "x" * 300, "\xff", "9" * 5000, "a b", "-1")
    return {one["name"]: chance.choice(odd) for one in route.get("parameters", ()) if one["in"] == "header" and chance.random() < 0.3}


def fault_of(answer) -> str:
    """What is wrong with an answer to somebody who asked for nonsense; nothing, if all is in order."""
    if answer.status >= 500:
        return "a server error"
    if answer.status < 400:
        return ""
    if answer.headers["content-type"] != "application/problem+json":
        return "no problem"
    problem = answer.json
    if not problem.keys() >= {"type", "title", "status", "detail", "next"} or problem["status"] != answer.status or not problem["detail"]:
        return "half a problem"
    return "a problem without end" if len(problem["detail"]) > 2000 or "Traceback" in problem["detail"] else ""


def test_no_page_answers_with_a_server_error_whatever_its_form_or_address_says(server, things):
    chance, cookie = random.Random(20261117), sign_in(server, server.token)
    names = ("name", "user", "of", "q", "gpus", "time", "image", "command", "deed", "span", "from", "before", "month", "by", "rows", "kind", "id", "token", "key", "why", "env", "count", "path")
    for route in [route for route in GUARDED if route.who in PAGES and route.path != "/live" and "signout" not in route.path]:
        for _ in range(ROUNDS // 2):
            pairs = "&".join(f"{chance.choice(names)}={quote(chance.choice(ODD_WORDS), safe='')}" for _ in range(chance.randint(0, 6)))
            path = filled(route.path, chance) + (f"?{pairs}&follow=0" if route.method == "GET" else "")
            try:
                answer = come(server, route, cookie, path, None if route.method == "GET" else pairs.encode())
            except TimeoutError:
                pytest.fail(f"no answer to {route} {path[:300]} {pairs[:600]}")
            assert answer.status < 500, (route, path[:300], pairs[:600], answer.status, answer.body[:500])
            assert b"Traceback" not in answer.body


def test_every_socket_says_no_in_words_to_what_it_cannot_take(server, things):
    for route in [route for route in GUARDED if route.method == WEBSOCKET]:
        for asked in ("?columns=x", "?columns=0&rows=99999999999", f"?columns={'9' * 5000}", "?rows=-1"):
            assert 400 <= come(server, route, server.token, route.filled + asked).status < 500


def test_no_agent_is_answered_with_a_server_error(server):
    chance = random.Random(3)
    for route in [route for route in GUARDED if route.who is Who.AGENT]:
        for _ in range(ROUNDS):
            fields = {name: chance.choice(("", "x", "9" * 5000, "-1", "1", "\xff", "\xb2", "=" * 88, "A" * 88)) for name in ("Fairy-Epoch", "Fairy-Sequence", "Fairy-Signature")}
            answer = ask(server.url, route.method, filled(route.path, chance), body=chance.randbytes(200), headers=fields)
            assert 400 <= answer.status < 500, (fields, answer.body)


def test_the_log_has_no_traceback(server):
    """After all of the above."""
    log = server.log
    at = log.find("Traceback")
    assert at < 0, log[max(0, at - 500) : at + 3000]
