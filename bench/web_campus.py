"""A server as a campus has it, for the benchmarks of the pages: users whose sessions run or wait, hosts that report, always news."""
import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from bench.agents import a_crowd
from bench.server import LiveServer
from gpufairy.client import Fairy

SETTINGS = "[node]\ncpus = 128\nmemory = '1TiB'\nname = 'main'\n"
GPUS = ("--simulate", "24xA100-40GB,8xH200")
EACH_S = 1.0  # somebody starts something so often, and it ends soon after
SETTLED_S = 90.0


@dataclass(frozen=True, slots=True)
class Size:
    users: int = 100
    running: int = 60  # sessions, each of another user
    waiting: int = 30
    watched_hosts: int = 20  # of 8 GPUs each


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    cookie: str
    session: str | None  # that runs or waits, and stays


@dataclass(slots=True)
class Campus:
    live: LiveServer
    agents: subprocess.Popen[str]  # of the hosts that are only watched
    members: list[Member]
    clients: list[Fairy] = field(default_factory=list)

    @contextlib.contextmanager
    def on_the_move(self) -> Iterator[None]:
        """Somebody starts a short session each second: it is queued, placed, begins and ends, and all who look are told."""
        done = threading.Event()
        worker = threading.Thread(target=self._keep_starting, args=(done,))
        worker.start()
        try:
            yield
        finally:
            done.set()
            worker.join()

    def _keep_starting(self, done: threading.Event) -> None:
        chance, due_s = Random(7), time.monotonic()
        while not done.wait(max(0.0, due_s - time.monotonic())):
            chance.choice(self.clients).submit({"command": ["sleep", "2"], "gpus": "0", "cpus": 0.1, "memory": "64MiB"})
            due_s += EACH_S


@contextlib.contextmanager
def a_campus(size: Size) -> Iterator[Campus]:
    folder = tempfile.TemporaryDirectory(prefix="fairy-bench-")
    with folder as path, LiveServer(Path(path) / "fairy", SETTINGS, GPUS) as live, a_crowd(live, size.watched_hosts, 3600) as agents:
        admin = live.client()
        clients = [live.client(token_of(admin, f"student{number:03}")) for number in range(size.users)]
        busy = range(size.running + size.waiting)
        for number in busy:
            clients[number].submit(a_session(number, waits=number >= size.running))
        members = [
            Member(f"student{number:03}", cookie_of(client), f"train{number}" if number in busy else None)
            for number, client in enumerate(clients)
        ]
        settled(admin, size.running)
        yield Campus(live, agents, members, clients)


def token_of(admin: Fairy, name: str) -> str:
    admin.add_user({"name": name, "role": "user"})
    return str(admin.create_token({"user": name})["token"])


def a_session(number: int, *, waits: bool) -> dict[str, object]:
    """Those who wait ask for more than is left."""
    asked = {"gpus": "2" if waits else "0.5", "time": "8h", "cpus": 1, "memory": "1GiB"}
    return {"name": f"train{number}", "command": ["sleep", "100000"], **asked}


def settled(admin: Fairy, running: int) -> None:
    until_s = time.monotonic() + SETTLED_S
    while sum(session["state"] == "RUNNING" for session in admin.sessions(all_users=True)) < running:
        if time.monotonic() > until_s:
            raise RuntimeError(f"fewer than {running} sessions run after {SETTLED_S:.0f} s")
        time.sleep(0.5)


def cookie_of(client: Fairy) -> str:
    """By a sign-in link, as a browser opens it."""
    link = urlsplit(client.sign_in_link())
    with contextlib.closing(HTTPConnection(link.netloc, timeout=30)) as connection:
        connection.request("GET", f"{link.path}?{link.query}")
        return str(connection.getresponse().headers["Set-Cookie"]).partition(";")[0]
