"""Reclaim and preemption on the real server, from the command line: simulated GPUs are as busy as the processes that hold them."""
import json

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = pytest.mark.slow

SETTINGS = """
[node]
cpus = 8
memory = "16GiB"
name = "box"
[policy]
preempt_after = "1s"
preempt_notice = "1s"
[reclaim]
idle_after = "4s"
grace = "2s"
[reclaim.teams.strict]
lend = false
stop = true
"""
SMALL = ("--cpus", "1", "--memory", "256MiB")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("reclaim"), SETTINGS, ("--simulate", "1xA100-40GB")) as live:
        yield live


def shown(server, name):
    return json.loads(server.fairy("show", name, "--json").stdout)


def step(server, name):
    return shown(server, name)["idle"]["step"]


def test_an_idle_gpu_is_lent_and_given_back_when_its_holder_works(server):
    client = server.client()
    # It rests until there is a file to say that it should work.
    flag = server.folder / "work"
    loop = f"while ! test -e {flag}; do sleep 0.2; done; while test -e {flag}; do :; done; sleep 1000"
    server.fairy("run", "--detach", "--name", "desk", "--gpus", "1", *SMALL, "--", "sh", "-c", loop)
    wait_for_state(client, "desk", "RUNNING")
    server.fairy("run", "--detach", "--name", "filler", "--gpus", "1", "--preemptible", *SMALL, "--", "sleep", "1000")
    until(lambda: step(server, "desk") == "warned", "the warning", limit_s=60)
    assert "fairy keep desk 2h" in server.fairy("ps").stdout
    until(lambda: step(server, "desk") == "lent", "its GPU to be lent", limit_s=30)
    wait_for_state(client, "filler", "RUNNING")
    flag.touch()
    until(lambda: step(server, "desk") is None, "its GPU to be its own again", limit_s=60)
    wait_for_state(client, "filler", "PENDING")
    assert shown(server, "filler")["preempted"] == 1
    told = [event["what"] for event in client.session_events("desk")]
    assert [what for what in told if what in ("idle_warned", "lent", "lent_back")] == ["idle_warned", "lent", "lent_back"]
    flag.unlink()
    assert "it keeps its GPUs until" in server.fairy("keep", "desk", "2h").stdout
    server.fairy("stop", "--all")
    wait_for_state(client, "desk", "ENDED")


def test_a_preemptible_session_makes_room_after_a_notice_and_starts_again(server):
    client = server.client()
    server.fairy("run", "--detach", "--name", "low", "--gpus", "1", "--preemptible", *SMALL, "--", "sleep", "1000")
    wait_for_state(client, "low", "RUNNING")
    done = server.fairy("run", "--name", "first", "--gpus", "1", *SMALL, "--", "true")
    assert done.returncode == 0
    low = wait_for_state(client, "low", "RUNNING")
    assert (low["attempt"], low["preempted"]) == (2, 1)
    told = [event["what"] for event in client.session_events("low")]
    assert told.index("preempt_notice") < told.index("preempted") < told.index("requeued")
    server.fairy("stop", "low")
    wait_for_state(client, "low", "ENDED")


def test_a_team_that_has_it_so_loses_idle_sessions_and_resumes_them_by_one_command(server):
    client = server.client()
    client.add_user({"name": "kim", "team": "strict"})
    kims = server.client(client.create_token({"user": "kim"})["token"])
    kims.submit({"name": "desk", "gpus": "1", "kind": "interactive", "cpus": 1, "memory": "256MiB"})
    ended = wait_for_state(kims, "desk", "ENDED", limit_s=60)
    assert (ended["outcome"], ended["idle"]["step"]) == ("evicted", "stopped")
    assert "fairy resume desk" in ended["why"]
    kims.resume_session("desk")
    assert wait_for_state(kims, "desk", "RUNNING")["id"] != ended["id"]
