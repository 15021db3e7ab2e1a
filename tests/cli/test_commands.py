"""Every other command: what it asks the server, what it prints, how it ends."""
import json
import os
import subprocess
import sys

import pytest
from fake_server import DROP, TOKEN, Job, a_seat, a_session, ended, running

from gpufairy.cli.table import COMMANDS
from gpufairy.client.local_server import LocalServer, birth_of, write_down

GPU = {
    "index": 0, "uuid": "GPU-1", "kind": "A100-40GB", "memory_bytes": 40 * 2**30, "simulated": True, "free_share": 0.5,
    "free_memory_bytes": 20 * 2**30, "holders": [{"session": "brave-otter", "owner": "student1", "share": 0.5, "profile": None}],
}  # fmt: skip
NODE = {
    "name": "gpu01", "state": "ready", "why": "", "cpus": 8, "memory_bytes": 2**35,
    "free": {"cpus": 4, "memory_bytes": 2**34, "gpus": 0.5}, "gpus": [GPU],
}  # fmt: skip
WHY = {
    "session": a_session(state="PENDING"), "summary": "it waits for half a GPU", "place": 3, "of": 10, "forecast_start": None,
    "forecast_why": "", "nodes": [{"node": "gpu01", "refusal": "has 0 GPUs free"}], "next": "Ask for fewer.",
}  # fmt: skip
EVENT = {"number": 1, "at": "2026-11-15T08:00:00Z", "what": "ready", "session": "brave-otter", "owner": "student1", "state": "RUNNING"}
PLACE = {"place": 1, "name": None, "owner": "x", "gpus": "1", "since": None, "why": "", "forecast_start": None}
ANSWERS = {
    "/sessions": {"items": [running()], "next": None},
    "/sessions/brave-otter": running(),
    "/sessions/brave-otter/why": WHY,
    "/nodes": {"items": [NODE]},
    "/queue": {"items": [PLACE], "waiting": 1},
    "/users": {"items": [{"name": "student1", "role": "user", "team": "nlp", "disabled": True}]},
    "/users/student1": {"name": "student1", "role": "user", "team": "nlp", "disabled": False},
    "/tokens": {"items": [{"id": "7", "scope": "full", "user": "student1", "label": "ci", "expires_at": None}]},
    "/keys": {"items": [{"fingerprint": "SHA256:a/b", "user": "student1", "comment": "laptop"}]},
    "/me": {"name": "student1", "role": "admin", "team": None, "token": {"scope": "full"}},
    "/events": {"items": [EVENT], "next": None},
}


@pytest.fixture
def canned(server):
    server.answers.update({("GET", path): answer for path, answer in ANSWERS.items()})
    return server


READING = ["ps", "show brave-otter", "why brave-otter", "free", "queue", "user list", "user show student1", "token list", "key list"]


@pytest.mark.parametrize("command", [*READING, "node list", "whoami", "events"])
def test_every_command_that_reads_prints_one_json_document(canned, fairy, command):
    done = fairy(*command.split(), "--json")
    assert done.code == 0
    assert json.loads(done.out)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ps", ["NAME", "brave-otter", "● RUNNING", "0.5", "gpu01"]),
        ("show brave-otter", ["● RUNNING", "accounted: memory", "16 GiB"]),
        ("why brave-otter", ["it waits for half a GPU", "place 3 of 10", "has 0 GPUs free", "→ Ask for fewer."]),
        ("free", ["A100-40GB simulated", "student1/brave-otter 0.5", "20 GiB"]),
        ("node list", ["1 A100-40GB simulated", "4 of 8"]),
        ("queue", ["PLACE", "x"]),
        ("user list", ["student1", "disabled"]),
        ("token list", ["never", "ci"]),
        ("key list", ["SHA256:a/b", "laptop"]),
        ("whoami", ["student1 (admin) on http://"]),
        ("events", ["student1/brave-otter", "RUNNING", "ready"]),
    ],
)
def test_every_command_that_reads_says_it_in_words(canned, fairy, command, words):
    done = fairy(*command.split())
    assert [word for word in words if word not in done.out] == []
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("command", "call", "body"),
    [
        ("stop brave-otter", "POST /stops", {"names": ["brave-otter"]}),
        ("stop --all", "POST /stops", {"all": True}),
        ("node drain gpu01 --why tea", "POST /nodes/gpu01/drain", {"why": "tea"}),
        ("node resume gpu01", "POST /nodes/gpu01/resume", {}),
        ("user add bob --team nlp", "POST /users", {"name": "bob", "team": "nlp"}),
        ("user role bob admin", "PATCH /users/bob", {"role": "admin"}),
        ("user disable bob", "PATCH /users/bob", {"disabled": True}),
        ("user enable bob", "PATCH /users/bob", {"disabled": False}),
        ("token revoke 7", "DELETE /tokens/7", None),
        ("key remove SHA256:a/b", "DELETE /keys/SHA256:a/b", None),
    ],
)
def test_every_command_that_changes_asks_for_just_that(server, fairy, command, call, body):
    method, path = call.split()
    server.answers[method, path] = {**a_session(), "role": "user", "items": [], "missing": []}
    done = fairy(*command.split())
    assert done.code == 0
    assert [asked.body for asked in server.calls(method, path)] == [body]


