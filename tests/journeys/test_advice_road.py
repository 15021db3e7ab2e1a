"""Advice on the real server, about real programs: one whose memory is nearly full, one that holds a (simulated) GPU's memory and does nothing."""
import json
import subprocess
import sys

import pytest
from bench.server import LiveServer
from test_web import cookie_of, get, link_of, text

from waits import until, wait_for_state

pytestmark = pytest.mark.slow

SETTINGS = """
[node]
cpus = 8
memory = "16GiB"
name = "box"
[advice]
window = "1m"
"""
FILLS = "held = bytearray(245 << 20)\nimport time; time.sleep(1000)"  # of 256 MiB, with Python itself
HOLDS = "held = bytearray(600 << 20)\nimport time; time.sleep(1000)"  # of a tenth of the GPU: more than a tenth of its memory
RUNS_S = 63  # a job of a minute is worth a summary


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("advice"), SETTINGS, ("--simulate", "2xA100-40GB")) as live:
        yield live


@pytest.fixture(scope="module")
def job(server):
    """Begun first, so that it is over when the others have been looked at long enough."""
    command = [sys.executable, "-m", "gpufairy", "run", "--name", "job", "--gpus", "1", "--cpus", "4", "--", "sleep", str(RUNS_S)]
    running = subprocess.Popen(command, env=server.env, cwd=server.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_job = server.client()
    until(lambda: [one for one in wait_for_job.sessions() if one["name"] == "job"], "the job to be submitted")
    yield running
    running.kill()
    running.communicate()


@pytest.fixture(scope="module")
def sessions(server, job):
    client = server.client()
    for name, program, options in (("full", FILLS, ("--gpus", "0", "--memory", "256MiB")), ("idle", HOLDS, ("--gpus", "0.1"))):
        done = server.fairy("run", "--detach", "--name", name, *options, "--", sys.executable, "-c", program)
        assert done.returncode == 0, done.stderr
        wait_for_state(client, name, "RUNNING")
    return client


@pytest.fixture(scope="module")
def cookie(server):
    return cookie_of(get(server, link_of(server)))


def said(client, name):
    return client.advice(name)["items"]


def test_memory_that_is_nearly_full_is_told_by_api_command_and_page(server, sessions, cookie):
    (item,) = until(lambda: said(sessions, "full"), "advice on the full one", 90)
    assert item["code"] == "host_memory"
    assert item["evidence"][0]["of"] == 256 << 20
    assert "Its memory is nearly full: " in server.fairy("advice", "full").stdout
    assert "Its memory is nearly full: " in server.fairy("show", "full").stdout
    for page in ("/", "/sessions/full"):
        shown = text(server, page, cookie)
        assert "What could be better" in shown
        assert "Its memory is nearly full: " in shown
        assert "Beyond its limit it is killed." in shown


def test_memory_held_for_nothing_on_a_simulated_gpu_is_marked_as_simulated(server, sessions):
    (item,) = until(lambda: said(sessions, "idle"), "advice on the idle one", 120)
    assert (item["code"], item["simulated"]) == ("memory_held", True)
    everything = json.loads(server.fairy("advice", "--json").stdout)
    assert {one["session"] for one in everything["items"]} >= {"full", "idle"}
    assert "simulated" in server.fairy("advice", "idle").stdout


def test_others_are_told_nothing_of_it(server, sessions):
    sessions.add_user({"name": "eve", "role": "user"})
    eve = server.client(sessions.create_token({"user": "eve"})["token"])
    assert eve.advice()["items"] == []


def test_a_job_says_at_its_end_what_it_held_and_what_would_have_sufficed(server, job, sessions, cookie):
    _, told = job.communicate(timeout=120)
    assert job.returncode == 0, told
    assert "fairy: job held 0.02 GPU-hours, used 0.00 GPU-hours (0 %)" in told
    assert "would have sufficed: " in told
    shown = json.loads(server.fairy("show", "job", "--json").stdout)
    assert shown["summary"]["sufficed"]["cpus"] == 1
    page = text(server, f"/sessions/{shown['id']}", cookie)
    assert "Next time this would suffice:" in page
