"""Endpoints that messages are sent to: a real HTTP server and a real SMTP server, each as well or as badly behaved as a test wants."""
import base64
import contextlib
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kube.certificates import Authority
from waits import until

HANG = "hang"  # takes the request and never answers
SLOW = "slow"  # one byte a while, for ever


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class HttpEndpoint:
    """`answers`: one for each request, the last for all that follow. A number is a status; (302, url) points elsewhere."""

    url: str = ""
    answers: list[Any] = field(default_factory=lambda: [200])
    requests: list[Request] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def next_answer(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait_for(self, count: int, limit_s: float = 20.0) -> list[Request]:
        return until(lambda: len(self.requests) >= count and list(self.requests), f"{count} requests, not {len(self.requests)}", limit_s)


@contextmanager
def http_endpoint(*answers: Any, tls: ssl.SSLContext | None = None) -> Iterator[HttpEndpoint]:
    endpoint = HttpEndpoint(answers=list(answers) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = endpoint.next_answer()
            endpoint.requests.append(Request(self.path, dict(self.headers), body))
            if answer in (HANG, SLOW):
                if answer == SLOW:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                endpoint.over.wait(60)
                return
            status, location = answer if isinstance(answer, tuple) else (answer, None)
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"said\n")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    endpoint.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SmtpEndpoint:
    """What a mail server was given. `user` and `password`: it takes no mail without them."""

    port: int = 0
    user: str = ""
    password: str = ""
    starttls: ssl.SSLContext | None = None
    behaviour: str = ""  # HANG, SLOW, or an answer to RCPT such as "550 no such user"
    mails: list[EmailMessage] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)  # of each mail: whether it came by TLS
    over: threading.Event = field(default_factory=threading.Event)


class _Smtp(socketserver.StreamRequestHandler):
    endpoint: SmtpEndpoint

    def handle(self) -> None:
        told, self.is_secure, self.signed_in = self.endpoint, False, False
        if told.behaviour == HANG:
            told.over.wait(60)
            return
        if told.behaviour == SLOW:
            while not told.over.wait(0.5):
                self.wfile.write(b"2")
            return
        self.say("220 fake ready")
        while line := self.rfile.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            if self.answer(verb.upper(), rest) is False:
                return

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def answer(self, verb: str, rest: str) -> bool | None:
        told = self.endpoint
        match verb:
            case "EHLO":
                offers = ["250-fake"] + (["250-STARTTLS"] if told.starttls and not self.is_secure else []) + (["250-AUTH PLAIN"] if told.user else [])
                self.say("\r\n".join([*offers, "250 OK"]))
            case "STARTTLS":
                self.say("220 go ahead")
                self.upgrade()
            case "AUTH":
                self.signed_in = rest.rpartition(" ")[2] == told_plain(told)
                self.say("235 welcome" if self.signed_in else "535 wrong")
            case "MAIL" if told.user and not self.signed_in:
                self.say("530 sign in first")
            case "RCPT" if told.behaviour:
                self.say(told.behaviour)
            case "DATA":
                self.say("354 go on")
                told.mails.append(self.read_mail())
                told.secure.append(self.is_secure)
                self.say("250 taken")
            case "QUIT":
                self.say("221 bye")
                return False
            case _:
                self.say("250 OK")
        return None

    def upgrade(self) -> None:
        assert self.endpoint.starttls is not None
        self.request = self.endpoint.starttls.wrap_socket(self.request, server_side=True)
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
        self.is_secure = True

    def read_mail(self) -> EmailMessage:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        return message_from_bytes(b"".join(lines), policy=policy.default)

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # whoever spoke with it has hung up
            super().finish()
        self.request.close()  # the one inside TLS: the server closes the other


def told_plain(endpoint: SmtpEndpoint) -> str:
    return base64.b64encode(f"\0{endpoint.user}\0{endpoint.password}".encode()).decode()


@contextmanager
def smtp_endpoint(**settings: Any) -> Iterator[SmtpEndpoint]:
    endpoint = SmtpEndpoint(**settings)
    handler = type("Handler", (_Smtp,), {"endpoint": endpoint})

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

        def handle_error(self, *_: object) -> None:
            """A client that hangs up is what some tests are about."""

    server = Server(("127.0.0.1", 0), handler)
    endpoint.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def server_tls(folder: Path, *, has_identifiers: bool = True) -> tuple[ssl.SSLContext, Path]:
    """A context for 127.0.0.1, and the file of who signed it."""
    Authority(folder, has_identifiers=has_identifiers).server("mail", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "mail.crt", folder / "mail.key")
    return context, folder / "ca.crt"
