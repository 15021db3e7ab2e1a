"""100,000 queued by 50 users: submit, list, plan and restart."""
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.figures import Figure, Report, percentile
from bench.server import LiveServer
from gpufairy.client import Fairy
from gpufairy.core.cluster import Cluster
from gpufairy.core.floor import Floor
from gpufairy.core.node import Gpu, Node
from gpufairy.core.plan import plan
from gpufairy.core.queue import Queue
from gpufairy.core.session import Request, Session, SessionKind
from gpufairy.core.share import parse_share

QUEUED, USERS, AT_ONCE = 100_000, 50, 1000
HOGS = 8  # as many as there are GPUs
SUBMITS = 2000
PLANS = 20


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder:
        server = LiveServer(Path(folder) / "fairy", "[node]\nname = 'box'\ncpus = 64\nmemory = '512GiB'\n", ("--simulate", "8xA100-40GB"))
        with server:
            clients = fill(server)
            submits = [timed(partial(clients[n % USERS].submit, wish(n))) for n in range(SUBMITS)]
            pages = [timed(partial(next, client.sessions())) for client in clients]
            server.kill()
            server.start()
            restart_s = server.ready_s
            waiting = server.client().queue()["waiting"]
            end_the_hogs(server)
            server.stop()
        with closing(sqlite3.connect(server.data / "fairy.db")) as database:
            rows = database.execute("select count(*) from sessions where phase = 'queued'").fetchone()[0]
    assert waiting >= QUEUED, waiting
    plans = planning_passes()
    return Report("long_queue", [
        Figure(f"submit with {rows:,} queued, p99", percentile(submits, 0.99) * 1000, "ms", goal=50, higher_is_better=False),
        Figure("submit, median", statistics.median(submits) * 1000, "ms", higher_is_better=False),
        Figure("first page of the list, p99", percentile(pages, 0.99) * 1000, "ms", goal=200, higher_is_better=False),
        Figure("planning pass of plan() alone, slowest of 20", max(plans) * 1000, "ms", goal=30, higher_is_better=False),
        Figure("planning pass, median", statistics.median(plans) * 1000, "ms", higher_is_better=False),
        Figure("kill -9 and start again, to serving", restart_s, "s", goal=10, higher_is_better=False),
    ])  # fmt: skip


def fill(server: LiveServer) -> list[Fairy]:
    """Everybody asks for GPUs that eight long sessions hold, so all wait."""
    admin = server.client()
    admin.submit({"name": "hog", "gpus": "1", "command": ["sleep", "86400"]}, count=HOGS)
    clients = []
    for number in range(USERS):
        admin.add_user({"name": f"user{number:02}"})
        clients.append(server.client(admin.create_token({"user": f"user{number:02}"})["token"]))
    for batch in range(QUEUED // AT_ONCE):
        clients[batch % USERS].submit({**wish(batch), "name": f"batch-{batch}"}, count=AT_ONCE)
    return clients


def end_the_hogs(server: LiveServer) -> None:
    """Sessions outlive their server; drained first, so that no other starts in their place."""
    admin = server.client()
    admin.drain("box", "the benchmark is over")
    for number in range(1, HOGS + 1):
        admin.stop(f"hog-{number}")
    while any(gpu["holders"] for gpu in admin.gpus()):
        time.sleep(0.1)


def wish(number: int) -> dict[str, object]:
    """A few shapes, as a lab has them."""
    gpus = ("1", "0.5", "2", "4", "0.25")[number % 5]
    return {"gpus": gpus, "cpus": 1 + number % 4, "memory": f"{1 + number % 7}GiB", "command": ["true"]}


def planning_passes() -> list[float]:
    """plan() over the same queue, every session of another shape: the worst for it, since no answer serves twice."""
    now = datetime.now(UTC)
    node = Node("box", 64000, 2**39, tuple(Gpu(index, f"GPU-{index}", "A100-40GB", 40 * 2**30) for index in range(8)))
    shares = [parse_share(text) for text in ("1", "0.5", "2", "4")]
    requests = [Request(shares[n % 4], ("true",), cpus_milli=1000 + n % 4000, memory_bytes=2**30 + n) for n in range(QUEUED)]
    owners = [f"user{n % USERS:02}" for n in range(QUEUED)]
    sessions = [Session(f"s{n}", f"n{n}", owners[n], SessionKind.BATCH, requests[n], now, now, number=n) for n in range(QUEUED)]
    queues = {f"user{u:02}": Queue(s for s in sessions if s.owner == f"user{u:02}") for u in range(USERS)}
    cluster = Cluster((node,), (), queues)
    floor = Floor()  # kept from pass to pass, as the place loop does
    full = plan(cluster, now, floor)
    holding = tuple(replace(p.session, seat=p.seat, placed_at=now, started_at=now) for p in full.placed)
    return [timed(partial(plan, replace(cluster, holding=holding), now, floor)) for _ in range(PLANS)]


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
