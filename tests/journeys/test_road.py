"""The road: from one command to a result, as README tells it."""
import json
import re
import tomllib

import pytest

from waits import until, wait_for_state

pytestmark = pytest.mark.slow


def test_up_prints_where_it_is_what_it_found_and_what_to_try(server):
    assert re.search(r"https?://\S+", server.banner)[0].startswith(f"{server.url}/signin?code=")
    for said in ("2 x A100-40GB (simulated)", "Isolation: None", str(server.data), "run --gpus 0.5", "ps -a", "free"):
        assert said in server.banner


def test_run_streams_the_output_returns_the_code_and_brings_the_results(server):
    done = server.fairy("run", "--gpus", "0.5", "--name", "first", "--", "sh", "-c", "echo on $FAIRY_GPUS; echo 42 > $FAIRY_RESULTS/answer; exit 7")
    assert (done.returncode, done.stdout) == (7, "on 0:0.5\n")
    assert (server.folder / "results" / "first" / "answer").read_text() == "42\n"
    assert "exit code 7" in done.stderr


def test_three_of_one_gpu_on_two_run_two_and_then_the_third(server, fairy):
    for name in ("one", "two", "three"):
        assert server.fairy("run", "--gpus", "1fgpu", "--name", name, "--detach", "--", "sleep", "600").returncode == 0
    for name in ("one", "two"):
        wait_for_state(fairy, name, "RUNNING")
    third = fairy.session("three")
    assert (third["state"], third["place"]) == ("PENDING", 1)
    told = server.fairy("why", "three").stdout
    assert "box has at most 0 of one GPU free, 1fgpu asked" in told
    assert server.fairy("stop", "one").returncode == 0
    wait_for_state(fairy, "three", "RUNNING")
    assert wait_for_state(fairy, "one", "ENDED")["outcome"] == "stopped"
    assert {s["name"]: s["state"] for s in fairy.sessions()} == {"two": "RUNNING", "three": "RUNNING"}
    server.fairy("stop", "two", "three")
    wait_for_state(fairy, "three", "ENDED")


def test_only_the_granted_gpus_are_shown_to_a_session(server):
    shown = "echo $CUDA_VISIBLE_DEVICES-$NVIDIA_VISIBLE_DEVICES-$FAIRY_SIMULATED"
    assert server.fairy("run", "--gpus", "2", "--", "sh", "-c", shown).stdout == (
        "GPU-simulated-0000,GPU-simulated-0001-GPU-simulated-0000,GPU-simulated-0001-1\n"
    )
    assert server.fairy("run", "--gpus", "0", "--", "sh", "-c", shown).stdout == "-void-\n"


def test_a_session_file_is_applied_and_its_fields_arrive(server, fairy):
    (server.folder / "train.yaml").write_text(
        "name: from-file\ngpus: 0.25\ncpus: 2\nmemory: 1GiB\ntime: 1h\nimage: pytorch:2.7\n"
        'command: [sh, -c, "echo seed $SEED; test -d $FAIRY_RESULTS"]\nenv: {SEED: "1"}\n'
    )
    done = server.fairy("apply", "train.yaml", "--wait")
    assert (done.returncode, done.stdout) == (0, "seed 1\n")
    request = fairy.session("from-file")["request"]
    assert (request["gpus"], request["cpus"], request["memory_bytes"], request["time_s"]) == ("0.25", 2, 2**30, 3600)
    assert "image is not used here" in done.stderr


def test_a_failed_session_is_tried_again_and_its_log_has_every_try(server, fairy):
    done = server.fairy("run", "--gpus", "0", "--retry", "1", "--name", "flaky", "--", "sh", "-c", "echo try; sleep 1; exit 3")
    assert (done.returncode, done.stdout) == (3, "try\ntry\n")
    assert "flaky PENDING: is tried again in 1 s: exit code 3; try 2 of 2" in done.stderr
    assert fairy.session("flaky")["attempt"] == 2
    whats = [event["what"] for event in fairy.session_events("flaky")]
    assert whats.count("requeued") == 1
    assert whats[-1] == "exited"


def test_a_session_waits_for_another_and_fails_with_it(server, fairy):
    server.fairy("run", "--gpus", "0", "--name", "prepare", "--detach", "--", "sh", "-c", "sleep 0.3")
    done = server.fairy("run", "--gpus", "0", "--name", "then", "--after", "prepare", "--", "echo", "after")
    assert (done.returncode, done.stdout) == (0, "after\n")
    assert fairy.session("prepare")["ended_at"] <= fairy.session("then")["started_at"]
    server.fairy("run", "--gpus", "0", "--name", "broken", "--detach", "--", "false")
    done = server.fairy("run", "--gpus", "0", "--name", "in-vain", "--after", "broken", "--", "true")
    assert done.returncode == 1
    assert "it waited for broken, which ended failed" in done.stderr


