"""The server set up in other ways: on PostgreSQL, with MIG, with fGPU and presets, in the background; and a Ctrl-C."""
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from bench.server import LiveServer

from gpufairy.client.local_server import find_running
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow  # servers of their own


@pytest.mark.system
def test_the_road_on_postgresql_and_a_killed_server_is_followed_by_another(tmp_path, postgres_url):
    with LiveServer(tmp_path / "fairy", f"[server]\nstore = '{postgres_url}'\n") as server:
        assert server.fairy("run", "--gpus", "0.5", "--", "echo", "on postgres").stdout == "on postgres\n"
        client = server.client()
        client.submit({"name": "survivor", "gpus": "1", "command": ["sleep", "3600"]})
        wait_for_state(client, "survivor", "RUNNING")
        server.kill()
        server.start()
        assert wait_for_state(server.client(), "survivor", "RUNNING")["attempt"] == 1


@pytest.mark.system
def test_a_second_server_on_postgresql_waits_for_the_lease_and_takes_over(tmp_path, postgres_url):
    settings = f"[server]\nstore = '{postgres_url}'\n"
    with LiveServer(tmp_path / "first", settings) as first:
        first.fairy("run", "--gpus", "0", "--name", "before", "--", "true")
        waiting = subprocess.Popen(
            [sys.executable, "-m", "gpufairy", "up", "--data", str(tmp_path / "second"), "--port", "0", "--config", str(first.folder / "fairy.toml")],
            env={**first.env, "XDG_CONFIG_HOME": str(tmp_path / "config2")}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        first.stop()
        assert "is up" in waiting.stdout.readline()
        waiting.terminate()
        waiting.wait(20)
        waiting.stdout.close()
        first.start()


def test_mig_shares_are_cut_on_demand_and_by_a_fixed_cut(tmp_path):
    with LiveServer(tmp_path / "fairy", "[node]\ncpus = 16\n", ("--simulate", "1xA100-40GB:mig,1xA100-40GB:mig=3g.20gb+3g.20gb")) as server:
        client = server.client()
        for number in range(2):
            client.submit({"name": f"three-{number}", "gpus": "mig:3g.20gb", "command": ["sleep", "600"]})
            wait_for_state(client, f"three-{number}", "RUNNING")
        client.submit({"name": "small", "gpus": "mig:1g.5gb", "command": ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]})
        assert wait_for_state(client, "small", "ENDED")["seat"]["gpus"][0]["profile"] == "1g.5gb"
        seat = client.session("three-0")["seat"]["gpus"][0]
        assert (seat["profile"], seat["simulated"], seat["share"]) == ("3g.20gb", True, 0.428571)
        refused = ask(server.url, "POST", "/api/v1/sessions", token=server.token, body={"command": ["true"], "gpus": "0.5"})
        assert refused.status == 422
        assert "cut by MIG" in refused.json["detail"]
        gpus = client.gpus()
        assert [gpu["mig"] for gpu in gpus] == [True, True]
        assert [len(gpu["instances"] or []) for gpu in gpus] == [0, 2]


def test_fgpu_and_presets_are_as_the_admin_set_them(tmp_path):
    settings = "[gpus]\nsimulate = '1xA100-40GB'\nfgpu_per_gpu = 2\n[node]\ncpus = 8\n[presets.small]\ngpus = '1fgpu'\ncpus = 1\nmemory = '1GiB'\n"
    with LiveServer(tmp_path / "fairy", settings) as server:
        client = server.client()
        for name in ("one", "two", "three"):
            assert server.fairy("run", "--preset", "small", "--name", name, "--detach", "--", "sleep", "600").returncode == 0
        for name in ("one", "two"):
            assert wait_for_state(client, name, "RUNNING")["seat"]["gpus"][0]["share"] == 0.5
        assert client.session("three")["state"] == "PENDING"
        server.fairy("stop", "one")
        wait_for_state(client, "three", "RUNNING")
        refused = server.fairy("run", "--preset", "smal", "--", "true")
        assert refused.returncode == 2
        assert "did you mean small?" in refused.stderr


def test_up_in_the_background_returns_when_it_serves_and_down_leaves_sessions_alone(tmp_path):
    tool = LiveServer(tmp_path / "fairy")
    begun = tool.fairy("up", "-d", "--data", str(tool.data), "--port", "0")
    assert begun.returncode == 0, begun.stderr
    assert "/signin?code=" in begun.stdout
    assert "/signin?code=" not in (tool.data / "server.log").read_text()
    tool.fairy("run", "--gpus", "0", "--name", "stays", "--detach", "--", "sh", "-c", "echo $$ > $HOME/pid; exec sleep 3600")
    pid_file = tool.data / "sessions" / "home"
    pid = int(until(lambda: next((text for path in pid_file.glob("*/pid") if (text := path.read_text().strip())), None), "its pid"))
    again = tool.fairy("up", "-d", "--data", str(tool.data), "--port", "0")
    assert again.returncode == 1
    assert "did not start" in again.stderr
    assert "\\n" not in again.stderr
    assert "sessions run on" in tool.fairy("down").stdout
    os.kill(pid, 0)
    assert tool.fairy("ps").returncode == 5
    assert tool.fairy("down").returncode == 4
    assert tool.fairy("up", "-d", "--data", str(tool.data), "--port", "0").returncode == 0
    assert "stopped 1 session" in tool.fairy("down", "--sessions").stdout
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the session to end")


