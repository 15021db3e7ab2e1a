"""Bad input gets one clear sentence and what to do; never a traceback, never a 500."""
import http.client
import random
import string

import pytest

from raw_http import ask
from waits import wait_for_state

pytestmark = pytest.mark.slow

SESSIONS = "/api/v1/sessions"


def submit(server, body, **options):
    return ask(server.url, "POST", SESSIONS, token=server.token, body=body, **options)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"command": ["true"], "gpsu": "1"}, 400, "unknown field 'gpsu' (did you mean gpus?)"),
        ({"command": ["true"], "memroy": "1GiB"}, 400, "did you mean memory?"),
        ({"command": ["true"], "gpus": "-1"}, 400, "gpus: '-1' is no GPU share"),
        ({"command": ["true"], "gpus": "1.5"}, 400, "neither a whole number nor less than one"),
        ({"command": ["true"], "gpus": "8"}, 422, "has 2 of 2 GPUs wholly free, 8 asked"),
        ({"command": ["true"], "gpus": "99999999"}, 400, "more than 1024 GPUs"),
        ({"command": ["true"], "gpus": "mig:1g.5gb"}, 422, "no GPU of box is in MIG mode"),
        ({"command": ["true"], "gpus": [1]}, 400, "gpus"),
        ({"command": ["true"], "cpus": 1000}, 422, "CPUs free, 1000 asked"),
        ({"command": ["true"], "cpus": -4}, 400, "cpus: '-4'"),
        ({"command": ["true"], "memory": "900TiB"}, 422, "of memory free"),
        ({"command": ["true"], "memory": "lots"}, 400, "memory: 'lots' is no size"),
        ({"command": ["true"], "time": "soon"}, 400, "time: 'soon' is no duration"),
        ({"command": ["true"], "time": "999d"}, 400, "not between a moment and 366 days"),
        ({"command": ["true"], "name": "../../etc"}, 400, "name: '../../etc' is no session name"),
        ({"command": ["true"], "name": "Ünïcode"}, 400, "is no session name"),
        ({"command": ["true"], "name": "a\nb"}, 400, "is no session name"),
        ({"command": ["true"], "name": "x" * 10000}, 400, "name"),
        ({"command": ["tr\0ue"]}, 400, "holds a character that no command can take"),
        ({"command": []}, 400, "command: found an empty one"),
        ({"kind": "batch"}, 400, "a batch session needs one"),
        ({"kind": "daemon", "command": ["true"]}, 400, "kind: found 'daemon'"),
        ({"command": "x" * 300000}, 400, "command"),
        ({"command": ["true"], "env": {"LD_PRELOAD": "evil.so"}}, 400, "env: LD_PRELOAD is set by gpufairy itself"),
        ({"command": ["true"], "env": {"A=B": "1"}}, 400, "is no name of a variable"),
        ({"command": ["true"], "count": 0}, 400, "count: '0' is not between 1 and 1000"),
        ({"command": ["true"], "count": 10**9}, 400, "count"),
        ({"command": ["true"], "retry": -1}, 400, "retry: '-1' is not between 0 and 100"),
        ({"command": ["true"], "after": ["nobody"]}, 404, "has no session 'nobody'"),
        ({"command": ["true"], "preset": "huge"}, 400, "preset: no 'huge'"),
        ({"command": ["true"], "ports": [70000]}, 400, "ports"),
        ({"command": ["true"], "pool": "none"}, 422, "is not in pool none"),
        ([], 400, "expected fields and values, found list"),
        ("text", 400, "expected fields and values, found str"),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_what_was_found_and_what_to_do(server, body, status, said):
    answer = submit(server, body)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert problem.keys() >= {"type", "title", "status", "detail", "next"}
    assert said in problem["detail"]
    assert problem["next"]
    assert len(problem["detail"]) < 500
    assert "\n" not in problem["detail"]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"a":' * 100000, b"[" * 500000, b'{"cpus": NaN}', b'{"cpus": 1e999, "command": ["true"]}', b"null"])
def test_broken_and_deep_json_is_refused(server, body):
    assert submit(server, body).status == 400


def test_a_body_of_ten_megabytes_is_refused_at_once(server):
    answer = submit(server, b'{"command": ["' + b"x" * 10_000_000 + b'"]}')
    assert answer.status == 413
    assert "larger than 1 MiB" in answer.json["detail"]


def test_a_body_that_does_not_say_its_size_is_cut_off_too(server):
    chunks = (b"x" * 65536 for _ in range(64))
    answer = ask_chunked(server, chunks)
    assert answer in (400, 413)


def ask_chunked(server, chunks):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", SESSIONS, body=chunks, headers={"Authorization": f"Bearer {server.token}"}, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    "path",
    [
        f"{SESSIONS}?limit=0", f"{SESSIONS}?limit=x", f"{SESSIONS}?after=x", f"{SESSIONS}?after=-1", f"{SESSIONS}?state=NOPE",
        f"{SESSIONS}?after={'9' * 40}", f"{SESSIONS}/x?wait=-1", f"{SESSIONS}/x?wait=999999", "/api/v1/events?after=x", f"{SESSIONS}/x/logs?from=-1",
        *(f"{path}={number}" for number in (2**63, "9" * 5000) for path in (
            "/api/v1/events?after", "/api/v1/events?follow=1&after", f"{SESSIONS}?after", f"{SESSIONS}/x/logs?from", f"{SESSIONS}/x/events?after",
            f"{SESSIONS}/x?wait=1&unlike",
        )),
    ],
)  # fmt: skip
def test_bad_queries_are_refused_in_words(server, path):
    answer = ask(server.url, "GET", path, token=server.token)
    assert answer.status == 400, answer.body
    assert answer.json["detail"]


