"""`kill -9` at random moments while several people submit, stop and look; then their history and the witness are asked. A thousand by `run(1000)`."""
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.server import LiveServer
from witness import Witness, processes_of
from witness_tables import SqliteTables

from history import Asker, faults
from waits import until

SETTINGS = "[node]\ncpus = 64\nmemory = '64GiB'\n[policy]\nstop_grace = '2s'\n[backup]\nevery = 'off'\n"
ASKERS = 3
LONGEST_S = 1.2  # between two kills: from before a server serves to well after
DRY_WITHIN_S = 180


@dataclass(frozen=True, slots=True)
class Found:
    kills: int
    calls: int
    unanswered: int
    sessions: int
    slowest_start_s: float


def run(kills: int, seed: int = 20261116, folder: Path | None = None) -> Found:
    """Raises AssertionError where a promise is broken."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fairy-rk-") as made:
            return run(kills, seed, Path(made))
    chance = random.Random(seed)
    with LiveServer(folder, SETTINGS) as server:
        witness, slowest_s = Witness(server.data, processes_of(server.data), SqliteTables(server.data / "fairy.db")), 0.0
        askers = [Asker(server.client(), f"asker{number}", seed + number) for number in range(ASKERS)]
        for asker in askers:
            asker.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.0, LONGEST_S))
            server.kill()
            server.start()
            slowest_s = max(slowest_s, server.ready_s)
        time.sleep(chance.uniform(0.0, LONGEST_S))
        for asker in askers:
            asker.done.set()
            asker.join(60)
        client = server.client()
        client.stop_all()
        until(lambda: not list(client.sessions()), "all to be over", DRY_WITHIN_S)
        history = [said for asker in askers for said in asker.history]
        columns = ("id", "name", "phase", "outcome")
        rows = [dict(zip(columns, row, strict=True)) for row in witness.rows(f"select {', '.join(columns)} from sessions")]
        assert faults(history, rows) == []
        witness.check_files()
        witness.check_seats()
        witness.check_runs()
        assert not witness.running(), "something runs that nobody knows"
        return Found(kills, len(history), sum(said.answer is None and said.status is None for said in history), len(rows), slowest_s)
