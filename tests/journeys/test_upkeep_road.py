"""The drill: back up a house with sessions in it, destroy it, restore it, start it. Nothing is killed, nobody is forgotten."""
import json
import shutil
import sqlite3
import tarfile
import threading
from contextlib import closing

import pytest
from bench.server import LiveServer

from gpufairy.client.errors import Problem
from gpufairy.client.local_server import birth_of
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

HOLD = ["sh", "-c", "echo $$ > pid-$FAIRY_SESSION; exec sleep 3600"]


@pytest.fixture
def live(tmp_path):
    server = LiveServer(tmp_path / "fairy", "[node]\ncpus = 16\nmemory = '64GiB'\n[policy]\nhalf_life = '5d'\n")
    yield server.start()
    if server.process is None:
        server.start()
    server.stop_all()


def held(server, client, user, name):
    """A session that runs, and its process."""
    client.submit({"name": name, "gpus": "0.5", "command": HOLD, "workdir": "~"})
    file = server.data / "sessions" / "home" / user / f"pid-{name}"
    pid = int(until(lambda: file.exists() and file.read_text().strip(), f"the pid of {name}"))
    wait_for_state(client, name, "RUNNING")
    return pid, birth_of(pid)


def test_a_destroyed_house_comes_back_with_its_people_its_past_and_all_that_runs(live, tmp_path):
    admin = live.client()
    admin.add_user({"name": "ann"})
    token = admin.create_token({"user": "ann"})["token"]
    ann = live.client(token)
    older = held(live, ann, "ann", "older")
    done = ann.submit({"name": "done", "gpus": "0", "command": ["true"]})
    wait_for_state(ann, "done", "ENDED")

    made = json.loads(live.fairy("backup", "--json").stdout)
    assert (made["verified"], made["counts"]["users"]) == (True, 2)
    assert made["path"].startswith(str(live.data / "backups"))
    newer = held(live, ann, "ann", "newer")  # after the backup

    kept = shutil.copy(made["path"], tmp_path)
    refused = live.fairy("restore", kept, "--data", str(live.data))
    assert refused.returncode != 0
    assert "a server runs on" in refused.stderr
    live.kill()
    for file in (*live.data.glob("fairy.db*"), live.data / "backups"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()

    checked = live.fairy("restore", "--check", kept, "--data", str(live.data))
    assert "is good" in checked.stdout, checked.stderr
    assert not (live.data / "fairy.db").exists()
    restored = live.fairy("restore", kept, "--data", str(live.data))
    assert "Restored to" in restored.stdout, restored.stderr
    live.start()

    ann = live.client(token)  # the token of then still opens
    admin = live.client()
    both = until(lambda: (found := {s["name"] for s in ann.sessions() if s["state"] == "RUNNING"}) == {"older", "newer"} and found, "both to be adopted")
    assert both == {"older", "newer"}
    assert (birth_of(older[0]), birth_of(newer[0])) == (older[1], newer[1])
    assert ann.session(done["id"])["outcome"] == "done"
    assert {user["name"] for user in admin.users()} >= {"ann"}
    assert admin.gpus()[0]["free_share"] == 0


def test_a_backup_beside_a_server_that_writes_is_whole(live, tmp_path):
    client = live.client()
    stop = threading.Event()

    def write():
        with live.client().again() as own:
            while not stop.is_set():
                own.submit({"gpus": "0", "command": ["true"]})

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(3):
            done = live.fairy("backup", "--to", str(tmp_path / "elsewhere"), "--data", str(live.data), "--json")
            assert json.loads(done.stdout)["verified"], done.stderr
            until(lambda: len(list((tmp_path / "elsewhere").iterdir())), "the backup")
    finally:
        stop.set()
        writing.join()
    newest = sorted((tmp_path / "elsewhere").iterdir())[-1]
    assert live.fairy("restore", "--check", str(newest), "--data", str(live.data)).returncode == 0
    with tarfile.open(newest) as tar:
        assert "settings/fairy.toml" in tar.getnames()
    assert client.backups()["items"] == []  # those were not the server's own


def test_the_server_lists_its_backups_tells_when_the_next_comes_and_shows_them_to_admins_alone(live, make_ann):
    assert live.fairy("backup").returncode == 0
    listed = live.fairy("backup", "list")
    assert "asked for by" in listed.stdout
    assert "The next is made" in listed.stdout
    with pytest.raises(Problem, match="is not for ann"):
        make_ann.backups()
    events = [event for event in live.client().events() if event["what"] == "backup_made"]
    assert len(events) == 1
    assert "read back and found whole" in events[0]["why"]


@pytest.fixture
def make_ann(live):
    admin = live.client()
    admin.add_user({"name": "ann"})
    return live.client(admin.create_token({"user": "ann"})["token"])


def test_an_upgrade_is_checked_on_a_copy_and_a_bundle_is_made_while_the_server_runs(live, tmp_path):
    checked = live.fairy("upgrade", "--check", "--data", str(live.data))
    assert "Nothing to do" in checked.stdout, checked.stderr
    bundle = live.fairy("support-bundle", "--data", str(live.data), "--to", str(tmp_path / "b.tar.gz"), "--json", timeout=180)
    assert "settings.json" in json.loads(bundle.stdout)["files"], bundle.stderr
    with closing(sqlite3.connect(live.data / "fairy.db")) as connection:
        secret = connection.execute("SELECT value FROM meta WHERE name = 'pass_secret'").fetchone()[0]
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        texts = [tar.extractfile(member).read().decode() for member in tar.getmembers()]
    assert not [text for text in texts if secret in text or live.token in text]
