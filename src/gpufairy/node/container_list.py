"""One question to one container engine: what runs? By the Docker API, which Podman speaks too, with limits on time and size."""
import http.client
import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufairy.core.errors import EngineSilent
from gpufairy.node.proc_text import printable

ANSWER_S = 5.0  # a daemon under load takes a second
CHUNK = 64 * 1024
LONGEST_NAME, LONGEST_VALUE = 128, 256  # of names, images and labels; longer labels name no user


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    uid: int | None = None  # of the user whose rootless engine told it; None: the machine's own did


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(self._path)


def listed_containers(path: str, most_bytes: int) -> list[ContainerFacts]:
    """Those that run. Raises EngineSilent."""
    try:
        return list(_read(json.loads(_answer(path, most_bytes))))
    except PermissionError as error:
        raise EngineSilent(f"{path}: {error.strerror}, so container names are not known.", "Run as root or in its group.") from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineSilent(f"{path} gave no answer ({error or type(error).__name__}), so container names may be old.") from error
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise EngineSilent(f"{path} gave an answer that is no list of containers: {printable(str(error), 100)}.") from error


def _answer(path: str, most_bytes: int) -> bytes:
    deadline_s = time.monotonic() + ANSWER_S
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/containers/json")
        own = connection.sock  # the answer takes it over, and the connection forgets it
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"status {answer.status}")
        text = bytearray()
        while chunk := answer.read1(CHUNK):
            text += chunk
            left_s = deadline_s - time.monotonic()
            if len(text) > most_bytes or left_s <= 0:
                raise http.client.HTTPException(f"more than {most_bytes} bytes" if left_s > 0 else f"not whole after {ANSWER_S:g} s")
            if not answer.isclosed():  # then the socket is closed too
                own.settimeout(left_s)
        return bytes(text)
    finally:
        connection.close()


def _read(answer: Any) -> Iterator[ContainerFacts]:
    if not isinstance(answer, list):
        raise TypeError("no list")
    for one in answer:
        names, labels = one.get("Names") or [""], one.get("Labels") or {}
        short = {str(name): value for name, value in labels.items() if isinstance(value, str) and len(value) <= LONGEST_VALUE}
        name, image = (printable(str(text), LONGEST_NAME) for text in (names[0], one.get("Image") or ""))
        yield ContainerFacts(str(one["Id"]), name.removeprefix("/"), short, image)
