"""`fairy top` as a command: what it prints without a terminal, and how one leaves it with one."""
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from canned import GIB, a_gpu, a_host, a_node, a_process

from cli.fake_server import TOKEN

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

COMMAND = [sys.executable, "-c", "from gpufairy.cli.entry import run; run()", "top"]
SOURCE = Path(__file__).parents[2] / "src"
LIMIT_S = 20


@pytest.fixture
def environment(server, tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(SOURCE), "FAIRY_URL": server.url, "FAIRY_TOKEN": TOKEN, "TERM": "xterm-256color"}


@pytest.fixture
def top(server, environment):
    """Runs it to its end, into pipes."""
    gpu = a_gpu(utilisation=0.5, memory_used_bytes=20 * GIB, processes=[a_process(4242, "alice")])
    server.answers["GET", "/nodes"] = {"items": [a_node("gpu01", [gpu, a_gpu(1)], host=a_host())], "next": None}

    def call(*arguments):
        return subprocess.run([*COMMAND, *arguments], check=False, env=environment, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)

    return call


def test_into_a_pipe_it_prints_once_and_ends(top):
    done = top()
    first, _, head, taken, free = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert first.startswith("1 of 2 GPUs free · 50% busy · 20/141 GiB")
    assert head.split()[:4] == ["HOST", "GPU", "KIND", "UTIL"]
    assert "alice" in taken
    assert "brave-otter" in taken
    assert " - " in free
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("view", "words"), [("users", "alice"), ("sessions", "brave-otter"), ("hosts", "128/512 GiB")])
def test_every_view_can_be_printed(top, view, words):
    assert words in top("--view", view, "--once").stdout


def test_json_is_one_document_a_poll_until_interrupted(top, environment):
    one = json.loads(top("--json", "--once").stdout)
    assert one["items"][0]["name"] == "gpu01"
    with subprocess.Popen([*COMMAND, "--json", "--every", "0.2"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert [json.loads(process.stdout.readline())["items"][0]["name"] for _ in range(3)] == ["gpu01"] * 3
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130
        assert b"Traceback" not in process.stderr.read()


def test_a_server_that_is_not_there_is_a_sentence_and_exit_code_5(top, environment):
    environment["FAIRY_URL"] = "http://127.0.0.1:1"
    done = top("--once")
    assert done.returncode == 5
    assert "no answer from the server" in done.stderr


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_q_and_ctrl_c_leave_at_once_even_while_the_server_hangs(environment, key):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment["FAIRY_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        leader, follower = pty.openpty()
        with subprocess.Popen(COMMAND, env=environment, stdin=follower, stdout=follower, stderr=follower, start_new_session=True) as process:
            os.close(follower)
            try:
                read_until(leader, b"Asking the server")
                os.write(leader, key)
                began_s = time.monotonic()
                read_until(leader, b"\x1b[?1049l")  # back from the other screen
                assert process.wait(LIMIT_S) == 0
                assert time.monotonic() - began_s < 5
            finally:
                process.kill()
                os.close(leader)


def read_until(leader, wanted):
    seen, end_s = b"", time.monotonic() + LIMIT_S
    while wanted not in seen:
        ready, _, _ = select.select([leader], [], [], max(0, end_s - time.monotonic()))
        assert ready, seen[-500:]
        seen += os.read(leader, 65536)
