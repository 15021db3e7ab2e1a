"""The database locked, full, damaged, gone, or its backends killed, under the server as it is shipped: a clear answer, nothing killed, nothing lost."""
import contextlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg
import pytest
from bench.server import LiveServer
from lengths import length_s

from gpufairy.client.errors import Problem, ServerNotReached
from raw_http import ask
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

LOCKED_S = length_s(short=8, full=30)
HELD = {"name": "held", "gpus": "0.5", "command": ["sh", "-c", "echo $$ > $HOME/pid; exec sleep 3600"]}


def birth(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


class Held:
    """A session that runs through the fault, known by its process and not by what the server says."""

    def __init__(self, server: LiveServer) -> None:
        self.client = server.client()
        self.client.submit(HELD)
        wait_for_state(self.client, "held", "RUNNING")
        [path] = until(lambda: [path for path in (server.data / "sessions" / "home").glob("*/pid") if path.read_text().strip()], "its pid")
        self.pid = int(path.read_text())
        self.born = birth(self.pid)

    def goes_on(self) -> None:
        """Both by the kernel and by the server."""
        assert birth(self.pid) == self.born
        assert wait_for_state(self.client, "held", "RUNNING")["attempt"] == 1
        assert {node["state"] for node in self.client.nodes()} == {"ready"}


class Submitter(threading.Thread):
    """Goes on submitting through it all; remembers what was acknowledged, and how it was refused."""

    def __init__(self, server: LiveServer, *, every_s: float = 0.1) -> None:
        super().__init__(daemon=True)
        self.client, self.every_s, self.done = server.client(), every_s, threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.refused: list[Problem] = []

    def run(self) -> None:
        number = 0
        while not self.done.wait(self.every_s):
            number += 1
            try:
                self.acknowledged[f"s{number}"] = self.client.submit({"name": f"s{number}", "gpus": "0", "cpus": "0.1", "command": ["true"]})["id"]
            except Problem as problem:
                self.refused.append(problem)
            except ServerNotReached:
                pass

    def __enter__(self) -> "Submitter":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.join(60)

    def all_ran_once(self, client) -> None:
        """Each that was acknowledged is there once, and nothing else."""
        until(lambda: all(s["state"] == "ENDED" for s in client.sessions(ended=True) if s["name"].startswith("s")), "all of them to end", 60)
        ended = [s for s in client.sessions(ended=True) if s["name"].startswith("s") and s["id"] in self.acknowledged.values()]
        assert {s["name"]: s["id"] for s in ended} == self.acknowledged
        assert {(s["outcome"], s["attempt"]) for s in ended} <= {("done", 1)}


def is_whole(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_database_locked_by_another_program_costs_answers_and_nothing_else(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        held = Held(server)
        other = sqlite3.connect(server.data / "fairy.db", isolation_level=None)
        with Submitter(server) as submitter:
            until(lambda: submitter.acknowledged, "the first")
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            told = ask(server.url, "POST", "/api/v1/sessions", token=server.token, body={"command": ["true"], "gpus": "0", "name": "refused"})
            assert (told.status, "locked by another program" in told.json["detail"]) == (503, True), told
            assert told.json["next"]
            held.goes_on()  # reading goes on meanwhile
            time.sleep(max(0.0, LOCKED_S - (time.monotonic() - began)))
            held.goes_on()
            other.execute("ROLLBACK")
            other.close()
            before = len(submitter.acknowledged)
            until(lambda: len(submitter.acknowledged) > before + 3, "submits to be taken again", 30)
        assert {problem.status for problem in submitter.refused} <= {503}  # most come again by themselves, and are taken then
        held.goes_on()
        submitter.all_ran_once(held.client)
    is_whole(server.data / "fairy.db")


@pytest.fixture
def small_disk():
    folder = Path(tempfile.mkdtemp(prefix="fairy-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_is_told_and_when_there_is_room_all_goes_on(small_disk):
    with LiveServer(small_disk) as server:
        held = Held(server)
        with Submitter(server) as submitter:
            until(lambda: len(submitter.acknowledged) > 2, "some")
            filler = small_disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"\0" * 65536)
            until(lambda: submitter.refused, "somebody to be told", 60)
            held.goes_on()
            filler.unlink()
            before = len(submitter.acknowledged)
            until(lambda: len(submitter.acknowledged) > before + 3, "submits to be taken again", 30)
        assert {problem.status for problem in submitter.refused} <= {503, 507}
        assert all("full" in str(problem) for problem in submitter.refused), submitter.refused[0]
        held.goes_on()
        submitter.all_ran_once(held.client)
        is_whole(server.data / "fairy.db")


def test_a_damaged_database_is_not_started_with_and_a_new_one_adopts_what_runs(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        held = Held(server)
        server.kill()
        for file in server.data.glob("fairy.db-*"):
            file.unlink()
        with (server.data / "fairy.db").open("r+b") as file:
            file.write(b"this was a database once" * 100)
        with pytest.raises(RuntimeError, match="damaged"):
            server.start()
        server.kill()  # to be asked how it ended
        assert birth(held.pid) == held.born
        (server.data / "fairy.db").rename(server.data / "damaged.db")
        server.start()
        assert wait_for_state(server.client(), "held", "RUNNING")["seat"]["gpus"][0]["share"] == 0.5
        assert birth(held.pid) == held.born


def test_killed_backends_of_postgresql_lose_nothing_that_was_acknowledged(tmp_path, postgres_url):
    with LiveServer(tmp_path / "fairy", f"[server]\nstore = '{postgres_url}'\n") as server:
        held = Held(server)
        with Submitter(server, every_s=0.02) as submitter, psycopg.connect(postgres_url, autocommit=True) as connection:
            for _ in range(20):
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
                before = len(submitter.acknowledged)
                until(lambda: len(submitter.acknowledged) > before, "the next submit to be taken", 30)  # noqa: B023
        assert {problem.status for problem in submitter.refused} <= {503}
        held.goes_on()
        submitter.all_ran_once(held.client)


def test_a_server_that_slept_while_another_took_the_lease_writes_nothing_and_leaves(tmp_path, postgres_url):
    settings = f"[server]\nstore = '{postgres_url}'\n"
    with LiveServer(tmp_path / "first", settings) as first:
        first.client().submit({"name": "before", "gpus": "0", "command": ["true"]})
        second = LiveServer(tmp_path / "second", settings)
        starting = threading.Thread(target=second.start)
        starting.start()
        time.sleep(2)
        assert starting.is_alive(), "two servers lead"
        first.process.send_signal(signal.SIGSTOP)
        starting.join(60)
        assert not starting.is_alive(), "nobody took the lease of one that sleeps"
        try:
            taken = second.client().submit({"name": "after", "gpus": "0", "command": ["true"]})
            first.process.send_signal(signal.SIGCONT)
            with pytest.raises((Problem, ServerNotReached)):
                first.client().submit({"name": "in-vain", "gpus": "0", "command": ["true"]})
            assert first.process.wait(30) != 0
            first.process.stdout.close()
            first.process = None
            names = {s["name"]: s["id"] for s in second.client().sessions(ended=True, all_users=True)}
            assert names.get("after") == taken["id"]
            assert "in-vain" not in names
        finally:
            second.stop_all()
            if first.process is None:
                first.start()


def test_a_second_server_on_the_same_data_is_refused_in_words(tmp_path):
    with LiveServer(tmp_path / "fairy") as server:
        command = [sys.executable, "-m", "gpufairy", "up", "--data", str(server.data), "--port", "0", "--engine", "process"]
        done = subprocess.run(command, env=server.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert str(server.pid) in done.stderr, done.stderr
