"""What a process takes: memory and open files, before a crowd came and after it left; and how long somebody else needs meanwhile."""
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure
from bench.lab import let_in, make_key
from bench.process_tree import memory_mb
from bench.server import LiveServer

BACK_PERCENT = 10  # of what there was: the promise
SETTLES_S = 20.0  # at most, until what was given back is seen
NODE = "[node]\ncpus = 256\nmemory = '1000GiB'\nname = 'box'\n"


@dataclass(frozen=True, slots=True)
class Footprint:
    memory_mb: float
    files: int


def footprint(pid: int) -> Footprint:
    return Footprint(memory_mb([pid], "Pss"), len(os.listdir(f"/proc/{pid}/fd")))


def settled(pid: int, before: Footprint, limit_s: float = SETTLES_S) -> Footprint:
    """When it is back within a tenth, or as it is when the time is up."""
    until = time.monotonic() + limit_s
    while True:
        now = footprint(pid)
        back = now.memory_mb <= before.memory_mb * 1.1 and now.files <= before.files + a_few(before.files)
        if back or time.monotonic() > until:
            return now
        time.sleep(0.5)


def a_few(files: int) -> int:
    """A tenth; of a dozen that is less than what is open for a moment."""
    return max(2, files * BACK_PERCENT // 100)


def back_figures(who: str, fresh: Footprint, before: Footprint, after: Footprint) -> list[Figure]:
    """`fresh`: when nobody had come yet; `before`, `after`: the second crowd. What the first leaves is code and room that stay in use; what
    each leaves would be a leak."""
    less = {"higher_is_better": False}
    first = 100 * (before.memory_mb / fresh.memory_mb - 1)
    memory = 100 * (after.memory_mb / before.memory_mb - 1)
    return [
        Figure(
            f"after a crowd: memory of the {who} above a fresh one", first, "%",
            note=f"{fresh.memory_mb:.0f} to {before.memory_mb:.0f} MB", **less,
        ),
        Figure(
            f"after a second: memory of the {who} above that", memory, "%", goal=BACK_PERCENT,
            note=f"{before.memory_mb:.0f} to {after.memory_mb:.0f} MB", **less,
        ),
        Figure(
            f"and open files of the {who}", after.files - before.files, "files", goal=a_few(before.files),
            note=f"{before.files} to {after.files}", **less,
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A server with its gateway, sessions as processes, and kim, who has a key and a session."""

    live: LiveServer
    folder: Path

    @property
    def note(self) -> dict[str, object]:
        return json.loads((self.live.data / "ssh" / "gateway.json").read_text())

    @property
    def ssh_port(self) -> int:
        return int(str(self.note["port"]))

    @property
    def gateway_pid(self) -> int:
        return int(str(self.note["pid"]))

    def ssh(self, *words: str, user: str = "kim") -> list[str]:
        settings = ("IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR")
        known = [word for setting in settings for word in ("-o", setting)]
        return ["ssh", "-F", "/dev/null", "-i", str(self.key(user)), *known, "-p", str(self.ssh_port), f"{user}@127.0.0.1", *words]

    def key(self, user: str) -> Path:
        return self.folder / f"id_{user}"

    def come(self, user: str) -> None:
        """A user with a key and a session that runs."""
        make_key(self.key(user))
        with self.live.client() as admin:
            let_in(admin, user, self.key(user))
        until = time.monotonic() + 20
        while subprocess.run(self.ssh("true", user=user), capture_output=True, check=False).returncode:
            if time.monotonic() > until:
                raise RuntimeError(f"{user} does not come in: {self.live.log[-2000:]}")

    def sign_in_by_ssh(self) -> float:
        began = time.monotonic()
        subprocess.run(self.ssh("true"), check=True, capture_output=True, timeout=120)
        return time.monotonic() - began

    def sign_in_by_http(self) -> float:
        """The page to sign in on, and who one is, on connections of their own."""
        began = time.monotonic()
        for path, headers in (("/signin", {}), ("/api/v1/me", {"Authorization": f"Bearer {self.live.token}"})):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.live.port, timeout=120)) as connection:
                connection.request("GET", path, headers=headers)
                status = connection.getresponse().status
                if status != 200:
                    raise RuntimeError(f"{path} was answered {status}")
        return time.monotonic() - began


@contextlib.contextmanager
def a_place(settings: str = "") -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-bench-"))
    try:
        with LiveServer(folder / "fairy", NODE + settings, ("--simulate", "none"), ssh=True) as live:
            place = Place(live, folder)
            place.come("kim")
            yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class Others:
    """Somebody who wants in, again and again, while a crowd is there."""

    take: Callable[[], float]
    took_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator["Others"]:
        done = threading.Event()

        def keep_coming() -> None:
            while not done.is_set():
                try:
                    self.took_s.append(self.take())
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    self.failed.append(str(error)[:300])

        worker = threading.Thread(target=keep_coming)
        worker.start()
        try:
            yield self
        finally:
            done.set()
            worker.join()

    def figure(self, what: str, goal_s: float = 3.0) -> Figure:
        slowest = max(self.took_s) if self.took_s and not self.failed else None
        note = f"slowest of {len(self.took_s)}" if not self.failed else f"{len(self.failed)} failed: {self.failed[0]}"
        return Figure(what, slowest, "s", goal=goal_s, higher_is_better=False, note=note)
