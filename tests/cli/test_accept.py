"""`fairy node accept --all`: whoever says it sees first whom they let in, and lets in nobody else."""
import os

import pytest

ASKER = {"name": "gpu07", "state": "waiting", "fingerprint": "SHA256:seven", "address": "10.0.0.7", "asked_at": None, "replaces": False}
STRANGER = {**ASKER, "name": "gpu08", "fingerprint": "SHA256:eight", "address": "10.6.6.6", "replaces": True}
ACCEPTED = {"name": "gpu01", "state": "accepted", "fingerprint": "SHA256:one"}


@pytest.fixture
def asking(server):
    server.answers["GET", "/agents"] = {"items": [ACCEPTED, ASKER, STRANGER], "next": None}
    for agent in (ASKER, STRANGER):
        server.answers["POST", f"/agents/{agent['name']}/accept"] = {**agent, "state": "accepted"}
    return server


def accepted(server):
    return {asked.path: asked.body for asked in server.asked if asked.method == "POST"}


def test_without_a_terminal_all_are_shown_and_none_is_accepted(asking, fairy):
    done = fairy("node", "accept", "--all")
    assert done.code == 2
    assert "no terminal to ask on" in done.err
    assert "--yes" in done.err
    for words in ("gpu07", "10.0.0.7", "SHA256:seven", "gpu08", "10.6.6.6", "SHA256:eight", "another key"):
        assert words in done.out
    assert accepted(asking) == {}


def test_with_yes_those_that_are_shown_are_accepted_by_their_keys(asking, fairy):
    done = fairy("node", "accept", "--all", "--yes")
    assert (done.code, "SHA256:eight" in done.out) == (0, True)
    assert accepted(asking) == {"/agents/gpu07/accept": {"fingerprint": "SHA256:seven"}, "/agents/gpu08/accept": {"fingerprint": "SHA256:eight"}}


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "count"), [(b"y\n", 2), (b"n\n", 0), (b"\n", 0)])
def test_on_a_terminal_it_is_asked(asking, spawn, answer, count):
    ours, theirs = os.openpty()
    os.write(ours, answer)
    process = spawn("node", "accept", "--all", stdin=theirs, stdout=theirs, stderr=theirs)
    assert process.wait(20) in (0, 1)
    os.close(theirs)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "Let 2 of them report? [y/N]" in said
    assert len(accepted(asking)) == count


def test_nobody_who_asks_is_no_question(server, fairy):
    server.answers["GET", "/agents"] = {"items": [ACCEPTED], "next": None}
    done = fairy("node", "accept", "--all")
    assert (done.code, done.out) == (0, "No agent asks to be let in.\n")


def test_one_that_is_named_is_accepted_without_a_question(asking, fairy):
    assert fairy("node", "accept", "gpu07").code == 0
    assert list(accepted(asking)) == ["/agents/gpu07/accept"]
