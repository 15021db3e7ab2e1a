"""A server that dies at a failpoint, and what is around it: who submits and remembers what was acknowledged, and the witness."""
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.server import LiveServer
from witness import Ids, Witness, processes_of, uptime_s, work
from witness_tables import SqliteTables, Tables

from endpoints import HttpEndpoint
from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.core import failpoints
from kube.cluster import Cluster
from waits import until, wait_for_state

START = str(Path(__file__).with_name("server.py"))
DIES_WITHIN_S = 120.0  # on two busy cores a pod may take a minute to run, and only then is the point passed
SETTLES_WITHIN_S = 60.0
CANARY = "canary-5f0d1c"  # in what users give their sessions: it must never come into a log


class Stage:
    """One data folder, one server after the other in it."""

    steady = ""  # the session that must live through all that comes; empty: none can run there
    inbox: HttpEndpoint | None = None  # of admins' letters
    cluster: Cluster | None = None

    def __init__(self, live: LiveServer, running: Ids | None = None, tables: Tables | None = None) -> None:
        self.server = live
        live.program = (START,)
        self.armed = live.folder / "armed"
        live.env[failpoints.VARIABLE] = str(self.armed)
        self.witness = Witness(live.data, running or processes_of(live.data), tables or SqliteTables(live.data / "fairy.db"))
        self.acknowledged: dict[str, str] = {}  # session ids, by the names they were asked for
        self._bodies: dict[str, dict[str, Any]] = {}
        self.number = 0
        self.asks_free = True  # False: others than sessions hold something there
        self.defaults: dict[str, Any] = {"gpus": "0.1", "cpus": "0.1", "memory": "16MiB"}

    def start(self) -> None:
        left_s = uptime_s()
        self.server.start()
        self.witness.away.append((left_s, uptime_s()))
        self.client = self.server.client()

    def open(self) -> None:
        """The first server, and a session that must live through all that comes."""
        self.start()
        self.submit("steady", "sleep 36000 & wait", gpus="0")
        self.steady = self.running("steady")

    def name(self, what: str) -> str:
        self.number += 1
        return f"{what}-{self.number}"

    def arm(self, point: str, passing: int = 1) -> None:
        assert point in failpoints.POINTS
        new = self.armed.with_name("armed.new")
        new.write_text(f"{point} {passing}")
        new.replace(self.armed)

    def tried(self, call: Callable[[], Any]) -> Any:
        """None: there was no answer, so nobody knows whether it was done."""
        try:
            return call()
        except ServerNotReached:
            return None

    def submit(self, name: str, then: str, **more: Any) -> None:
        body = {"name": name, "command": work(then), "env": {"CANARY": CANARY}, **self.defaults, **more}
        self._bodies[name] = body
        self.ask_again(name)

    def ask_again(self, name: str) -> None:
        """As a client does that got no answer: with the same key."""
        made = self.tried(lambda: self.client.submit(self._bodies[name], key=name))
        if made is not None:
            assert self.acknowledged.setdefault(name, made["id"]) == made["id"], f"{name} was made twice"

    def running(self, name: str) -> str:
        """Its id, once it says itself that it runs."""
        session = wait_for_state(self.client, name, "RUNNING", limit_s=SETTLES_WITHIN_S)
        until(lambda: self.witness.ran(session["id"]), f"{name} to begin", SETTLES_WITHIN_S)
        return str(session["id"])

    def ended(self, name: str, outcome: str, *, times: int | None = 1) -> dict[str, Any]:
        session: dict[str, Any] = wait_for_state(self.client, name, "ENDED", limit_s=SETTLES_WITHIN_S)
        assert session["outcome"] == outcome, f"{name}: {session['outcome']}, {session['why']}"
        if times is not None:
            assert len(self.witness.ran(session["id"])) == times, f"{name} began {self.witness.ran(session['id'])}"
        return session

    def died_at(self, point: str) -> None:
        """Waits for it, and sees that it was the point and nothing else."""
        process, fired = self.server.process, self.armed.with_name("armed.fired")
        assert process is not None
        assert process.stdout is not None
        code = process.wait(DIES_WITHIN_S)
        assert code == -signal.SIGKILL, f"it ended with {code}:\n{self.server.log[-3000:]}"
        assert fired.read_text() == point
        fired.unlink()
        process.stdout.close()
        self.server.process = None

    def back(self) -> None:
        self.armed.unlink(missing_ok=True)
        if self.server.process is None or self.server.process.poll() is not None:
            self.start()

    def check(self) -> None:
        self.witness.check(self.client if self.asks_free else None)
        if self.steady:
            assert len(self.witness.ran(self.steady)) == 1, "the one that was to live through it began again"
            assert self.witness.lives(self.steady), "the one that was to live through it is gone"
        known = {name: session_id for session_id, name in self.witness.rows("select id, name from sessions")}
        lost = {name: one for name, one in self.acknowledged.items() if known.get(name) != one}
        assert lost == {}, f"acknowledged, and not there: {lost}"
        for secret in (CANARY, self.server.token):
            assert secret not in self.server.log, f"{secret} is in the log"

    def end(self) -> None:
        self.armed.unlink(missing_ok=True)
        if self.server.process is None:
            with contextlib.suppress(RuntimeError):
                self.start()
        with contextlib.suppress(Problem, ServerNotReached):
            self.server.stop_all()


def end_session_processes(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), signal.SIGKILL)
