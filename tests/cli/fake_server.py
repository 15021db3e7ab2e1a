"""A real HTTP server that answers canned API JSON, for the client and the command line: no engine, no store, no rules."""
import json
import re
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from gpufairy.client.machine import this_machine

TOKEN = "fairy_test_token"
DROP = object()  # in a log: the connection breaks here, once
HOLD = object()  # in a log: nothing more until the session is told to stop
LIMIT_S = 20  # of a HOLD: a test that hangs fails instead


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class Job:
    """One session's script: the states that a reader sees one after the other, its log, its results."""

    states: list[dict[str, Any]]
    log: list[Any] = field(default_factory=list)
    results: bytes | None = None
    files: tuple[tuple[str, int], ...] = ()
    unanswered: int = 0  # so many looks at it get a 503
    told_to_stop: threading.Event = field(default_factory=threading.Event)
    shown: int = 0

    def now(self) -> dict[str, Any]:
        return self.states[min(self.shown, len(self.states) - 1)]


def a_session(name="brave-otter", state="RUNNING", **fields):
    return {
        "id": f"id-{name}", "name": name, "owner": "student1", "team": None, "kind": "batch", "state": state, "outcome": None,
        "exit_code": None, "why": "", "request": {"gpus": "0.5", "cpus": 4, "memory_bytes": 2**34, "image": None, "command": ["sh"]},
        "seat": None, "place": None, "forecast_start": None, "submitted_at": "2026-11-15T08:00:00Z", "started_at": None,
        "ended_at": None, "attempt": 1, "revision": 1, **fields,
    }  # fmt: skip


def a_seat(simulated=False):
    gpu = {"index": 0, "uuid": "GPU-1", "share": 0.5, "memory_bytes": 20 * 2**30, "enforced": [], "accounted": ["memory"]}
    return {"node": "gpu01", "gpus": [{**gpu, "simulated": simulated}]}


def ended(name="brave-otter", outcome="done", exit_code=0, **fields):
    return a_session(name, "ENDED", outcome=outcome, exit_code=exit_code, revision=9, **fields)


def running(name="brave-otter", **fields):
    return a_session(name, "RUNNING", revision=3, seat=a_seat(), **fields)


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class FakeServer:
    def __init__(self):
        self.asked: list[Asked] = []
        # (method, path below /api/v1) -> JSON, or (status, JSON)
        self.answers: dict[tuple[str, str], Any] = {("GET", "/me"): {"name": "student1", "role": "user", "machine": this_machine()}}
        self.told: dict[tuple[str, str], Any] = {}  # likewise -> records, each a line of an answer that comes bit by bit
        self.jobs: dict[str, Job] = {}
        self.submits = deque()  # names of jobs, in the order in which submits get them
        self.events: list[Any] = []  # what each follower of events is sent, before the line breaks; or a status and why it is refused
        self.drop_next = 0  # so many requests are answered by hanging up
        self._http = QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"fake": self}))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        for job in self.jobs.values():
            job.told_to_stop.set()
        self._http.shutdown()
        self._http.server_close()

    def add(self, job: Job) -> Job:
        name = job.states[0]["name"]
        self.jobs[name] = self.jobs[f"id-{name}"] = job
        self.submits.append(name)
        return job

    def calls(self, method, path):
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeServer

    def log_message(self, *args):
        pass

    def answer(self):
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix("/api/v1")
        asked = Asked(self.command, unquote(path), query, json.loads(body) if body else None, dict(self.headers))
        self.fake.asked.append(asked)
        if self.fake.drop_next > 0:
            self.fake.drop_next -= 1
            self.close_connection = True
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, {"title": "Not signed in", "status": 401, "detail": "the token is unknown", "next": "Run `fairy login`."})
        elif asked.path == "/events" and "follow" in asked.query:
            told = self.fake.events.pop(0) if self.fake.events else []
            if isinstance(told, tuple):
                self.send(*told)
                return
            self.stream([b": hello\n\n", *(b"data: %s\n\n" % json.dumps(event).encode() for event in told), None])
        elif (lines := self.fake.told.get((asked.method, asked.path))) is not None:
            self.stream([json.dumps(line).encode() + b"\n" for line in lines])
        elif (canned := self.fake.answers.get((asked.method, asked.path))) is not None:
            self.send(*(canned if isinstance(canned, tuple) else (200, canned)))
        elif (asked.method, asked.path) == ("POST", "/stops"):
            self.stops(asked.body["names"])
        elif (asked.method, asked.path) == ("POST", "/sessions") and self.fake.submits:
            self.submit(asked)
        elif match := re.fullmatch(r"/sessions/([^/]+)(/logs|/results/files|/results)?", asked.path):
            self.session(asked, match[1], match[2])
        else:
            self.send(404, {"title": "No such thing", "status": 404, "detail": f"nothing at {asked.path}", "next": "See /docs."})

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

    def submit(self, asked):
        names = [self.fake.submits.popleft() for _ in range(asked.body.get("count", 1))]
        made = [{**self.fake.jobs[name].now(), "notes": ["cpus are only counted here"]} for name in names]
        self.send(201, {"items": made} if "count" in asked.body else made[0])

    def stops(self, names):
        known = [self.fake.jobs[name] for name in names if name in self.fake.jobs]
        for job in known:
            job.told_to_stop.set()
        missing = [{"name": name, "detail": f"no session '{name}'"} for name in names if name not in self.fake.jobs]
        self.send(202, {"items": [{**job.now(), "state": "STOPPING"} for job in known], "missing": missing})

    def session(self, asked, name, part):
        job = self.fake.jobs.get(name)
        if job is None:
            self.send(404, {"title": "No such thing", "status": 404, "detail": f"no session '{name}'", "next": "See `fairy ps -a`."})
        elif part == "/logs":
            self.log(job, int(asked.query.get("from", 0)), "follow" in asked.query)
        elif part == "/results/files":
            items = [{"path": path, "size_bytes": size} for path, size in job.files]
            self.send(200, {"items": items, "next": None, "count": len(items), "size_bytes": sum(size for _, size in job.files), "whole": True})
        elif part == "/results":
            self.send(204, None) if job.results is None else self.stream([job.results])
        elif job.unanswered > 0:
            job.unanswered -= 1
            self.send(503, {"title": "Database not available", "status": 503, "detail": "starting", "next": "Wait."})
        else:
            if "wait" in asked.query and job.now()["revision"] == int(asked.query["unlike"]):
                job.shown += 1
            self.send(200, job.now())

    def log(self, job, skip, follow):
        self.stream(self.log_parts(job, skip, follow))

    def log_parts(self, job, skip, follow):
        for number, part in enumerate(job.log):
            if isinstance(part, bytes):
                yield part[skip:]
                skip = max(0, skip - len(part))
            elif part is DROP and follow:
                job.log[number] = b""
                yield None
            elif part is HOLD and follow:
                job.told_to_stop.wait(LIMIT_S)

    def stream(self, chunks):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            if chunk is None:
                self.close_connection = True
                return
            if chunk:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def send(self, status, value):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
