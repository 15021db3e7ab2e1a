"""Units of systemd: what stands in deploy/ is what --install writes, sessions outlive a restart, and paths are quoted as systemd reads them."""
from pathlib import Path, PurePosixPath

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.unit_file import Place, agent_unit, server_unit, word

DEPLOY = Path(__file__).parents[2] / "deploy" / "systemd"
PLACE = Place(("/opt/gpufairy/fairy",), PurePosixPath("/var/lib/gpufairy"))
SETTINGS = PurePosixPath("/etc/gpufairy/fairy.toml")


def settings(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_the_unit_in_deploy_is_the_one_that_install_writes():
    options = ["--engine", "docker", "--port", "8420", "--ssh-port", "8422"]
    assert server_unit(PLACE, SETTINGS, options) == (DEPLOY / "fairy-server.service").read_text()


def test_an_agent_is_held_as_the_unit_in_deploy_holds_it():
    ours, theirs = settings(agent_unit(PLACE, ["--server", "http://gpu01:8420"])), settings((DEPLOY / "fairy-agent.service").read_text())
    differ = {"ExecStart", "ExecStartPre", "StateDirectory", "Environment"}
    assert {name: value for name, value in ours.items() if name not in differ} == {
        name: value for name, value in theirs.items() if name not in {*differ, "EnvironmentFile"}
    }


@pytest.mark.parametrize("user", ["root", "gpufairy"])
def test_sessions_outlive_the_server_and_inherit_no_sandbox(user):
    found = settings(server_unit(Place(("/bin/fairy",), PurePosixPath("/var/lib/gpufairy"), user), SETTINGS, ["--engine", "process"]))
    assert found["KillMode"] == "process"
    assert not {"NoNewPrivileges", "ProtectSystem", "PrivateTmp", "ProtectHome", "RestrictNamespaces", "MemoryMax"} & found.keys()
    assert found.get("User") == (None if user == "root" else "gpufairy")


def test_a_folder_below_var_lib_is_left_to_systemd_and_another_is_named():
    assert "StateDirectory=gpufairy" in server_unit(PLACE, SETTINGS, [])
    elsewhere = Place(("/bin/fairy",), PurePosixPath("/srv/fairy data"))
    assert "StateDirectory" not in server_unit(elsewhere, SETTINGS, [])
    assert 'ReadWritePaths="/srv/fairy data"' in agent_unit(elsewhere, [])


@pytest.mark.parametrize(("text", "written"), [("plain", "plain"), ("a b", '"a b"'), ("50%", "50%%"), ("$HOME", "$$HOME"), ('say "x"', '"say \\"x\\""'), ("", '""')])
def test_words_are_quoted_as_systemd_reads_them(text, written):
    assert word(text) == written


def test_a_line_break_cannot_begin_a_line_of_its_own():
    with pytest.raises(BadInput, match="control characters"):
        server_unit(PLACE, PurePosixPath("/etc/x\nExecStartPre=/bin/evil"), [])
