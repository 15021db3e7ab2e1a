"""HTTP as a stranger would send it: no client of ours in between."""
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, method: str, path: str, *, token: str | None = None, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
    """`body`: bytes as they are, anything else as JSON."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    try:
        connection.request(method, path, sent, given)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
