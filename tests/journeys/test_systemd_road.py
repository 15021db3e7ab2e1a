"""`fairy up --install` under a real systemd: it serves, comes back when it is killed, sessions outlive all of that, and it goes again."""
import os
import signal
from collections.abc import Iterator

import pytest
from systemd_scene import START_S, OwnSystemd, own_systemd

from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]
UNIT = "fairy-server.service"
HOLD = ["sh", "-c", "echo $$ > pid-$FAIRY_SESSION; exec sleep 3600"]


@pytest.fixture(scope="module")
def systemd(tmp_path_factory) -> Iterator[OwnSystemd]:
    with own_systemd(tmp_path_factory.mktemp("systemd")) as made:
        yield made


@pytest.fixture(scope="module")
def installed(systemd: OwnSystemd) -> OwnSystemd:
    options = ("--simulate", "1xA100-40GB", "--port", str(systemd.port), "--ssh-port", str(systemd.ssh_port))
    told = systemd.done("/run/bin/fairy", "up", "--install", "--engine", "process", *options)
    assert "is installed, runs, and starts with the machine" in told
    systemd.until_serves()
    return systemd


@pytest.fixture(scope="module")
def held(installed: OwnSystemd) -> tuple[int, str]:
    """A session that runs: its process, and when that began."""
    with installed.client() as client:
        client.submit({"name": "held", "gpus": "1", "command": HOLD, "workdir": "~"})
        wait_for_state(client, "held", "RUNNING")
    file = installed.root / "var/lib/gpufairy/sessions/home/gpufairy/pid-held"
    pid = int(until(lambda: file.exists() and file.read_text().strip(), "the session's own pid"))
    return pid, installed.birth_of(pid)


def runs_on(systemd: OwnSystemd, held: tuple[int, str]) -> None:
    assert systemd.birth_of(held[0]) == held[1]
    with systemd.client() as client:
        session = wait_for_state(client, "held", "RUNNING")
    assert (session["state"], session["attempt"]) == ("RUNNING", 1)


def test_the_service_starts_with_the_machine_as_a_user_of_its_own_and_its_link_is_in_the_journal(installed: OwnSystemd):
    assert installed.shows(UNIT, "UnitFileState") == "enabled"
    main = int(installed.shows(UNIT, "MainPID"))
    user = installed.done("stat", "-c", "%U", f"/proc/{main}").strip()
    assert (user, installed.done("stat", "-c", "%U %a", "/var/lib/gpufairy").strip()) == ("gpufairy", "gpufairy 700")
    assert f"http://127.0.0.1:{installed.port}/signin?code=" in until(lambda: installed.done("journalctl", "--no-pager", "-u", UNIT), "a line in the journal")


def test_a_server_that_is_killed_comes_back_and_its_session_never_noticed(installed: OwnSystemd, held: tuple[int, str]):
    before = installed.shows(UNIT, "MainPID")
    installed.done("systemctl", "kill", "--kill-who=main", f"--signal={signal.SIGKILL.name}", UNIT)
    until(lambda: installed.shows(UNIT, "MainPID") not in ("0", before), "systemd to start it again")
    installed.until_serves()
    assert installed.shows(UNIT, "NRestarts") == "1"
    runs_on(installed, held)


def test_sessions_outlive_a_restart_and_a_stop(installed: OwnSystemd, held: tuple[int, str]):
    installed.done("systemctl", "restart", UNIT)
    installed.until_serves()
    runs_on(installed, held)
    installed.done("systemctl", "stop", UNIT)
    assert (installed.shows(UNIT, "ActiveState"), installed.serves()) == ("inactive", False)
    assert installed.birth_of(held[0]) == held[1]
    installed.done("systemctl", "start", UNIT)
    installed.until_serves()
    runs_on(installed, held)


def test_an_agent_in_its_sandbox_asks_to_be_taken_in_and_reports(installed: OwnSystemd):
    installed.done("/run/bin/fairy", "agent", "--install", "--server", f"http://127.0.0.1:{installed.port}", "--name", "watched")
    with installed.client() as client:
        asking = until(lambda: [one for one in client.agents() if one["state"] == "waiting"], "the agent to ask", START_S)
        client.accept_agent("watched", asking[0]["fingerprint"])
        until(lambda: [one for one in client.nodes() if (one["name"], one["state"]) == ("watched", "watched")], "its first report", START_S)
    assert installed.shows("fairy-agent.service", "NRestarts") == "0"
    installed.done("/run/bin/fairy", "agent", "--uninstall")
    assert installed.run("systemctl", "is-active", "fairy-agent.service").stdout.strip() == "inactive"


def test_it_goes_again_and_leaves_sessions_data_and_settings(installed: OwnSystemd, held: tuple[int, str]):
    told = installed.done("/run/bin/fairy", "up", "--uninstall")
    assert "Sessions run on; data and settings are where they were." in told
    assert (installed.serves(), os.path.exists(installed.root / "etc/systemd/system" / UNIT)) == (False, False)
    assert installed.birth_of(held[0]) == held[1]
    assert (installed.root / "var/lib/gpufairy/fairy.db").exists()
    assert (installed.root / "etc/gpufairy/fairy.toml").exists()
    assert installed.run("systemctl", "status", UNIT).returncode == 4, "systemd does not know it any more"