def test_a_time_limit_ends_it_as_expired(server, fairy):
    done = server.fairy("run", "--gpus", "0", "--time", "1s", "--name", "long", "--", "sleep", "600")
    assert done.returncode == 1
    session = fairy.session("long")
    assert (session["outcome"], session["why"]) == ("expired", "its time of 1 s is up")


def test_count_runs_several_and_tells_them_apart(server):
    done = server.fairy("run", "--gpus", "0", "--count", "3", "--name", "many", "--", "sh", "-c", "echo $FAIRY_SESSION")
    assert sorted(done.stdout.splitlines()) == ["many-1 | many-1", "many-2 | many-2", "many-3 | many-3"]


def test_start_holds_a_session_until_it_is_stopped(server, fairy):
    assert server.fairy("start", "--gpus", "0.1", "--name", "desk").returncode == 0
    assert wait_for_state(fairy, "desk", "RUNNING")["kind"] == "interactive"
    assert server.fairy("stop", "desk").returncode == 0
    wait_for_state(fairy, "desk", "ENDED")


def test_logs_follow_a_session_as_it_writes(server, fairy):
    fairy.submit({"name": "writer", "gpus": "0", "command": ["sh", "-c", "echo early; read x < $HOME/gate; echo late"], "workdir": "~"})
    wait_for_state(fairy, "writer", "RUNNING", "ENDED")
    follower = fairy.again()
    chunks = follower.logs("writer", follow=True)
    first = next(chunks)
    assert first.startswith(b"early\n")
    follower.close()


def test_free_and_gpus_mark_what_is_simulated_and_who_holds_it(server, fairy):
    server.fairy("run", "--gpus", "0.5", "--name", "holder", "--detach", "--", "sh", "-c", "while :; do :; done")
    wait_for_state(fairy, "holder", "RUNNING")
    gpu = fairy.gpus()[0]
    assert (gpu["simulated"], gpu["free_share"], gpu["accounted"], gpu["enforced"]) == (True, 0.5, ["memory", "sm"], [])
    assert gpu["holders"][0]["session"] == "holder"
    # As much as the loop gets of a CPU, which is little where many others run.
    busy = until(lambda: (load := fairy.gpus()[0]["utilisation"]) and load > 0.02 and load, "the simulated GPU to look busy")
    assert busy <= 1
    table = server.fairy("free").stdout
    assert "simulated" in table
    server.fairy("stop", "holder")
    wait_for_state(fairy, "holder", "ENDED")


@pytest.mark.parametrize("command", ["ps -a", "free", "queue", "whoami", "events", "node list", "user list", "token list", "key list"])
def test_every_reading_command_speaks_json(server, command):
    done = server.fairy(*command.split(), "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


def test_a_drained_node_takes_nothing_new_until_it_is_resumed(server, fairy):
    assert server.fairy("node", "drain", "box", "--why", "new fan").returncode == 0
    fairy.submit({"name": "patient", "gpus": "0", "command": ["true"]})
    assert "box is drained: new fan" in until(lambda: fairy.why("patient")["summary"], "a reason")
    assert fairy.session("patient")["state"] == "PENDING"
    assert server.fairy("node", "resume", "box").returncode == 0
    assert wait_for_state(fairy, "patient", "ENDED")["outcome"] == "done"


def test_a_second_server_on_the_same_data_refuses_to_start(server):
    env = {**server.env, "XDG_CONFIG_HOME": str(server.folder / "other")}
    done = server.fairy("up", "--data", str(server.data), "--port", "0", env=env)
    assert done.returncode != 0
    assert str(server.pid) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named_with_who_has_it(server):
    done = server.fairy("up", "--data", str(server.folder / "d2"), "--port", str(server.port))
    assert done.returncode == 1
    assert f"port {server.port} is taken by python" in done.stderr


def test_the_sign_in_is_private_and_no_secret_is_in_the_log(server):
    path = server.folder / "config" / "gpufairy" / "config.toml"
    assert path.stat().st_mode & 0o077 == 0
    assert tomllib.loads(path.read_text())["token"] not in server.log
    assert server.token.encode() not in (server.data / "fairy.db").read_bytes()
    for file in (server.data / "fairy.db", server.data):
        assert file.stat().st_mode & 0o077 == 0
