"""The command line against a canned server: in this process where that says enough, as a real process where it does not."""
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from command_line import COMMAND, SOURCE
from fake_server import TOKEN, FakeServer

from gpufairy.cli.entry import run


@pytest.fixture
def server():
    fake = FakeServer()
    yield fake
    fake.close()


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def environment(server, tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(SOURCE), "FAIRY_URL": server.url, "FAIRY_TOKEN": TOKEN, "COLUMNS": "200"}


@pytest.fixture
def fairy(environment, tmp_path, monkeypatch, capfd):
    """Runs a command in this process."""
    for name in list(os.environ):
        if name.startswith(("FAIRY_", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            run(arguments)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Done(left.value.code or 0, out, err)

    return call


@pytest.fixture
def spawn(environment, tmp_path):
    """Starts a command as a process of its own; what is left of it is killed at the end."""
    started = []

    def start(*arguments, **options):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**streams, "cwd": tmp_path, "env": environment, **options}
        started.append(process := subprocess.Popen([*COMMAND, *arguments], **given))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
