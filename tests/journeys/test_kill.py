"""`kill -9` of the server at random, under 200 running and 500 queued sessions: nothing is lost, nothing runs twice, what runs keeps running."""
import os
import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from bench.server import LiveServer

from gpufairy.client.errors import Problem, ServerNotReached
from waits import until

pytestmark = pytest.mark.slow  # servers of their own

KILLS = 20
RUNNING, QUEUED = 200, 500
SERVING_LIMIT_S = 5.0
SEED = int(os.environ.get("FAIRY_KILL_SEED", "20261115"))

# Each takes a folder that only one can make, and writes down that it began: a second start of the same session shows.
LONG = "mkdir $WITNESS/long.$FAIRY_SESSION_ID && echo $$ > $WITNESS/long.$FAIRY_SESSION_ID/pid || echo $FAIRY_SESSION_ID >> $WITNESS/twice; exec sleep 3600"
SHORT = "mkdir $WITNESS/short.$FAIRY_SESSION_ID || echo $FAIRY_SESSION_ID >> $WITNESS/twice; sleep 0.7"


class Submitter(threading.Thread):
    """Somebody who goes on submitting through it all, repeats what was not acknowledged, and remembers what was."""

    def __init__(self, server: LiveServer, witness: Path) -> None:
        super().__init__(daemon=True)
        self.client, self.witness, self.acknowledged, self.done = server.client(), witness, {}, threading.Event()

    def run(self) -> None:
        number = 0
        while not self.done.is_set():
            body = {"name": f"steady-{number}", "gpus": "0", "cpus": "0.1", "command": ["sh", "-c", SHORT], "env": {"WITNESS": str(self.witness)}}
            try:
                self.acknowledged[body["name"]] = self.client.submit(body, key=f"steady-{number}")["id"]
                number += 1
            except (ServerNotReached, Problem):
                time.sleep(0.02)


def birth(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.mark.quiet
def test_twenty_kills_under_load_lose_nothing_and_double_nothing(tmp_path):
    chance = random.Random(SEED)
    witness = tmp_path / "witness"
    witness.mkdir()
    live = LiveServer(tmp_path / "fairy", "[node]\ncpus = 300\nmemory = '1000GiB'\n")
    with live as server:
        client = server.client()
        env = {"WITNESS": str(witness)}
        client.submit({"name": "long", "gpus": "0", "cpus": 1, "memory": "1MiB", "command": ["sh", "-c", LONG], "env": env}, count=RUNNING)
        until(lambda: sum(path.stat().st_size > 0 for path in witness.glob("long.*/pid")) == RUNNING, "200 to run", 60)
        before = {path.parent.name: int(path.read_text()) for path in witness.glob("long.*/pid")}
        births = {name: birth(pid) for name, pid in before.items()}
        client.submit({"name": "short", "gpus": "0", "cpus": 8, "memory": "1MiB", "command": ["sh", "-c", SHORT], "env": env}, count=QUEUED)
        submitter = Submitter(server, witness)
        submitter.start()
        slowest_s = 0.0
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.0, 0.6))
            server.kill()
            server.start()
            slowest_s = max(slowest_s, server.ready_s)
        submitter.done.set()
        submitter.join(30)
        client = server.client()
        until(lambda: not any(s["name"].startswith(("short", "steady")) for s in client.sessions()), "the queue to run dry", 120)
        ended = {s["id"]: s for s in client.sessions(ended=True) if s["state"] == "ENDED"}
        running = [s for s in client.sessions() if s["state"] == "RUNNING"]

        assert not (witness / "twice").exists(), f"ran twice (seed {SEED}): {(witness / 'twice').read_text()}"
        shorts = {s["id"]: s for s in ended.values() if s["name"].startswith(("short", "steady"))}
        assert {path.name.removeprefix("short.") for path in witness.glob("short.*")} == shorts.keys()
        assert {s["outcome"] for s in shorts.values()} == {"done"}
        assert sum(s["name"].startswith("short-") for s in shorts.values()) == QUEUED
        assert {name: s["id"] for s in shorts.values() if (name := s["name"]).startswith("steady")} == submitter.acknowledged
        assert len(running) == RUNNING
        assert {name: birth(pid) for name, pid in before.items()} == births
        assert slowest_s < SERVING_LIMIT_S
        free_and_held_are_all(client, RUNNING)
        print(f"\n{KILLS} kills, {len(shorts)} short sessions, {len(submitter.acknowledged)} of them submitted meanwhile; slowest restart {slowest_s:.2f} s")
    with closing(sqlite3.connect(live.data / "fairy.db")) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def free_and_held_are_all(client, held_cpus: int) -> None:
    node = client.nodes()[0]
    assert node["free"]["cpus"] + held_cpus == node["cpus"]
    assert node["free"]["gpus"] == len(node["gpus"])


def test_sessions_are_adopted_by_their_labels_when_the_database_is_gone(tmp_path):
    live = LiveServer(tmp_path / "fairy")
    with live as server:
        client = server.client()
        client.add_user({"name": "ann"})
        ann = server.client(client.create_token({"user": "ann"})["token"])
        ann.submit({"name": "survivor", "gpus": "0.5", "command": ["sh", "-c", "echo $$ > pid; exec sleep 3600"], "workdir": "~"})
        pid_file = server.data / "sessions" / "home" / "ann" / "pid"
        pid = int(until(lambda: pid_file.exists() and pid_file.read_text().strip(), "its pid"))
        began = birth(pid)
        server.kill()
        for file in server.data.glob("fairy.db*"):
            file.unlink()
        server.start()
        client = server.client()
        found = until(lambda: [s for s in client.sessions(all_users=True) if s["state"] == "RUNNING"], "it to be adopted")
        assert [(s["name"], s["owner"], s["seat"]["gpus"][0]["share"]) for s in found] == [("survivor", "ann", 0.5)]
        assert birth(pid) == began
        assert client.gpus()[0]["free_share"] == 0.5


def test_run_survives_a_restart_of_the_server_with_its_whole_output(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        results = []
        script = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.25; done"
        thread = threading.Thread(target=lambda: results.append(server.fairy("run", "--gpus", "0", "--name", "talker", "--", "sh", "-c", script)))
        thread.start()
        log = server.data / "sessions" / "logs"
        until(lambda: log.exists() and any("line 2" in path.read_text() for path in log.iterdir()), "some output")
        server.kill()
        server.start()
        thread.join(60)
        assert results[0].stdout == "".join(f"line {i}\n" for i in range(1, 9))
        assert results[0].returncode == 0
