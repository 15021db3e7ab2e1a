"""Installing as a service: what is written where, what systemd is told, and that it accepts the unit. On a folder in the machine's place."""
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput, Conflict, NotAllowed
from gpufairy.main import install as installing
from gpufairy.main.install import Machine, agent_service, given, install, run_command, server_service, uninstall

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return Machine(tmp_path, Told(), is_root=True)


class Told:
    """What would have been run."""

    def __init__(self):
        self.commands = []

    def __call__(self, command):
        self.commands.append(" ".join(command))


def test_a_server_with_containers_runs_as_root_and_is_started(machine, capsys):
    install(server_service("docker", None, None, ["--port", "8420"]), machine, dry_run=False)
    unit = (machine.root / "etc/systemd/system/fairy-server.service").read_text()
    assert "--data /var/lib/gpufairy --config /etc/gpufairy/fairy.toml --engine docker --port 8420" in unit
    assert "User=" not in unit
    assert machine.run.commands == ["systemctl daemon-reload", "systemctl enable --now fairy-server.service"]
    settings = machine.root / "etc/gpufairy/fairy.toml"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert "journalctl -u fairy-server" in capsys.readouterr().out


def test_a_server_without_containers_gets_a_user_of_its_own(machine):
    install(server_service("process", None, None, []), machine, dry_run=False)
    assert "User=gpufairy\n" in (machine.root / "etc/systemd/system/fairy-server.service").read_text()
    assert machine.run.commands[0].startswith("useradd --system --user-group --home-dir /var/lib/gpufairy --shell /usr/sbin/nologin gpufairy")
    assert any(command.startswith("chown gpufairy:gpufairy") for command in machine.run.commands)


def test_settings_that_are_there_are_left_alone_and_installing_twice_is_harmless(machine):
    settings = machine.root / "etc/gpufairy/fairy.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[policy]\n")
    for _ in range(2):
        install(server_service("docker", None, None, []), machine, dry_run=False)
    assert settings.read_text() == "[policy]\n"


def test_an_agent_is_installed_with_its_server(machine):
    install(agent_service(None, ["--server", "http://gpu01:8420"]), machine, dry_run=False)
    assert "agent --data /var/lib/gpufairy-agent --server http://gpu01:8420\n" in (machine.root / "etc/systemd/system/fairy-agent.service").read_text()


def test_it_goes_again_and_leaves_data_and_settings(machine):
    install(server_service("docker", None, None, []), machine, dry_run=False)
    uninstall("fairy-server.service", machine, dry_run=False)
    assert not (machine.root / "etc/systemd/system/fairy-server.service").exists()
    assert (machine.root / "etc/gpufairy/fairy.toml").exists()
    assert machine.run.commands[-2:] == ["systemctl disable --now fairy-server.service", "systemctl daemon-reload"]
    with pytest.raises(BadInput, match="there is no service"):
        uninstall("fairy-server.service", machine, dry_run=False)


def test_without_systemd_it_is_said_and_nothing_is_written(tmp_path):
    with pytest.raises(BadInput, match="systemd does not run this machine"):
        install(server_service("docker", None, None, []), Machine(tmp_path, Told(), is_root=True), dry_run=False)
    assert list(tmp_path.iterdir()) == []


def test_only_root_installs(machine):
    with pytest.raises(NotAllowed, match="only root"):
        install(server_service("docker", None, None, []), replace(machine, is_root=False), dry_run=False)


def test_a_dry_run_prints_the_unit_and_changes_nothing(tmp_path, capsys):
    install(server_service("docker", None, None, []), Machine(tmp_path, Told(), is_root=False), dry_run=True)
    told = capsys.readouterr().out
    assert "KillMode=process" in told
    assert "systemctl enable --now fairy-server.service" in told
    assert list(tmp_path.iterdir()) == []


def test_options_are_passed_on_as_they_were_given():
    assert given(port=8420, ssh_port=None, listen="0.0.0.0", dra=True) == ["--port", "8420", "--listen", "0.0.0.0", "--dra"]


def test_a_command_that_fails_is_told_with_its_words():
    with pytest.raises(Conflict, match="no such thing"):
        run_command([sys.executable, "-c", "import sys; sys.exit('no such thing')"])
    with pytest.raises(Conflict, match="could not be run"):
        run_command(["/no/such/program"])


def test_the_command_of_a_clone_is_its_own_file(monkeypatch):
    clone = SOURCE.parent / "fairy"
    monkeypatch.setenv("FAIRY_COMMAND", str(clone))
    assert installing.own_command() == (str(clone),)
    monkeypatch.setenv("FAIRY_COMMAND", "/no/such/fairy")
    assert installing.own_command() == (sys.executable, "-P", "-m", "gpufairy")


@pytest.mark.system
@pytest.mark.parametrize("service", ["server", "server as a user", "agent", "elsewhere"])
def test_systemd_accepts_what_is_installed(service, tmp_path, monkeypatch):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    monkeypatch.setattr(installing, "USER", "daemon")  # whom every machine has
    made = {
        "server": lambda: server_service("docker", None, None, ["--port", "8420"]),
        "server as a user": lambda: server_service("process", None, None, []),
        "agent": lambda: agent_service(None, ["--server", "http://gpu01:8420", "--names", "USER_*"]),
        "elsewhere": lambda: server_service("docker", tmp_path / "a folder", None, []),
    }[service]()
    unit = tmp_path / made.name
    unit.write_text(made.text)
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if made.name in line]) == (0, [])


@pytest.mark.slow
def test_the_command_line_prints_both_units():
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    for arguments, part in ((("up", "--engine", "process"), "KillMode=process"), (("agent", "--server", "http://gpu01:8420", "--disk", "/data"), "--disk /data")):
        done = subprocess.run(
            [sys.executable, "-m", "gpufairy", *arguments, "--install", "--dry-run"], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, part in done.stdout) == (0, True), done.stderr