def test_ctrl_c_without_a_terminal_stops_the_job_and_exits_130(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        client = server.client()
        job = subprocess.Popen(
            [sys.executable, "-m", "gpufairy", "run", "--gpus", "0", "--name", "job", "--", "sleep", "600"],
            env=server.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=server.folder,
        )  # fmt: skip
        until(lambda: any(s["state"] == "RUNNING" for s in client.sessions()), "the job to run")
        job.send_signal(signal.SIGINT)
        assert job.wait(20) == 130
        assert wait_for_state(client, "job", "ENDED")["outcome"] == "stopped"


def test_ctrl_c_on_a_terminal_asks_once_and_stops_it(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        client = server.client()
        ours, theirs = pty.openpty()
        job = subprocess.Popen(
            [sys.executable, "-m", "gpufairy", "run", "--gpus", "0", "--name", "job", "--", "sleep", "600"],
            env=server.env, stdin=theirs, stdout=theirs, stderr=theirs, cwd=server.folder, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        wait_for_state_once_there(client)
        job.send_signal(signal.SIGINT)
        said = b""
        while b"Stop job?" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"y\n")
        assert job.wait(20) == 130
        os.close(ours)
        assert wait_for_state(client, "job", "ENDED")["outcome"] == "stopped"


def wait_for_state_once_there(client):
    until(lambda: any(s["state"] == "RUNNING" for s in client.sessions()), "the job to run")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--simulate", "2xH10O"), "H10"),
        (("--engine", "podman"), "--engine: found 'podman'"),
        (("--config", "nope.toml"), "settings file nope.toml cannot be read"),
        (("--port", "99999"), "99999 is no port"),
        (("--data", "/proc/nope"), "/proc/nope"),
    ],
)
def test_bad_options_of_up_are_told_in_one_sentence(tmp_path, options, said):
    tool = LiveServer(tmp_path / "fairy")
    done = tool.fairy("up", *(("--data", str(tool.data)) if "--data" not in options else ()), *options)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[polcy]\n", "unknown field 'polcy' (did you mean policy?)"),
        ("[policy]\nhalf_live = '1d'\n", "did you mean half_life?"),
        ("[policy]\nhalf_life = 'long'\n", "policy.half_life: 'long' is no duration"),
        ("[gpus]\nfgpu_per_gpu = -1\n", "fgpu_per_gpu"),
        ("[limits]\nconnections = 0\n", "limits.connections: 0 is not between 1 and 1000000"),
        ("[limits]\nrequest_time = '1ms'\n", "limits.request_time: "),
        ("[limits]\ntrusted = ['proxy']\n", "limits.trusted: 'proxy' is neither an address nor a network"),
        ("x = [[[", "fairy.toml"),
        ("[presets.big]\ngpsu = 1\n", "gpsu"),
    ],
)
def test_bad_settings_are_told_by_name_with_the_nearest_right_one(tmp_path, settings, said):
    tool = LiveServer(tmp_path / "fairy", settings)
    done = tool.fairy("up", "--data", str(tool.data), "--port", "0", "--config", str(tool.folder / "fairy.toml"))
    assert done.returncode == 2
    assert said in done.stderr


def test_a_server_that_leaves_ends_its_streams_first_and_quietly(tmp_path):
    live = LiveServer(tmp_path / "fairy")
    with live as server:
        client = server.client()
        client.submit({"name": "talker", "gpus": "0", "command": ["sh", "-c", "echo hello; sleep 600"]})
        wait_for_state(client, "talker", "RUNNING")
        streams = [server.client().events(follow=True, after="0"), server.client().logs("talker", follow=True)]
        for stream in streams:
            next(stream)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 2
        assert "Traceback" not in server.log
        server.start()


def test_two_servers_keep_their_sign_ins_and_each_is_stopped_by_its_data(tmp_path):
    tool = LiveServer(tmp_path / "fairy")
    for name in ("one", "two"):
        assert tool.fairy("up", "-d", "--data", str(tmp_path / name), "--port", "0").returncode == 0
    urls = [find_running({}, tmp_path / name).url for name in ("one", "two")]
    for url in urls:
        assert tool.fairy("--server", url, "whoami").returncode == 0
    assert urls[0] in tool.fairy("down", "--data", str(tmp_path / "one")).stdout
    assert tool.fairy("whoami").returncode == 0
    assert urls[1] in tool.fairy("down").stdout


def test_many_are_stopped_at_once_and_none_starts_in_anothers_place(tmp_path):
    with LiveServer(tmp_path / "fairy", "", ("--simulate", "1xA100-40GB")) as server:
        client = server.client()
        client.submit({"name": "many", "gpus": "1", "command": ["sleep", "600"]}, count=50)
        wait_for_state(client, "many-1", "RUNNING")
        done = server.fairy("stop", "--all")
        assert done.returncode == 0
        until(lambda: not list(client.sessions()), "all to end")
        assert [s["name"] for s in client.sessions(ended=True) if s["started_at"]] == ["many-1"]
        missing = server.fairy("stop", "nobody")
        assert (missing.returncode, "has no session 'nobody'" in missing.stderr) == (4, True)
