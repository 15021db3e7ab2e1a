"""On macOS: the command line works against a server elsewhere, and what is for a server's machine says so. Pretended, by `darwin/`."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.server import LiveServer

from first_use.clones import ROOT
from gpufairy.cli.table import COMMANDS

FOR_SERVERS = [name for name, row in COMMANDS.items() if row.where.startswith("gpufairy.main.")]
DARWIN = Path(__file__).parent / "darwin"


def fairy_on_macos(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{DARWIN}{os.pathsep}{ROOT / 'src'}"
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **env}
    return subprocess.run([sys.executable, "-P", "-m", "gpufairy", *words], env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("server")) as live:
        yield live


@pytest.mark.slow
@pytest.mark.parametrize("name", FOR_SERVERS)
def test_what_is_for_a_servers_machine_says_so(name):
    done = fairy_on_macos(name)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1, f"fairy: `fairy {name}` is for the machine that runs the server, which is a Linux: this is macOS",
    )  # fmt: skip


def test_a_server_is_not_started_and_what_to_do_instead_is_told():
    assert fairy_on_macos("up").stderr.splitlines()[1] == (
        "  → Start the server on a Linux machine, in a virtual one if need be. Here: `fairy login URL`, then run, ps, ssh and the rest."
    )


@pytest.mark.slow
def test_a_job_is_run_on_a_server_elsewhere(server):
    done = fairy_on_macos("run", "--gpus", "0.5", "--", "echo", "hello", FAIRY_URL=server.url, FAIRY_TOKEN=server.token)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["hello"]), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", ["ps -a", "free", "queue", "smi", "whoami", "usage", "key list"])
def test_what_asks_a_server_works(server, line):
    done = fairy_on_macos(*line.split(), FAIRY_URL=server.url, FAIRY_TOKEN=server.token)
    assert done.returncode == 0, done.stderr
