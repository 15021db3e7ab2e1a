"""Moving house: all of one server brought to another by the command, killed on the way, called again, and back."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = pytest.mark.slow
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqQhEWUYQrIRNGmZt7c2LTaA0vKXLBLcVhPjnbGvHGO kim@home"


class Street:
    """Two servers, and an admin who is signed in to both."""

    def __init__(self, old: LiveServer, new: LiveServer, folder: Path) -> None:
        self.old, self.new = old, new
        self.env = {**old.env, "XDG_CONFIG_HOME": str(folder / "config")}
        for live in (old, new):
            assert live.fairy("login", live.url, env=self.env, input=f"{live.token}\n").returncode == 0

    def line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "gpufairy", "move", *words]

    def move(self, *words: str) -> dict:
        done = self.old.fairy("move", *words, "--json", env=self.env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def home(self, live: LiveServer, user: str = "kim") -> Path:
        return live.data / "sessions" / "home" / user


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-mv-"))
    with LiveServer(folder / "old", options=("--simulate", "2xA100-40GB")) as old, LiveServer(folder / "new", options=("--simulate", "4xA100-40GB")) as new:
        made = Street(old, new, folder)
        fill(made)
        yield made
    shutil.rmtree(folder)


def fill(street: Street) -> None:
    admin = street.old.client()
    admin.add_team("nlp", 2)
    admin.add_user({"name": "kim", "role": "user", "team": "nlp"})
    admin.add_key({"user": "kim", "key": KEY})
    admin.set_quota({"of": "team:nlp", "gpus": 2, "gpu_hours": 100})
    kim = street.old.client(admin.create_token({"user": "kim"})["token"])
    kim.submit({"name": "first", "gpus": "1", "command": ["sh", "-c", "echo hello > $HOME/from_a_job"]})
    wait_for_state(kim, "first", "ENDED")
    kim.submit({"name": "stays", "gpus": "1", "command": ["sleep", "1000"]})
    wait_for_state(kim, "stays", "RUNNING")
    home = street.home(street.old)
    (home / "data").mkdir()
    for number in range(50):
        (home / "data" / f"{number}.npy").write_bytes(os.urandom(2000))
    (home / "big").write_bytes(os.urandom(40 * 2**20))


def test_a_plan_comes_first_and_nothing_is_done_by_it(street):
    plan = street.move(street.old.url, street.new.url, "--dry-run")
    assert {(step["what"], step["deed"]) for step in plan["people"]} >= {("team", "add"), ("user", "add"), ("key", "add"), ("quota", "add")}
    kim = next(home for home in plan["homes"] if home["user"] == "kim")
    assert (kim["sent"], kim["bytes"]) == (52, 40 * 2**20 + 50 * 2000 + 6)
    assert (plan["past"], plan["live"]) == (1, 1)
    assert [user["name"] for user in street.new.client().users()] == [street.new.client().me()["name"]]
    words = street.old.fairy("move", street.old.url, street.new.url, "--dry-run", env=street.env).stdout
    assert "users: 1 to add" in words
    assert "1 session still live where it comes from, and staying there" in words


def test_killed_on_the_way_and_called_again_it_goes_on_and_all_is_there(street):
    before = street.old.client().session("kim+stays")
    moving = subprocess.Popen(street.line(street.old.url, street.new.url), env=street.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(path.stat().st_size > 2**20 for path in street.home(street.new).glob(".fairy-move-*")), "half of a file")
    finally:
        moving.send_signal(signal.SIGKILL)
        moving.wait()
    assert not (street.home(street.new) / "big").exists()
    done = street.move(street.old.url, street.new.url)
    assert done["left"] == []
    assert 0 < next(home for home in done["homes"] if home["user"] == "kim")["bytes"] < 40 * 2**20, "what had come was not sent again"
    old, new = street.home(street.old), street.home(street.new)
    assert {str(path.relative_to(old)): path.read_bytes() for path in old.rglob("*") if path.is_file()} == {str(path.relative_to(new)): path.read_bytes() for path in new.rglob("*") if path.is_file()}
    now = street.old.client().session("kim+stays")
    assert (now["state"], now["attempt"], now["started_at"]) == ("RUNNING", 1, before["started_at"])


def test_people_and_what_was_said_of_them_are_there(street):
    new = street.new.client()
    kim = new.user("kim")
    assert (kim["role"], kim["team"]) == ("user", "nlp")
    assert [team["share"] for team in new.teams() if team["name"] == "nlp"] == [2]
    assert [key["key"].split()[1] for key in new.keys("kim")] == [KEY.split()[1]]
    assert [(quota["of"], quota["gpus"], quota["gpu_hours"]) for quota in new.quotas()] == [("team:nlp", 2, 100)]


def test_both_servers_write_down_whose_home_an_admin_read_or_wrote(street):
    for live, what in ((street.old, "home_moved_out"), (street.new, "home_moved_in")):
        noted = [event for event in live.client().events() if event["what"] == what and event["about"] == "user:kim"]
        assert [event["actor"] for event in noted] == [live.client().me()["name"]]


def test_the_past_is_told_and_counted_as_it_was(street):
    old, new = street.old.client(), street.new.client()
    here, there = old.session("kim+first"), new.session("kim+first")
    assert {name: there[name] for name in ("id", "outcome", "submitted_at", "ended_at", "seat")} == {name: here[name] for name in ("id", "outcome", "submitted_at", "ended_at", "seat")}
    told = [(event["what"], event["at"]) for event in old.session_events("kim+first")]
    assert [(event["what"], event["at"]) for event in new.session_events("kim+first")] == told
    assert next(row["held_part_us"] for row in new.ledger(by="user")["items"] if row["name"] == "kim") > 0


def test_called_once_more_it_does_nothing_and_a_restart_keeps_it_all(street):
    again = street.move(street.old.url, street.new.url)
    assert {step["deed"] for step in again["people"]} == {"same"}
    assert (again["past"], sum(home["sent"] for home in again["homes"]), again["left"]) == (0, 0, [])
    street.new.kill()
    street.new.start()
    assert street.new.client().session("kim+first")["state"] == "ENDED"


def test_by_way_of_a_folder_and_back(street, tmp_path):
    """What was changed at the new server comes back; the way is a folder that nobody else can read."""
    note = street.home(street.new) / "written at the new one"
    note.write_text("new")
    folder = tmp_path / "moving"
    out = street.move(street.new.url, str(folder))
    assert out["left"] == []
    assert folder.stat().st_mode & 0o777 == 0o700
    back = street.move(str(folder), street.old.url)
    assert (back["left"], back["past"]) == ([], 0)
    assert (street.home(street.old) / note.name).read_text() == "new"
    assert street.move(str(folder), street.old.url, "--without", "history")["homes"][0]["sent"] == 0


def test_what_cannot_be_is_said(street, tmp_path):
    for words, code, told in (
        ((street.old.url, street.old.url), 2, "FROM and TO are the same"),
        ((street.old.url, "http://127.0.0.1:9"), 3, "not signed in to http://127.0.0.1:9"),
        ((str(tmp_path), street.new.url), 4, "holds no move"),
        ((street.old.url, street.new.url, "--without", "home"), 2, "--without: found 'home'"),
        ((street.old.url, street.new.url, "--user", "nobody"), 2, "there is no 'nobody'"),
    ):
        done = street.old.fairy("move", *words, env=street.env)
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr


def test_only_admins_may(street):
    admin = street.old.client()
    kim = admin.create_token({"user": "kim"})["token"]
    env = {**street.env, "XDG_CONFIG_HOME": str(street.old.folder / "kims")}
    street.old.fairy("login", street.old.url, env=env, input=f"{kim}\n")
    street.old.fairy("login", street.new.url, env=env, input=f"{street.new.token}\n")
    done = street.old.fairy("move", street.old.url, street.new.url, env=env)
    assert done.returncode == 3
    assert "is not for kim" in done.stderr
