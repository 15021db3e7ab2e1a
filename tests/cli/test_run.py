"""`fairy run`, as its users meet it: waiting, output, results, codes, Ctrl-C, restarts."""
import io
import json
import os
import pty
import signal
import subprocess
import tarfile

import pytest
from fake_server import DROP, HOLD, Job, a_seat, a_session, ended, running


def a_tar(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("UP", ".."))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_a_job_that_waits_says_why_then_streams_and_exits_with_its_code(server, fairy):
    waits = a_session(state="PENDING", place=3, why="gpu01 has 0 GPUs free")
    server.add(Job([waits, running(), ended(outcome="failed", exit_code=7, why="exited with 7")], [b"step 1\n", b"\xff\x00\n"]))
    done = fairy("run", "--gpus", "0.5", "--", "python", "train.py", "--epochs", "3")
    assert done.code == 7
    assert done.out.startswith("step 1\n")
    assert "brave-otter PENDING: place 3, gpu01 has 0 GPUs free\n" in done.err
    assert "fairy: brave-otter failed: exited with 7" in done.err


def test_output_is_passed_on_byte_for_byte(server, spawn):
    raw = bytes(range(256)) * 10
    server.add(Job([running(), ended()], [raw]))
    out, _ = spawn("run", "--", "cat", "blob").communicate(timeout=20)
    assert out == raw


def test_only_what_was_asked_is_sent_and_as_it_was_typed(server, fairy, tmp_path):
    server.add(Job([ended()]))
    options = "--gpus 0.50 --memory 16G --env A=b=c --priority -2 --port 80 --after x"
    fairy("run", *options.split(), "sh", "-c", "ls -l")
    [asked] = server.calls("POST", "/sessions")
    assert asked.body == {
        "kind": "batch", "gpus": "0.50", "memory": "16G", "env": {"A": "b=c"}, "priority": -2, "ports": [80], "after": ["x"],
        "command": ["sh", "-c", "ls -l"], "workdir": str(tmp_path),
    }  # fmt: skip
    assert asked.headers["Idempotency-Key"]


@pytest.mark.parametrize("machine", ["0123456789abcdef", None])
def test_this_folder_is_not_sent_to_a_server_at_the_far_end_of_a_tunnel(server, fairy, machine):
    server.answers["GET", "/me"] = {"name": "student1", "machine": machine}
    server.add(Job([ended()]))
    fairy("run", "true")
    [asked] = server.calls("POST", "/sessions")
    assert "workdir" not in asked.body


def test_notes_of_the_server_are_said(server, fairy):
    server.add(Job([ended()]))
    assert "fairy: cpus are only counted here" in fairy("run", "true").err


def on_a_part(name="brave-otter", state="RUNNING"):
    seat = a_seat()
    return a_session(name, state, revision=3, seat={**seat, "gpus": [{**seat["gpus"][0], "note": "A fraction shares faults."}]})


def test_what_a_part_of_a_gpu_means_is_said_once_when_it_starts_and_before_its_output(server, spawn):
    server.add(Job([a_session(state="PENDING"), on_a_part(state="STARTING"), {**on_a_part(), "revision": 4}, ended()], [b"step 1\n"]))
    process = spawn("run", "--gpus", "0.5", "true", stderr=subprocess.STDOUT)
    lines = process.communicate(timeout=20)[0].decode().splitlines()
    assert lines.count("A fraction shares faults.") == 1
    assert lines.index("A fraction shares faults.") < lines.index("step 1")


def test_it_is_said_once_for_several_and_neither_to_scripts_nor_with_a_log(server, fairy):
    for name in ("one", "two"):
        server.add(Job([on_a_part(name), ended(name)]))
    assert fairy("run", "--count", "2", "true").err.count("A fraction shares faults.") == 1
    server.add(Job([on_a_part()]))
    assert "faults" not in fairy("run", "--detach", "--json", "true").err
    server.add(Job([on_a_part("three"), ended("three")]))
    assert "faults" not in fairy("logs", "-f", "three").err


@pytest.mark.parametrize("outcome", ["stopped", "expired", "lost", "evicted"])
def test_a_job_that_did_not_end_by_itself_is_a_failure_with_its_reason(server, fairy, outcome):
    server.add(Job([ended(outcome=outcome, exit_code=None, why="its time was up")]))
    done = fairy("run", "true")
    assert (done.code, f"brave-otter {outcome}: its time was up" in done.err) == (1, True)


