"""Questions to the API server of Kubernetes, one after the other on one connection, with limits on time and size. For agents."""
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from gpufairy.core.errors import EngineRefused, EngineSilent, NotAllowed
from gpufairy.node.kube_access import KubeAccess
from gpufairy.node.proc_text import printable

CHUNK = 64 * 1024
ANSWER_S = 10.0
MOST_BYTES = 4 * 2**20  # of an answer: a node has some dozens of slices, of 2 KiB each
ACCESS_S = 60.0  # tokens are changed under us: so old may be what we know of them
IN_FORCE = http.client.FORBIDDEN, http.client.UNAUTHORIZED


class Status(Exception):
    def __init__(self, status: int, text: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.text = status, text


class KubeNo(EngineRefused):
    """The API server said no. `status`: of HTTP."""

    def __init__(self, status: int, detail: str, next_step: str = "") -> None:
        super().__init__(detail, next_step)
        self.status = status


class Connection(http.client.HTTPSConnection):
    def __init__(self, access: KubeAccess, limit_s: float) -> None:
        super().__init__(access.host, access.port, timeout=limit_s, context=access.tls)
        self.access = access

    def connect(self) -> None:
        plain = socket.create_connection((self.access.host, self.access.port), self.timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = self.access.tls.wrap_socket(plain, server_hostname=self.access.server_name or self.access.host)
        except OSError:
            plain.close()
            raise

    def begin(self, method: str, path: str, body: bytes | None = None) -> None:
        proof = {"Authorization": f"Bearer {self.access.token}"} if self.access.token else {}
        of_body = {"Content-Type": "application/json"} if body is not None else {}
        self.request(method, f"{self.access.path}{path}", body, {"Accept": "application/json", **proof, **of_body})


def asked(
    connection: Connection, method: str, path: str, body: bytes | None = None,
    *, deadline_s: float, most_bytes: int = MOST_BYTES, had_bytes: int = 0,
) -> bytes:  # fmt: skip
    """`deadline_s`: on the steady clock. `had_bytes`: what came before, on other pages. Raises Status, OSError, HTTPException."""
    connection.begin(method, path, body)
    own = connection.sock  # one that ends with its answer is forgotten by the connection
    answer = connection.getresponse()
    text = bytearray()
    while chunk := answer.read1(CHUNK):
        text += chunk
        left_s = deadline_s - time.monotonic()
        if had_bytes + len(text) > most_bytes or left_s <= 0:
            raise http.client.HTTPException(f"more than {most_bytes} bytes" if left_s > 0 else f"not whole after {ANSWER_S:g} s")
        if not answer.isclosed():
            own.settimeout(left_s)
    answer.close()  # else nothing further could be asked for
    if not 200 <= answer.status < 300:
        raise Status(answer.status, bytes(text))
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)
    return bytes(text)


class KubeCalls:
    """One question at a time, from any thread. Raises EngineSilent, NotAllowed, KubeNo."""

    def __init__(self, access: Callable[[], KubeAccess]) -> None:
        self._find_access, self._lock = access, threading.Lock()
        self._connection: Connection | None = None
        self._until_s = 0.0

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with self._lock:
            # A connection that stood open may have been closed meanwhile: what may be asked twice is; what is written gets a new one.
            kept = self._connection is not None and time.monotonic() < self._until_s
            if kept and method == "GET":
                with contextlib.suppress(EngineSilent):
                    return self._ask(method, path, body)
            if not kept or method != "GET":
                self.close()
            return self._ask(method, path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        connection = self._open()
        whole = False
        try:
            content = None if body is None else json.dumps(body).encode()
            text = asked(connection, method, path, content, deadline_s=time.monotonic() + ANSWER_S)
            told: dict[str, Any] = json.loads(text)
            whole = True
            return told
        except Status as error:
            whole = error.status not in IN_FORCE
            raise refusal(error, connection.access, f"{method} {path}") from error
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise silence(error, connection.access) from error
        finally:
            if not whole:
                self.close()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._find_access(), ANSWER_S)
            self._until_s = time.monotonic() + ACCESS_S
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def silence(error: Exception, access: KubeAccess) -> EngineSilent:
    where = f"the API server at {access.host}:{access.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return EngineSilent(f"{where} shows a certificate that {access.what} does not trust: {error.verify_message}.")
    return EngineSilent(f"{where} gave no answer ({error or type(error).__name__}).")


def refusal(error: Status, access: KubeAccess, what: str) -> KubeNo | NotAllowed:
    where = f"the API server at {access.host}:{access.port}"
    if error.status == http.client.UNAUTHORIZED:
        return NotAllowed(f"{where} does not know us by {access.what} (401).", "Is that of this cluster, and not expired?")
    said = words_of(error.text)
    if error.status == http.client.FORBIDDEN:
        return NotAllowed(f"{where} forbids {what} (403): {said}", "Grant it, as the Helm chart does with agents.dra.enabled.")
    return KubeNo(error.status, f"{where} refused {what} ({error.status}): {said}")


def words_of(text: bytes) -> str:
    try:
        told = json.loads(text)
        return printable(str(told["message"]), 300)
    except (ValueError, LookupError, TypeError, RecursionError):
        return printable(text[:300], 300)
