"""Every operation of the API's own description, asked by schemathesis as an admin and as a user: no server error, and no answer but those described.

More at one go: `FAIRY_FUZZ_ROUNDS=100 ./test tests/attacks/test_schemathesis.py`.
"""
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from gpufairy.api.answer_shapes import SHAPES
from raw_http import ask
from waits import wait_for_state

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FAIRY_FUZZ_ROUNDS", "3"))  # of each operation, by each caller, beside the bounds of all that it takes, by an admin
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance", "response_headers_conformance")
NOT_VARIED = {  # and why
    "query.follow": False,  # an answer that ends with its session, or never
    "query.wait": 0,  # an answer that comes in a minute
}
NOT_TO_ITS_BOUNDS = {"include-path": "/api/v1/stops", "phases": {"coverage": {"enabled": False}}}  # ten thousand names take it five seconds
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk3pQ2hUqM1c2pYpBzWlJ1fHcS3f5vI2hXkqZ3l9m0a me@laptop"
NAMES = ("x", "kim", "box", "nlp")  # of a session, a user, a node and a team that are there


@pytest.fixture(scope="module")
def server(own_server):
    """What is sent here drains nodes and makes users, among others."""
    return own_server


@pytest.fixture(scope="module")
def callers(server, fairy, make_user):
    """Their tokens. None is of a user whom NAMES has: those may be shut out. Of what is described in full, there is one of each."""
    fairy.add_team("nlp")
    make_user("kim")
    fairy.set_quota({"of": "user:kim", "sessions": 2})
    fairy.add_key({"key": KEY})
    fairy.submit({"name": "x", "gpus": "0.5", "command": ["sh", "-c", "echo hello; echo y > $FAIRY_RESULTS/x; sleep 600"]})
    wait_for_state(fairy, "x", "RUNNING")
    fairy.submit({"name": "waits", "gpus": 2, "command": ["sleep", "600"]})
    fairy.book({"gpus": 1, "title": "a class", "from": f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}", "time": "1h"})
    return {"admin": server.token, "user": make_user("asker")._token}


def settings(server, token: str, *, to_the_bounds: bool) -> SchemathesisConfig:
    """The same requests each time. Nothing is learnt from answers: somebody who knows all names ends their own token first."""
    alone = {"extra-data-sources": {"responses": False}}
    return SchemathesisConfig.from_dict({
        "seed": 20261116, "base-url": server.url, "headers": {"Authorization": f"Bearer {token}"}, "request-timeout": 20, "continue-on-failure": True,
        "cache": {"enabled": False}, "output": {"sanitization": {"enabled": True}},
        "generation": {"max-examples": ROUNDS, "deterministic": True, "no-shrink": True, "database": "none", "with-security-parameters": False},
        "phases": {
            "examples": {"enabled": False}, "stateful": {"enabled": False},
            "coverage": {"enabled": to_the_bounds, "unexpected-methods": [], "generation": {"mode": "positive"}, **alone},
            "fuzzing": {"enabled": True, "error-feedback": {"enabled": False}, **alone},
        },
        "checks": {"enabled": False, **{check: {"enabled": True} for check in CHECKS}},
        "operations": [NOT_TO_ITS_BOUNDS], "dictionaries": {"names": {"values": NAMES}},
        "parameters": {**NOT_VARIED, **{f"path.{name}": {"dictionary": "names", "probability": 0.5} for name in ("name", "user")}},
    })  # fmt: skip


def asked(server, token: str, *, to_the_bounds: bool) -> tuple[Counter[str], dict[str, str]]:
    """How often each operation was answered, and what was wrong with an answer, by operation."""
    schema = schemathesis.openapi.from_dict(closed(ask(server.url, "GET", "/api/v1/openapi.json").json), config=settings(server, token, to_the_bounds=to_the_bounds))
    answered: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished():
                answered[event.label] += sum(one.response is not None for one in event.recorder.interactions.values())
                for fault in faults_in(event):
                    wrong.setdefault(event.label, fault)
            case events.NonFatalError():
                wrong.setdefault(event.label, str(event.value))
            case events.FatalError():
                raise event.exception
    return answered, wrong


def closed(told):
    """So that a field of an answer that nobody described is found. Clients are not told so: there may be more of them in time."""
    schemas = told["components"]["schemas"]
    return {**told, "components": {**told["components"], "schemas": {**schemas, **{name: {**schemas[name], "additionalProperties": False} for name in SHAPES}}}}


def faults_in(event: events.ScenarioFinished) -> Iterator[str]:
    for checks in event.recorder.checks.values():
        for check in checks:
            if check.status is not Status.SUCCESS:
                found = check.failure_info
                yield f"{check.name}: {found.failure.title}: {found.failure.message:.500}\n{found.code_sample:.1000}"


@pytest.mark.parametrize("caller", ["admin", "user"])
def test_every_operation_answers_as_the_description_says_and_never_with_a_server_error(server, callers, caller):
    answered, wrong = asked(server, callers[caller], to_the_bounds=caller == "admin")
    assert wrong == {}, "\n\n".join(f"{operation}: {fault}" for operation, fault in wrong.items())
    described = ask(server.url, "GET", "/api/v1/openapi.json").json["paths"]
    assert set(answered) == {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert min(answered.values()) > 0


def test_what_is_a_list_is_described_as_one(server, callers):
    """Of all that can be asked for without a name."""
    described = ask(server.url, "GET", "/api/v1/openapi.json").json["paths"]
    for path, methods in described.items():
        route = methods.get("get", {"security": [{"gateway": []}]})
        if "{" in path or {"gateway": []} in route["security"] or any(one["required"] for one in route.get("parameters", ())):
            continue
        answer = ask(server.url, "GET", path, token=callers["admin"])
        if answer.headers["content-type"] == "application/json":
            is_list = isinstance(answer.json, dict) and answer.json.keys() >= {"items", "next"}
            assert is_list is ("Page" in str(route["responses"]["200"])), path


def test_the_log_has_no_traceback_after_it(server):
    log = server.log
    at = log.find("Traceback")
    assert at < 0, log[max(0, at - 500) : at + 3000]
