"""Every channel that somebody can hold open, opened as people open it, and looked at until it ends."""
import base64
import contextlib
import http.client
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Protocol

from bench.ports import free_port
from intruders import HANDSHAKE

from waits import until

LIMIT_S = 30


class Channel(Protocol):
    name: str

    def is_open(self) -> bool: ...
    def close(self) -> None: ...


class Person:
    """Somebody with a token, a browser and an SSH key of their own."""

    def __init__(self, server, admin, name: str) -> None:
        self.server, self.name, self.key = server, name, server.folder / f"id_{name}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.key], check=True)
        admin.add_user({"name": name})
        self.client = server.client(admin.create_token({"user": name, "label": "own"})["token"])
        self.fingerprint = self.client.add_key({"key": self.key.with_suffix(".pub").read_text()})["fingerprint"]

    def options(self) -> list[str]:
        given = ("IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR", "ExitOnForwardFailure=yes")
        return ["-F", "/dev/null", "-i", str(self.key), *(word for one in given for word in ("-o", one))]

    def ssh(self, *words: str, session: str, options: tuple[str, ...] = ()) -> list[str]:
        return ["ssh", *self.options(), *options, "-p", str(ssh_port(self.server)), f"{self.name}+{session}@127.0.0.1", *words]

    def sftp(self, session: str) -> list[str]:
        """What the program of that name starts; itself it would notice the end of its line only when somebody types."""
        return self.ssh("sftp", session=session, options=("-s",))


def ssh_port(server) -> int:
    return json.loads((Path(server.data) / "ssh" / "gateway.json").read_text())["port"]


class Program:
    """A client of OpenSSH that has come as far as it says so."""

    def __init__(self, name: str, line: list[str], said: bytes, typed: bytes = b"") -> None:
        self.name = name
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdin is not None
        self._process.stdin.write(typed)
        self._process.stdin.flush()
        seen = b""
        while said not in seen:
            more = os.read(self._process.stdout.fileno(), 4096)
            assert more, f"{name} ended with {seen!r}"
            seen += more

    def is_open(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=LIMIT_S)


class Forward:
    """A connection through `ssh -L` to something that listens in the session."""

    def __init__(self, person: Person, session: str, inside: int) -> None:
        self.name, self._over, here = "forward", False, free_port()
        line = person.ssh(session=session, options=("-N", "-L", f"127.0.0.1:{here}:127.0.0.1:{inside}"))
        self._ssh = subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._link = until(lambda: connected(here), "the forward to listen")
        self._link.sendall(b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n")
        assert self._link.recv(4096).startswith(b"HTTP/1.1 200")

    def is_open(self) -> bool:
        self._over = self._over or ended(self._link)
        return not self._over

    def close(self) -> None:
        self._link.close()
        self._ssh.kill()
        self._ssh.wait(LIMIT_S)


class Socket:
    """A WebSocket, of the web terminal or of an app."""

    def __init__(self, name: str, origin: str, path: str, headers: dict[str, str]) -> None:
        self.name, self._over = name, False
        host, _, port = origin.removeprefix("http://").partition(":")
        self._link = socket.create_connection((host, int(port)), timeout=LIMIT_S)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {**HANDSHAKE, "Sec-WebSocket-Key": key, "Host": f"{host}:{port}", **headers}
        head = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
        self._link.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        head, _, self._said = self._link.recv(4096).partition(b"\r\n\r\n")
        assert b" 101 " in head, head

    def is_open(self) -> bool:
        came, hung_up = taken(self._link)
        self._said += came
        self._over = self._over or hung_up or self._said_goodbye()
        return not self._over

    def _said_goodbye(self) -> bool:
        """In a WebSocket's own words, whatever else it said before."""
        while len(self._said) >= 2:
            long = {126: 2, 127: 8}.get(self._said[1], 0)
            size = int.from_bytes(self._said[2 : 2 + long], "big") if long else self._said[1]
            if self._said[0] == 0x88:
                return True
            if len(self._said) < 2 + long + size:
                return False
            self._said = self._said[2 + long + size :]
        return False

    def close(self) -> None:
        self._link.close()


class Stream:
    """An answer that goes on."""

    def __init__(self, name: str, server, path: str, headers: dict[str, str]) -> None:
        self.name, self._over = name, False
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_S)
        self._connection.request("GET", path, headers={**headers, "Connection": "close"})
        link = self._connection.sock  # kept: the answer takes it away from the connection
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._answer.readline()
        self._link = link

    def is_open(self) -> bool:
        self._over = self._over or ended(self._link)
        return not self._over

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def connected(port: int) -> socket.socket | None:
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
    except ConnectionRefusedError:
        return None


def ended(link: socket.socket) -> bool:
    return taken(link)[1]


def taken(link: socket.socket) -> tuple[bytes, bool]:
    """Whatever has come, and whether the other side has hung up."""
    link.setblocking(False)
    came = b""
    try:
        while more := link.recv(65536):
            came += more
        return came, True
    except BlockingIOError:
        return came, False
    except OSError:
        return came, True
    finally:
        with contextlib.suppress(OSError):
            link.setblocking(True)
