"""A server under load for hours, with a fault at random each minute; then the history of its clients and the independent witness are asked.

Memory is told each minute beside how long that server has run: it is flat when no line of the same server grows.
"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.server import LiveServer
from collector_scene import Collector
from witness import Witness, processes_of
from witness_tables import SqliteTables

import history
from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from waits import until

SETTINGS = "[node]\nname = 'box'\ncpus = 64\nmemory = '64GiB'\n[policy]\nstop_grace = '2s'\n"
ASKERS, PAUSE_S = 3, 0.5
EVERY_S = 60.0
MOST_GROWTH = 0.10  # of a server's memory, from its fifth minute on
SETTLED_MIN = 5


@dataclass(slots=True)
class Soak:
    server: LiveServer
    agent: Collector
    small_disk: Path
    chance: random.Random

    def kill_server(self) -> None:
        self.server.kill()
        self.server.start()

    def restart_server(self) -> None:
        self.server.stop()
        self.server.start()

    def server_sleeps(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(1, 10))
        os.kill(self.server.pid, signal.SIGCONT)

    def database_locked(self) -> None:
        other = sqlite3.connect(self.server.data / "fairy.db", isolation_level=None, timeout=30)
        other.execute("BEGIN IMMEDIATE")
        time.sleep(self.chance.uniform(1, 12))
        other.execute("ROLLBACK")
        other.close()

    def disk_full(self) -> None:
        filler = self.small_disk / "filler"
        try:
            with filler.open("wb") as file:
                while True:
                    file.write(b"\0" * 2**20)
        except OSError:
            time.sleep(self.chance.uniform(1, 8))
        filler.unlink()

    def kill_agent(self) -> None:
        self.agent.kill()
        self.agent.start()

    def nothing(self) -> None:
        """A quiet minute, in which memory may be compared."""

    def fault(self) -> Callable[[], None]:
        """Starts are rarer than the rest: memory is compared within one server's life."""
        seldom, often = (self.kill_server, self.restart_server), (self.server_sleeps, self.database_locked, self.disk_full, self.kill_agent, self.nothing)
        return self.chance.choice([*seldom, *often, *often, *often])


def soak(seconds: float, seed: int) -> int:
    """0: all promises held."""
    folder = Path(tempfile.mkdtemp(prefix="fairy-soak-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder)], check=True)
    history.PAUSE_S = PAUSE_S
    try:
        return _soaked(folder, seconds, seed)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def _soaked(folder: Path, seconds: float, seed: int) -> int:
    (folder / "driver").mkdir()
    driver = FakeNvml(folder / "driver")
    driver.write(FakeMachine((FakeGpu(uuid="GPU-soak-0", used_mib=1100, utilisation=50),)))
    with LiveServer(folder / "fairy", SETTINGS) as server:
        witness = Witness(server.data, processes_of(server.data), SqliteTables(server.data / "fairy.db"))
        with Collector(folder / "agent", "agent", "--server", server.url, "--name", "far", fake=driver) as agent:
            until(lambda: [one for one in server.client().agents() if one["state"] == "waiting"], "the agent", 60)
            server.fairy("node", "accept", "--all", "--yes")
            askers = [history.Asker(server.client(), f"asker{number}", seed + number) for number in range(ASKERS)]
            for asker in askers:
                asker.start()
            steady = minutes(Soak(server, agent, folder, random.Random(seed)), seconds)
            for asker in askers:
                asker.done.set()
                asker.join(60)
        client = server.client()
        client.stop_all()
        try:
            until(lambda: not list(client.sessions()), "all to be over", 180)
        except AssertionError as error:
            left = [(one["name"], one["state"], one["why"]) for one in client.sessions()]
            raise AssertionError(f"{error}, and there are {left}\n{server.log[-4000:]}") from None
        said = [one for asker in askers for one in asker.history]
        columns = ("id", "name", "phase", "outcome")
        rows = [dict(zip(columns, row, strict=True)) for row in witness.rows(f"select {', '.join(columns)} from sessions")]
        wrong = history.faults(said, rows)
        witness.check_files()
        witness.check_seats()
        witness.check_runs()
        print(f"{len(said)} calls, {len(rows)} sessions; {len(wrong)} answers that do not fit; memory {'flat' if steady else 'GROWS'}")
        for one in wrong:
            print(f"  {one}", file=sys.stderr)
        return 1 if wrong or not steady else 0


def minutes(soaked: Soak, seconds: float) -> bool:
    """False: a server's memory grew, from its fifth minute to its last."""
    began, first, steady, pid, since = time.monotonic(), None, True, soaked.server.pid, time.monotonic()
    while time.monotonic() - began < seconds:
        fault, turn = soaked.fault(), time.monotonic()
        fault()
        if soaked.server.pid != pid:
            pid, since, first = soaked.server.pid, time.monotonic(), None
        time.sleep(max(0.0, min(EVERY_S - (time.monotonic() - turn), seconds - (time.monotonic() - began))))
        mib, files = used(pid)
        age_min = (time.monotonic() - since) / 60
        print(f"{(time.monotonic() - began) / 60:5.1f} min  {fault.__name__:16} server {age_min:4.1f} min old, {mib:.0f} MiB, {files} files", flush=True)
        if age_min >= SETTLED_MIN:
            first = first or mib
            steady = steady and mib <= first * (1 + MOST_GROWTH)
    return steady


def used(pid: int) -> tuple[float, int]:
    """MiB of memory, and open files."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20, len(list(Path(f"/proc/{pid}/fd").iterdir()))
