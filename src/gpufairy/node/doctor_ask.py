"""How the doctor asks: programs, sockets and pages, each with a time limit, an end to what it reads, and None where there is no answer."""
import asyncio
import contextlib
import http.client
import json
import os
import shutil
import socket
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from gpufairy.devices.bounded_call import Answer, BoundedCalls
from gpufairy.wire.tls import trust_authorities

PROGRAM_S = 8.0  # nvidia-ctk and rpm answer in tenths of a second
PAGE_S = 3.0
MOST_BYTES = 8 * 2**20  # of an answer: /metrics of a host with a thousand processes has 1 MiB
CHUNK = 64 * 1024
MORE_PATH = "/usr/local/sbin:/usr/sbin:/sbin"  # what users have not on their PATH, and doctors look for


def found_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{MORE_PATH}")


def said(*command: str, limit_s: float = PROGRAM_S, env: Mapping[str, str] | None = None) -> Answer | None:
    """None: there is no such program, or it does not answer."""
    program = found_program(command[0])
    if program is None:
        return None
    try:
        return asyncio.run(BoundedCalls().run([program, *command[1:]], env={**os.environ, **(env or {})}, limit_s=limit_s))
    except (TimeoutError, OSError):
        return None


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PAGE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PAGE_S)
        self.sock.connect(self._path)


def socket_json(path: str, question: str) -> dict[str, Any]:
    """What a daemon answers at its socket. Raises OSError, HTTPException, ValueError."""
    _, text = _fetched(_OverSocket(path), question, {})
    told = json.loads(text)
    return told if isinstance(told, dict) else {}


def page(url: str) -> tuple[int, str, str] | None:
    """Status, text and the server's own time. None: nobody answers there."""
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = http.client.HTTPConnection(host, port, timeout=PAGE_S)
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=PAGE_S, context=trust_authorities())
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        answer, text = _fetched(connection, f"{parts.path}{'?' + parts.query if parts.query else ''}" or "/", {"Accept": "*/*"})
        return answer.status, text.decode(errors="replace"), answer.getheader("Date") or ""
    return None


def _fetched(connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
    until_s = time.monotonic() + PAGE_S
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        text = bytearray()
        while chunk := answer.read1(CHUNK):
            text += chunk
            if len(text) > MOST_BYTES or time.monotonic() > until_s:
                raise http.client.HTTPException(f"more than {MOST_BYTES} bytes, or not whole after {PAGE_S:g} s")
        return answer, bytes(text)
    finally:
        connection.close()