@pytest.mark.parametrize("number", [str(2**63), "9" * 5000, "x", "-1"])
def test_a_last_event_that_cannot_be_is_refused(server, number):
    answer = ask(server.url, "GET", "/api/v1/events?follow=1", token=server.token, headers={"Last-Event-ID": number})
    assert answer.status == 400


def test_the_largest_numbers_that_are_taken_find_nothing_or_all_of_it(server, fairy):
    fairy.submit({"name": "short", "gpus": "0", "command": ["echo", "short"]})
    wait_for_state(fairy, "short", "ENDED")
    most = 2**63 - 1
    assert ask(server.url, "GET", f"/api/v1/events?after={most}", token=server.token).json["items"] == []
    assert ask(server.url, "GET", f"{SESSIONS}/short/events?after={most}", token=server.token).json["items"] == []
    assert ask(server.url, "GET", f"{SESSIONS}/short/logs?from={most}", token=server.token).body == b"short\n"


def test_a_team_is_checked_when_it_changes_as_when_it_is_set(server, make_user):
    make_user("tess")
    answer = ask(server.url, "PATCH", "/api/v1/users/tess", token=server.token, body={"team": "a\nb"})
    assert (answer.status, "team" in answer.json["detail"]) == (400, True)
    for team, kept in (("nlp", "nlp"), ("", None)):
        assert ask(server.url, "PATCH", "/api/v1/users/tess", token=server.token, body={"team": team}).json["team"] == kept


@pytest.mark.parametrize("name", ["nope", "..%2f..%2fetc", "%00", "a" * 3000, "%ff", "x%0ay", "root+nope", "+", "한글"])
def test_odd_names_are_just_not_there(server, name):
    answer = ask(server.url, "GET", f"{SESSIONS}/{name if name.isascii() else '%ED%95%9C'}", token=server.token)
    assert answer.status == 404
    assert len(answer.body) < 1000


def test_pages_that_are_not_there_and_methods_that_are_not_taken_are_problems_too(server):
    assert ask(server.url, "GET", "/nope").json["status"] == 404
    refused = ask(server.url, "PUT", SESSIONS, token=server.token)
    assert (refused.json["status"], refused.headers["allow"]) == (405, "GET, POST")


def test_a_name_in_use_is_refused_and_free_again_when_the_session_has_ended(server, fairy):
    fairy.submit({"name": "mine", "gpus": "0", "command": ["sleep", "600"]})
    answer = submit(server, {"name": "mine", "gpus": "0", "command": ["true"]})
    assert (answer.status, answer.json["detail"]) == (409, f"name: {fairy.me()['name']} already has a session 'mine'")
    fairy.stop("mine")
    wait_for_state(fairy, "mine", "ENDED")
    assert submit(server, {"name": "mine", "gpus": "0", "command": ["true"]}).status == 201


def test_random_bodies_never_break_the_server(server):
    """Seeded, so that a failure can be had again."""
    chance = random.Random(20261115)
    fields = ["kind", "name", "gpus", "cpus", "memory", "image", "command", "time", "env", "mounts", "ports", "count", "after", "retry", "workdir", "x"]

    def value(depth=0):
        made = [
            lambda: chance.randint(-(10**6), 10**6), lambda: chance.random() * 10, lambda: None, lambda: True,
            lambda: "".join(chance.choices(string.printable + "한\0\ud800", k=chance.randint(0, 12))),
            lambda: [value(depth + 1) for _ in range(chance.randint(0, 3))] if depth < 3 else [],
            lambda: {str(chance.choice(fields)): value(depth + 1) for _ in range(chance.randint(0, 3))} if depth < 3 else {},
        ]  # fmt: skip
        return chance.choice(made)()

    for _ in range(300):
        body = {chance.choice(fields): value() for _ in range(chance.randint(0, 5))}
        body.pop("count", None)
        assert submit(server, body).status in (201, 400, 404, 409, 422), body


def test_the_command_line_passes_the_sentence_on_with_its_exit_code(server):
    for arguments, code in ((("run", "--gpus", "8", "--", "true"), 3), (("run", "--gpus", "x", "--", "true"), 2), (("show", "nope"), 4), (("run",), 2)):
        done = server.fairy(*arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert "The largest that would fit: --gpus 2" in server.fairy("run", "--gpus", "8", "--", "true").stderr
    gone = server.fairy("--server", "http://127.0.0.1:9", "--token-file", str(server.folder / "fairy.toml"), "ps")
    assert gone.returncode in (2, 5)


def test_the_server_log_has_no_traceback(server):
    assert "Traceback" not in server.log