def test_detach_prints_the_name_and_returns(server, fairy):
    server.add(Job([a_session(state="PENDING")]))
    done = fairy("run", "--detach", "true")
    assert (done.code, done.out) == (0, "brave-otter\n")


def test_detach_as_json_prints_the_session(server, fairy):
    server.add(Job([a_session(state="PENDING")]))
    assert json.loads(fairy("run", "--detach", "--json", "true").out)["name"] == "brave-otter"


def test_a_broken_line_and_a_restarting_server_cost_no_output(server, fairy):
    server.add(Job([running(), ended()], [b"one\n", DROP, b"two\n", DROP, b"three\n"], unanswered=1))
    done = fairy("run", "true")
    assert (done.code, done.out) == (0, "one\ntwo\nthree\n")


def test_results_land_in_a_folder_of_their_own_and_overwrite_nothing(server, fairy, tmp_path):
    (tmp_path / "results" / "brave-otter").mkdir(parents=True)
    server.add(Job([ended()], results=a_tar(model__weights=b"w" * 100_000)))
    done = fairy("run", "true")
    assert "results in results/brave-otter-2" in done.err
    assert (tmp_path / "results/brave-otter-2/model/weights").read_bytes() == b"w" * 100_000


def test_results_that_would_escape_are_left_out_and_said(server, fairy, tmp_path):
    server.add(Job([ended()], results=a_tar(UP__UP__evil=b"x", good=b"y")))
    done = fairy("run", "true")
    assert "left out of the results" in done.err
    assert (tmp_path / "results/brave-otter/good").read_bytes() == b"y"
    assert not (tmp_path / "evil").exists()


def test_results_that_cannot_be_read_leave_the_job_its_code(server, fairy):
    server.add(Job([ended(outcome="failed", exit_code=9)], results=b"no tar at all"))
    done = fairy("run", "true")
    assert done.code == 9
    assert "fairy results brave-otter" in done.err


def test_several_jobs_are_told_apart_and_the_first_failure_is_the_code(server, fairy):
    server.add(Job([running("a"), ended("a")], [b"x\ny"]))
    server.add(Job([running("b"), ended("b", "failed", 4)], [b"z\n"]))
    server.add(Job([running("c"), ended("c", "failed", 5)]))
    done = fairy("run", "--count", "3", "true")
    assert done.code == 4
    assert sorted(done.out.splitlines()) == ["a | x", "a | y", "b | z"]


def test_interrupted_without_a_terminal_the_job_is_stopped(server, spawn):
    job = server.add(Job([running(), ended(outcome="stopped")], [b"ready\n", HOLD]))
    process = spawn("run", "true")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert job.told_to_stop.is_set()
    assert b"stopping brave-otter" in err


def test_interrupted_at_a_terminal_the_job_may_be_left_running(server, spawn):
    job = server.add(Job([running(), ended()], [b"ready\n", HOLD]))
    ours, theirs = pty.openpty()
    process = spawn("run", "true", stdin=theirs, stderr=theirs)
    os.close(theirs)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    said = b""
    while b"leave it running]" not in said:
        said += os.read(ours, 1024)
    os.write(ours, b"d\n")
    assert process.wait(timeout=20) == 130
    assert not job.told_to_stop.is_set()
    os.close(ours)


def test_a_closed_pipe_is_no_error(server, spawn):
    server.add(Job([running(), ended()], [b"x\n" * 200_000]))
    process = spawn("run", "true")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read().decode().splitlines() == ["fairy: cpus are only counted here", "brave-otter"]


def test_start_waits_until_the_session_is_ready(server, fairy):
    server.add(Job([a_session(state="PENDING", kind="interactive"), running()]))
    done = fairy("start", "--gpus", "0")
    assert (done.code, done.out) == (0, "brave-otter\n")
    assert "brave-otter is ready on gpu01" in done.err
    assert server.calls("POST", "/sessions")[0].body["kind"] == "interactive"


def test_the_results_command_fetches_them_later(server, fairy, tmp_path):
    server.add(Job([ended()], results=a_tar(good=b"y")))
    done = fairy("results", "brave-otter")
    assert done.out == "results/brave-otter\n"
    assert (tmp_path / "results/brave-otter/good").exists()
