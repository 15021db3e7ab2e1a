"""Turns, quotas, bookings, gangs, forecasts, the ledger and the simulator on the real server, from the command line."""
import json
from datetime import UTC, datetime

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = pytest.mark.slow  # servers of their own

SETTINGS = """
[node]
cpus = 16
memory = "64GiB"
name = "box"
"""
SMALL = ("--cpus", "0.5", "--memory", "256MiB")


@pytest.fixture
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("turns"), SETTINGS, ("--simulate", "2xA100-40GB")) as live:
        yield live


@pytest.fixture
def ann(server):
    server.fairy("user", "add", "ann", "--team", "nlp", check=True)
    token = json.loads(server.fairy("token", "create", "--user", "ann", "--json", check=True).stdout)["token"]
    return As(server, token)


class As:
    """Somebody else at the same command line."""

    def __init__(self, server, token):
        self.server, self.token, self.client = server, token, server.client(token)

    def fairy(self, *arguments, **options):
        env = {**self.server.env, "FAIRY_URL": self.server.url, "FAIRY_TOKEN": self.token}
        return self.server.fairy(*arguments, env=env, **options)


def as_json(somebody, *arguments):
    return json.loads(somebody.fairy(*arguments, "--json", check=True).stdout)


def test_a_quota_holds_says_so_and_lets_preemptible_sessions_borrow(server, ann):
    server.fairy("quota", "set", "user:ann", "--gpus", "1", check=True)
    ann.fairy("run", "--detach", "--name", "first", "--gpus", "1", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(ann.client, "first", "RUNNING")
    ann.fairy("run", "--detach", "--name", "second", "--gpus", "1", *SMALL, "--", "sleep", "600", check=True)
    told = until(lambda: words if "with --preemptible it may borrow" in (words := ann.fairy("why", "second").stdout) else "", "the quota's words")
    assert "ann holds 1 of their 1 GPUs" in told
    ann.fairy("run", "--detach", "--name", "guest", "--gpus", "1", "--preemptible", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(ann.client, "guest", "RUNNING")
    refused = ann.fairy("run", "--gpus", "2", *SMALL, "--", "true")
    assert refused.returncode == 3
    assert "quota" in refused.stderr
    [quota] = as_json(server, "quota", "list")["items"]
    assert quota["of"] == "user:ann"
    ann.fairy("stop", "first", check=True)
    wait_for_state(ann.client, "second", "RUNNING")
    for wrong in (["user:ann", "--gpus", "-1"], ["user:nobody", "--gpus", "1"], ["ann", "--gpus", "1"]):
        answer = server.fairy("quota", "set", *wrong)
        assert answer.returncode in (2, 4), (wrong, answer)
        assert answer.stderr.count("\n") <= 3
    assert server.fairy("team", "share", "nlp", "-2").returncode == 2


def test_a_booking_keeps_its_gpus_and_the_queue_works_around_it(server, ann):
    booked = as_json(server, "book", "--gpus", "2", "--from", "in 1h", "--for", "1h", "--team", "nlp", "--title", "CS231n")
    assert len(booked["gpus"]) == 2
    server.fairy("run", "--detach", "--name", "short", "--gpus", "1", "--time", "30m", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(server.client(), "short", "RUNNING")
    server.fairy("run", "--detach", "--name", "long", "--gpus", "1", "--time", "3h", *SMALL, "--", "sleep", "600", check=True)
    told = until(lambda: words if "CS231n" in (words := server.fairy("why", "long").stdout) else "", "the booking's words")
    assert "booked for CS231n" in told
    start = datetime.fromisoformat(as_json(server, "why", "long")["forecast_start"])
    assert start >= datetime.fromisoformat(booked["until"])
    refused = server.fairy("book", "--gpus", "1", "--from", "in 90m", "--for", "1h", "--title", "too late")
    assert refused.returncode in (1, 3)
    assert "CS231n" in refused.stderr
    assert "CS231n" in server.fairy("book", "show").stdout
    server.fairy("book", "cancel", booked["id"], check=True)
    wait_for_state(server.client(), "long", "RUNNING")
    now_booked = as_json(server, "book", "--gpus", "1", "--from", "now", "--for", "1h", "--team", "nlp", "--title", "deadline")
    assert datetime.fromisoformat(now_booked["from"]) <= datetime.now(UTC)
    ann.fairy("run", "--detach", "--name", "mine", "--gpus", "1", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(ann.client, "mine", "RUNNING", limit_s=90)


def test_one_who_waits_is_told_when_why_and_what_would_help(server, ann):
    server.fairy("run", "--detach", "--name", "holder", "--gpus", "1.0", "--time", "2h", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(server.client(), "holder", "RUNNING")
    ann.fairy("run", "--detach", "--name", "both", "--gpus", "2", "--time", "1h", *SMALL, "--", "sleep", "600", check=True)
    wait = until(lambda: found if (found := as_json(ann, "why", "both"))["forecast_start"] else None, "a forecast")
    ahead_s = (datetime.fromisoformat(wait["forecast_start"]) - datetime.now(UTC)).total_seconds()
    assert 7000 < ahead_s <= 7200
    told = ann.fairy("why", "both").stdout
    assert "--gpus 0.5" in told or "--gpus 1" in told
    assert "holder" not in told  # what others call their sessions is nobody's business
    assert as_json(ann, "queue")["items"][0]["forecast_start"] == wait["forecast_start"]


def test_a_gang_starts_together_and_the_ledger_adds_up(server, ann):
    server.fairy("run", "--detach", "--name", "blocker", "--gpus", "1", *SMALL, "--", "sleep", "600", check=True)
    wait_for_state(server.client(), "blocker", "RUNNING")
    ann.fairy("run", "--detach", "--name", "pair", "--count", "2", "--together", "--gpus", "1", *SMALL, "--", "sleep", "600", check=True)
    until(lambda: "start together" in ann.fairy("why", "pair-1").stdout, "the gang's words")
    server.fairy("stop", "blocker", check=True)
    wait_for_state(ann.client, "pair-1", "RUNNING")
    wait_for_state(ann.client, "pair-2", "RUNNING")
    ann.fairy("stop", "pair-1", "pair-2", check=True)
    wait_for_state(ann.client, "pair-1", "ENDED")
    wait_for_state(ann.client, "pair-2", "ENDED")
    rows = as_json(server, "ledger", "--since", "1h")["items"]
    by_name = {row["name"]: row for row in rows}
    assert by_name["ann"]["held_part_us"] > 0
    assert sum(row["held_part_us"] - row["entitled_part_us"] for row in rows) == 0


def test_a_policy_is_tried_on_a_trace_without_a_server(tmp_path, server):
    trace = tmp_path / "jobs.csv"
    trace.write_text("submit,duration,gpus,user\n0,3600,2,ann\n60,600,1,bob\n120,600,1,ann\n")
    found = json.loads(server.fairy("simulate", str(trace), "--nodes", "1x2xA100-40GB", "--policy", "fair,fifo", "--json", check=True).stdout)
    assert {row["policy"] for row in found["policies"]} == {"fair", "fifo"}
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("submit,duration,gpus,user\n0,-5,1,ann\n")
    refused = server.fairy("simulate", str(wrong), "--nodes", "1x2xA100-40GB")
    assert refused.returncode == 2
    assert "line 2" in refused.stderr