def test_a_token_stands_alone_on_stdout(server, fairy):
    server.answers["POST", "/tokens"] = (201, {"token": "fairy_secret", "id": "7"})
    done = fairy("token", "create", "--expires", "30d")
    assert (done.out, server.calls("POST", "/tokens")[0].body) == ("fairy_secret\n", {"expires": "30d"})


def test_a_private_key_never_leaves_the_machine(server, fairy, tmp_path):
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    done = fairy("key", "add", str(tmp_path / "id"))
    assert (done.code, "private key" in done.err, server.asked) == (2, True, [])


def test_the_usual_key_is_added_without_being_named(server, fairy, tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAA me\n")
    server.answers["POST", "/keys"] = (201, {"fingerprint": "SHA256:x"})
    assert fairy("key", "add").out == "added SHA256:x\n"
    assert server.calls("POST", "/keys")[0].body == {"key": "ssh-ed25519 AAAA me"}


def test_an_empty_list_teaches_what_to_try(server, fairy):
    server.answers["GET", "/sessions"] = {"items": [], "next": None}
    assert "fairy run" in fairy("ps").out


def test_ps_asks_for_what_its_options_say(server, fairy):
    server.answers["GET", "/sessions"] = {"items": [], "next": None}
    fairy("ps", "-a", "--all-users", "--state", "RUNNING")
    assert server.asked[0].query == {"all": "1", "all_users": "1", "state": "RUNNING", "limit": "200"}


def test_what_strangers_wrote_cannot_move_the_cursor(server, fairy):
    nasty = running(why="\x1b[2J\u202egone\x9b", owner="\x07")
    server.answers["GET", "/sessions"] = {"items": [nasty], "next": None}
    out = fairy("ps", "--all-users").out
    assert r"\x1b[2J\u202egone\x9b" in out
    assert not {"\x1b", "\u202e", "\x9b", "\x07"} & set(out)


def test_into_a_pipe_nothing_is_cut(server, fairy):
    server.answers["GET", "/sessions"] = {"items": [running(why="w" * 5000)], "next": None}
    assert "w" * 5000 in fairy("ps").out


def test_ended_sessions_and_simulated_gpus_are_marked_in_words(server, fairy):
    items = [ended("a", "failed", 1), ended("b"), a_session("c", seat=a_seat(simulated=True))]
    server.answers["GET", "/sessions"] = {"items": items, "next": None}
    out = fairy("ps", "-a").out
    assert [mark for mark in ("◆ failed", "◇ done", "0.5 simulated") if mark not in out] == []


def test_logs_are_printed_as_they_are_or_as_json(server, fairy):
    server.add(Job([running(), ended()], [b"a\nb", b"c\n"]))
    assert fairy("logs", "brave-otter").out == "a\nbc\n"
    assert json.loads(fairy("logs", "brave-otter", "--json").out)["lines"] == ["a", "bc"]
    followed = fairy("logs", "-f", "brave-otter", "--json").out.splitlines()
    assert [json.loads(line)["line"] for line in followed] == ["a", "bc"]


def test_stop_goes_on_after_one_that_is_not_there(server, fairy):
    job = server.add(Job([running()]))
    done = fairy("stop", "nobody", "brave-otter")
    assert (done.code, job.told_to_stop.is_set()) == (4, True)


def test_login_tries_the_token_and_stores_it_for_its_owner_alone(canned, fairy, tmp_path, monkeypatch):
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert fairy("--token-file", str(tmp_path / "token"), "login", canned.url).code == 0
    stored = tmp_path / ".config/gpufairy/config.toml"
    assert stored.stat().st_mode & 0o777 == 0o600
    for name in ("FAIRY_URL", "FAIRY_TOKEN"):
        monkeypatch.delenv(name)
    assert "student1" in fairy("whoami").out


def test_a_token_that_the_server_refuses_is_not_stored(canned, fairy, tmp_path):
    (tmp_path / "token").write_text("wrong\n")
    assert fairy("--token-file", str(tmp_path / "token"), "login", canned.url).code == 3
    assert not (tmp_path / ".config").exists()


def test_apply_submits_every_session_of_a_file(server, fairy, tmp_path):
    (tmp_path / "two.yaml").write_text("name: a\ngpus: 0.5\ncommand: [ls]\n---\nname: b\n")
    server.add(Job([a_session("a", "PENDING")]))
    server.add(Job([a_session("b", "PENDING", kind="interactive")]))
    assert fairy("apply", "two.yaml").out == "a PENDING\nb PENDING\n"
    assert [asked.body["kind"] for asked in server.calls("POST", "/sessions")] == ["batch", "interactive"]


def test_apply_with_wait_behaves_as_run(server, fairy, tmp_path):
    (tmp_path / "one.toml").write_text('command = ["ls"]\n')
    server.add(Job([running(), ended(outcome="failed", exit_code=6)], [b"out\n"]))
    done = fairy("apply", "one.toml", "--wait")
    assert (done.code, done.out) == (6, "out\n")


@pytest.fixture
def local_server(environment, tmp_path):
    """A process that is written down as the server of this machine; called with its URL."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; print(flush=True); signal.pause()"], stdout=subprocess.PIPE)
    sleeper.stdout.readline()

    def noted(url):
        write_down(LocalServer(sleeper.pid, birth_of(sleeper.pid), url, str(tmp_path / "data")), environment)
        return sleeper

    yield noted
    sleeper.kill()
    sleeper.communicate()


def test_down_stops_the_server_that_was_written_down(fairy, local_server):
    sleeper = local_server("http://127.0.0.1:1")
    assert fairy("down").code == 0
    assert sleeper.wait(timeout=20) != 0
    assert fairy("down").code == 4


def test_down_with_sessions_stops_those_of_that_server(canned, fairy, local_server):
    canned.answers["GET", "/sessions"] = {"items": [running()], "next": None}
    canned.answers["POST", "/stops"] = {"items": [ended()], "missing": []}
    sleeper = local_server(canned.url)
    assert "stopped 1 session" in fairy("down", "--sessions").out
    assert sleeper.wait(timeout=20) != 0


@pytest.mark.parametrize("by_option", [False, True])
def test_down_with_sessions_leaves_the_sessions_of_another_server_alone(canned, fairy, local_server, tmp_path, by_option):
    canned.answers["GET", "/sessions"] = {"items": [running()], "next": None}
    sleeper = local_server("http://127.0.0.1:1")
    (tmp_path / "token").write_text(TOKEN)
    named = ("--server", canned.url, "--token-file", str(tmp_path / "token")) if by_option else ()
    done = fairy(*named, "down", "--sessions")
    assert (done.code, "http://127.0.0.1:1" in done.err) == (2 if by_option else 3, True)
    assert canned.asked == []
    assert sleeper.poll() is None


def test_down_leaves_a_process_alone_that_only_has_the_same_number(fairy, environment, tmp_path):
    write_down(LocalServer(os.getpid(), "0", "http://127.0.0.1:1", str(tmp_path)), environment)
    assert fairy("down").code == 4


def test_help_of_every_command_shows_an_example(fairy):
    for name in COMMANDS:
        done = fairy(name, "-h")
        assert (done.code, "Example:" in done.out) == (0, True), name


def test_logs_that_are_followed_survive_a_broken_line(server, fairy):
    server.add(Job([running(), ended()], [b"one\n", DROP, b"two\n"]))
    assert fairy("logs", "-f", "brave-otter").out == "one\ntwo\n"


def test_events_that_are_followed_come_one_a_line_and_without_a_gap(canned, spawn):
    canned.events = [[{**EVENT, "number": 2}], [{**EVENT, "number": 3}]]
    process = spawn("events", "-f", "--json")
    assert [json.loads(process.stdout.readline())["number"] for _ in range(2)] == [2, 3]
    assert [asked.query["after"] for asked in canned.calls("GET", "/events") if "follow" in asked.query][:2] == ["1", "2"]


def test_events_are_followed_on_after_a_server_that_was_just_starting(canned, spawn):
    canned.events = [(503, {"title": "Database not available", "status": 503, "detail": "starting", "next": "Wait."}), [{**EVENT, "number": 2}]]
    process = spawn("events", "-f", "--json")
    assert json.loads(process.stdout.readline())["number"] == 2


def test_events_that_may_not_be_followed_are_not_asked_for_again(canned, spawn):
    canned.events = [(403, {"title": "Not allowed", "status": 403, "detail": "not for you", "next": "Ask an admin."})]
    assert spawn("events", "-f").wait(timeout=20) == 3
