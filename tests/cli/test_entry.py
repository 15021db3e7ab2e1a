"""The way in and the ways out: options before the command, exit codes, errors, speed, completion."""
import os
import resource
import signal
import socket
import subprocess
import sys

import pytest
from command_line import COMMAND
from fake_server import running

from gpufairy import __version__

SLOW = {"fastapi", "pydantic", "sqlalchemy", "httpx", "aiohttp", "asyncio", "starlette", "uvicorn"}


@pytest.mark.parametrize(("status", "code"), [(400, 2), (401, 3), (403, 3), (404, 4), (409, 3), (422, 3), (500, 1), (503, 1)])
def test_each_refusal_of_the_server_has_its_exit_code(server, fairy, status, code):
    server.answers["GET", "/me"] = (status, {"title": "No", "status": status, "detail": "me: found nothing", "next": "Look again."})
    done = fairy("whoami")
    assert (done.code, done.out, done.err) == (code, "", "fairy: me: found nothing\n  → Look again.\n")


def test_the_token_of_one_server_is_not_sent_to_another(server, fairy):
    assert fairy("--server", server.url.replace("127.0.0.1", "localhost"), "ps").code == 3
    assert server.asked == []


def test_an_empty_token_file_is_code_2(server, fairy):
    assert fairy("--server", server.url, "--token-file", "/dev/null", "ps").code == 2


def test_no_answer_is_code_5_and_says_where_it_looked(server, fairy, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("FAIRY_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        done = fairy("ps")
    assert (done.code, "no answer from the server at http://127.0.0.1:" in done.err, "fairy up" in done.err) == (5, True, True)


def test_not_signed_in_says_how_to(fairy, monkeypatch):
    monkeypatch.delenv("FAIRY_URL")
    monkeypatch.delenv("FAIRY_TOKEN")
    done = fairy("ps")
    assert (done.code, "`fairy up`" in done.err, "`fairy login URL`" in done.err) == (3, True, True)


@pytest.mark.parametrize("line", ["pss", "run", "run --count 0 ls", "--no-such", "apply x.json", "run --env = ls", "run --json ls"])
def test_what_cannot_be_understood_is_code_2(fairy, line):
    assert fairy(*line.split()).code == 2


def test_a_bug_of_ours_is_one_line_unless_asked_for(environment, tmp_path):
    broken = [sys.executable, "-c", "import gpufairy.cli.entry as e; e.root_command = None; e.run()", "ps"]
    done = subprocess.run(broken, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines()), "Traceback" in done.stderr) == (1, 2, False)
    done = subprocess.run(broken, env={**environment, "FAIRY_DEBUG": "1"}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


def test_version_and_both_helps(fairy):
    assert fairy("--version").out == f"fairy {__version__}\n"
    assert fairy("-h").out == fairy("--help").out


def test_a_near_miss_is_corrected(fairy):
    assert "Did you mean 'whoami'" in fairy("whoam").err


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "limit_s"), [(["--help"], 0.25), (["ps"], 0.4)])
def test_it_is_quick(server, environment, tmp_path, arguments, limit_s):
    server.answers["GET", "/sessions"] = {"items": [running()], "next": None}
    taken_s = []
    for _ in range(3):
        before_s = worked_s()
        subprocess.run([*COMMAND, *arguments], env=environment, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
        taken_s.append(worked_s() - before_s)
    assert min(taken_s) < limit_s


def worked_s() -> float:
    """The processors' time of commands that have ended: the clock's would measure the neighbours too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_client_side_loads_nothing_of_the_servers(environment, tmp_path):
    modules = "run start apply sessions logs results why cluster signin keys tokens users nodes events machines entry".split()
    code = f"import sys, importlib; [importlib.import_module('gpufairy.cli.' + m) for m in {modules}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()} & SLOW == set()


def test_help_loads_no_command(environment, tmp_path):
    code = "import sys, atexit; atexit.register(lambda: print(*sys.modules)); from gpufairy.cli.entry import run; run(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "gpufairy.cli.table" in done.stdout
    assert not {"gpufairy.cli.run", "gpufairy.cli.sessions", "rich"} & set(done.stdout.split())


def test_the_shell_completes_names_of_sessions(server, environment, tmp_path):
    server.answers["GET", "/sessions"] = {"items": [running("brave-otter"), running("calm-owl")], "next": None}
    asked = {"_FAIRY_COMPLETE": "complete_bash", "COMP_WORDS": "fairy stop b", "COMP_CWORD": "2"}
    done = subprocess.run(COMMAND, env={**environment, **asked}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["brave-otter"]


def test_a_tab_asks_for_one_page_alone(server, environment, tmp_path):
    server.answers["GET", "/sessions"] = {"items": [running(f"brave-{number}") for number in range(200)], "next": "1"}
    asked = {"_FAIRY_COMPLETE": "complete_bash", "COMP_WORDS": "fairy stop b", "COMP_CWORD": "2"}
    done = subprocess.run(COMMAND, env={**environment, **asked}, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20)
    assert len(done.stdout.split()) == 200
    assert len(server.calls("GET", "/sessions")) == 1


def interrupted(process):
    """Ctrl-C as people press it: again if nothing happens. Python drops one that meets it inside a destructor."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            continue
    return None


def test_ctrl_c_while_waiting_for_an_answer_is_code_130(environment, spawn):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = spawn("ps", env={**environment, "FAIRY_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"})
        connection, _ = silent.accept()
        with connection:
            connection.recv(1024)
            assert interrupted(process) == 130
    assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [1, 5000])
def test_a_reader_that_leaves_early_hears_no_complaint(server, spawn, sessions):
    server.answers["GET", "/sessions"] = {"items": [running()] * sessions, "next": None}
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn("ps", stdout=writer)
    os.close(writer)
    assert process.communicate(timeout=20)[1] == b""
