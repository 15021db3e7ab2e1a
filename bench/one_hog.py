"""100,000 sessions queued by one user: what others wait to be placed, what a submit takes, and a restart."""
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.figures import Figure, Report, percentile
from bench.long_queue import end_the_hogs, timed, wish
from bench.server import LiveServer
from gpufairy.client import Fairy

QUEUED, AT_ONCE = 100_000, 1000
SUBMITS, STARTS = 1000, 20
LESS = {"higher_is_better": False}
SETTINGS = "[node]\nname = 'box'\ncpus = 64\nmemory = '512GiB'\n[limits]\nqueued_per_user = {most}\n"


def measure(*, queued: int = QUEUED, submits: int = SUBMITS, starts: int = STARTS) -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        settings = SETTINGS.format(most=2 * queued + submits)
        with LiveServer(Path(folder) / "fairy", settings, ("--simulate", "8xA100-40GB")) as server:
            admin = server.client()
            greedy, other = (joined(server, admin, name) for name in ("greedy", "other"))
            before = start_times(other, starts)
            admin.submit({"name": "hog", "gpus": "1", "command": ["sleep", "86400"]}, count=8)
            for batch in range(queued // AT_ONCE):
                greedy.submit({**wish(batch), "name": f"batch-{batch}"}, count=AT_ONCE)
            during = start_times(other, starts)
            by_other = [timed(partial(other.submit, wish(number))) for number in range(submits)]
            by_greedy = [timed(partial(greedy.submit, wish(number))) for number in range(submits)]
            server.kill()
            server.start()
            restart_s, waiting = server.ready_s, server.client().queue()["waiting"]
            after = start_times(other, starts)
            end_the_hogs(server)
            server.stop()
    assert waiting >= queued, waiting
    what = f"{queued:,} queued by one user"
    return Report("one_hog", [
        Figure("another's session starts, nothing queued, median", statistics.median(before) * 1000, "ms", **LESS),
        Figure(f"{what}: another's session starts, median", statistics.median(during) * 1000, "ms", goal=1000, **LESS),
        Figure(f"{what}: the slowest of {starts}", max(during + after) * 1000, "ms", **LESS),
        Figure(f"{what}: another submits, p99", percentile(by_other, 0.99) * 1000, "ms", goal=50, **LESS),
        Figure(f"{what}: they submit more, p99", percentile(by_greedy, 0.99) * 1000, "ms", goal=50, **LESS),
        Figure(f"{what}: kill -9 and start again, to serving", restart_s, "s", goal=10, **LESS),
    ])  # fmt: skip


def joined(server: LiveServer, admin: Fairy, name: str) -> Fairy:
    admin.add_user({"name": name})
    return server.client(admin.create_token({"user": name})["token"])


def start_times(client: Fairy, count: int) -> list[float]:
    """From the submit until it runs; without a GPU, since all of those are held."""
    taken = []
    for _ in range(count):
        began = time.monotonic()
        session = client.submit({"gpus": "0", "cpus": 0.1, "memory": "64MiB", "command": ["sleep", "1"]})
        while session["state"] in ("PENDING", "STARTING"):
            session = client.wait(session["name"], session["revision"], 5)
        taken.append(time.monotonic() - began)
    return taken
