"""One user's session floods its log, forks without end, eats memory and fills its disk: that user is told, and a neighbour signs in within two seconds."""
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from bench.server import LiveServer
from test_ssh import Person

from daemons import RealDaemon
from docker_settings import docker_settings
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.quiet]

LOGIN_S = 2.0
LOGINS = 5
CAP_BYTES = 4 * 2**20
NUISANCES = {
    "flood": "yes a line that nobody reads",
    "bomb": "b() { b | b & }; b; exec sleep 1000",
    "eater": "while :; do tail /dev/zero; done",
    "filler": "dd if=/dev/zero of=$HOME/filler bs=1M; n=0; while :; do n=$((n + 1)); : > $HOME/f$n || sleep 1; done",
}
SETTINGS = """
[policy]
log_cap = "4MiB"
"""


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon):
    folder = Path(tempfile.mkdtemp(prefix="fairy-nb-"))
    homes = folder / "homes"
    homes.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=20k", "tmpfs", str(homes)], check=True)
    settings = docker_settings(docker_daemon.socket, SETTINGS, docker=f'homes = "{homes}"\n', cpus=8, memory="16GiB")
    try:
        with LiveServer(folder, settings, ("--simulate", "1xA100-40GB"), engine="docker", ssh=True) as started:
            yield started
    finally:
        subprocess.run(["umount", "-l", str(homes)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def login_s(person: Person) -> float:
    began = time.monotonic()
    done = person.ssh("echo in", session="quiet")
    assert done.stdout == b"in\n", done.stderr
    return time.monotonic() - began


def test_a_neighbour_signs_in_within_two_seconds_whatever_somebody_else_does(live):
    kim, mal = Person(live, "kim"), Person(live, "mal")
    kim.client.submit({"name": "quiet", "kind": "interactive", "gpus": "0", "cpus": 1, "memory": "256MiB"})
    wait_for_state(kim.client, "quiet", "RUNNING", limit_s=60)
    login_s(kim)
    for name, command in NUISANCES.items():
        mal.client.submit({"name": name, "gpus": "0", "cpus": 1, "memory": "64MiB", "command": ["sh", "-c", command]})
    until(lambda: {s["state"] for s in mal.client.sessions(ended=True)} <= {"RUNNING", "ENDED"}, "all of them to be at it", 60)
    time.sleep(2)
    took = [login_s(kim) for _ in range(LOGINS)]
    print(f"\nlogins beside {', '.join(NUISANCES)}: {', '.join(f'{one:.2f}' for one in took)} s")
    assert max(took) < LOGIN_S
    assert kim.client.session("quiet")["state"] == "RUNNING"
    assert {node["state"] for node in kim.client.nodes()} == {"ready"}


def test_the_flood_has_a_log_with_an_end_and_the_bomb_a_limit(live, docker_daemon):
    admin = live.client()
    logs = live.data / "sessions" / "logs"
    # Cut now and then, while it goes on: in between it may be longer by what comes in a moment.
    until(lambda: max(512 * path.stat().st_blocks for path in logs.rglob("*") if path.is_file()) <= 2 * CAP_BYTES, "the log to be cut", 20)
    for bomb in docker_daemon.containers(**{"gpufairy.name": "bomb"}):  # none: it could not fork any more, and ended
        limit = docker_daemon.container(bomb["Id"])["HostConfig"]["PidsLimit"]
        assert 0 < len(docker_daemon.ask("GET", f"/containers/{bomb['Id']}/top")["Processes"]) <= limit
    for name in NUISANCES:
        found = [s for s in admin.sessions(all_users=True) if s["name"] == name]
        if found:
            admin.stop(found[0]["id"])
    until(lambda: not [s for s in admin.sessions(all_users=True) if s["name"] in NUISANCES], "all of them to be gone", 90)
