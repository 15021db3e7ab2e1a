"""Hand-ins on a real dockerd: a student writes into their own folder and sees no other, a teacher reads all, after the due date nobody writes."""
import base64
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench.server import LiveServer

from daemons import RealDaemon
from docker_settings import docker_settings
from gpufairy.client.errors import Problem
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
[presets.lesson]
gpus = 0
cpus = 1
memory = "128MiB"
"""


@pytest.fixture(scope="module")
def live(docker_daemon: RealDaemon):
    folder = Path(tempfile.mkdtemp(prefix="fairy-h-"))
    settings = docker_settings(docker_daemon.socket, SETTINGS)
    with LiveServer(folder, settings, ("--simulate", "1xA100-40GB"), engine="docker") as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def ran(person, script, **fields):
    """The exit code and the log of a job."""
    name = person.submit({"command": ["sh", "-c", script], "gpus": 0, "cpus": 1, "memory": "128MiB", **fields})["name"]
    code = wait_for_state(person, name, "ENDED")["exit_code"]
    return code, b"".join(person.logs(name)).decode()


def test_students_hand_in_apart_a_teacher_reads_all_and_after_the_due_date_nobody_writes(live):
    fairy = live.client()
    fairy.add_user({"name": "prof"})
    roster = base64.b64encode(b"login\nkim\nlee\n").decode()
    end = (datetime.now(UTC) + timedelta(days=9)).isoformat()
    fairy.add_class({"name": "cs231n", "roster": roster, "end": end, "preset": "lesson", "teachers": ["prof"]})
    kim, lee, prof = (live.client(fairy.create_token({"user": name})["token"]) for name in ("kim", "lee", "prof"))

    assert ran(kim, "echo 42 > /mnt/handin/cs231n/answer.txt; umask 077; echo 43 > /mnt/handin/cs231n/mine.txt") == (0, "")
    code, seen = ran(lee, "ls -A /mnt/handin/cs231n; ls /mnt/handin; cat /mnt/handin/cs231n/../cs231n/answer.txt")
    assert (code != 0, seen.splitlines()[0]) == (True, "cs231n")
    assert ran(prof, "cat /mnt/handin/cs231n/kim/answer.txt; ls /mnt/handin/cs231n", mounts=["handin/cs231n"]) == (0, "42\nkim\nlee\n")
    assert ran(prof, "echo x > /mnt/handin/cs231n/kim/answer.txt", mounts=["handin/cs231n"])[0] != 0

    fairy.add_user({"name": "eve"})
    eve = live.client(fairy.create_token({"user": "eve"})["token"])
    stranger = eve.submit({"command": ["true"], "gpus": 0, "mounts": ["handin/cs231n"]})["name"]
    until(lambda: "neither takes nor teaches" in eve.session(stranger)["why"], "the refusal of the mount")
    eve.stop(stranger)

    name = kim.submit({"kind": "interactive", "name": "desk"})["name"]  # it has the folder open while the due date comes
    wait_for_state(kim, name, "RUNNING")
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    fairy.change_class("cs231n", {"due": soon})
    folder = live.data / "handin" / "cs231n" / "kim"
    until(lambda: folder.stat().st_mode & 0o222 == 0, "the hand-ins to be closed")
    assert folder.stat().st_uid == 0
    assert ran(kim, "echo late >> /mnt/handin/cs231n/answer.txt")[0] != 0
    assert ran(kim, "cat /mnt/handin/cs231n/answer.txt") == (0, "42\n")
    assert ran(prof, "cat /mnt/handin/cs231n/kim/mine.txt", mounts=["handin/cs231n"]) == (0, "43\n")  # which was nobody else's before
    assert fairy.school_class("cs231n")["hand_in_open"] is False
    with pytest.raises(Problem, match="is not taught by kim"):
        list(kim.hand_ins("cs231n"))
    assert b"answer.txt" in b"".join(prof.hand_ins("cs231n"))
    fairy.do_to_class("cs231n", "archive", {})
    until(lambda: fairy.school_class("cs231n")["state"] == "archived", "the archive")
