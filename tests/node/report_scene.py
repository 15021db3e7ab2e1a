"""A real HTTP server that answers agents as a test says, and remembers what they sent."""
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EPOCH = "1.0.abc"


@dataclass
class FakeServer:
    url: str = ""
    accepts: bool = True
    answers: list[tuple[int, dict[str, Any]] | None] = field(default_factory=list)  # to the next reports (None: none at all); then all are taken
    told: dict[str, Any] = field(default_factory=dict)  # what comes with every answer
    hellos: list[dict[str, Any]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)  # with the headers they came with

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]] | None:
        said = json.loads(body)
        if path.endswith("/hello"):
            self.hellos.append(said)
            return 200, {"state": "accepted" if self.accepts else "waiting", "epoch": EPOCH if self.accepts else None, **self.told}
        self.reports.append({**said, "headers": headers, "path": path, "raw": body})
        return self.answers.pop(0) if self.answers else (200, {"kept": len(said["samples"]), **self.told})


@contextmanager
def listening(server: FakeServer, port: int = 0) -> Iterator[FakeServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = server.answer(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            if answer is None:
                self.rfile.read(1)  # until the other side gives up
                return
            status, told = answer
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
