"""One gRPC call over a UNIX socket: a question, an answer, and the connection is over. As much of HTTP/2 as that takes.

A library for it would be a tenth of a collector's memory. What a server says about why it refuses is packed in a way that only such a
library reads, so a refusal is told without its reason.
"""
import socket
import struct
import time

from gpufairy.core.errors import EngineSilent

ANSWER_S = 5.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
END_STREAM, ACKNOWLEDGED, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
INITIAL_WINDOW = 0x4  # the setting: how much the server may send of one answer before it must wait for us
LARGEST_FRAME = 16384  # bytes, as long as we allow no more
STREAM = 1


def call(path: str, method: str, most_bytes: int, question: bytes = b"", answer_s: float = ANSWER_S) -> bytes:
    """`method`: /package.Service/Method. `question` and the answer: messages of protobuf. Raises EngineSilent."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            exchange = _Exchange(made, time.monotonic() + answer_s, most_bytes)
            return exchange.run(path, method, question)
    except PermissionError as error:
        raise EngineSilent(f"{path}: {error.strerror}.", "Run as root.") from error
    except (OSError, ValueError) as error:
        raise EngineSilent(f"{path} gave no answer to {method} ({error or type(error).__name__}).") from error


class _Exchange:
    def __init__(self, made: socket.socket, deadline_s: float, most_bytes: int) -> None:
        self._socket, self._deadline_s, self._most_bytes = made, deadline_s, most_bytes

    def run(self, path: str, method: str, question: bytes) -> bytes:
        self._hurry()
        self._socket.connect(path)
        # The whole answer is let through at once, so that nobody has to count what was read.
        self._send(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, self._most_bytes), begin=PREFACE)
        self._send(WINDOW, 0, 0, struct.pack(">I", self._most_bytes))
        self._send(HEADERS, END_HEADERS, STREAM, _head(method))
        self._send(DATA, END_STREAM, STREAM, struct.pack(">?I", False, len(question)) + question)
        return _message(self._receive())

    def _receive(self) -> bytes:
        body = bytearray()
        while True:
            kind, flags, stream, content = self._frame()
            if kind in (RESET, GO_AWAY):
                raise ValueError("it broke the call off")
            if kind in (SETTINGS, PING) and not flags & ACKNOWLEDGED:
                self._send(kind, ACKNOWLEDGED, 0, content if kind == PING else b"")
            if kind == DATA and stream == STREAM:
                body += _without_padding(content) if flags & PADDED else content
                if len(body) > self._most_bytes:
                    raise ValueError(f"more than {self._most_bytes} bytes")
            if kind in (DATA, HEADERS) and stream == STREAM and flags & END_STREAM:
                return bytes(body)

    def _frame(self) -> tuple[int, int, int, bytes]:
        high, low, kind, flags, stream = struct.unpack(">BHBBI", self._exactly(9))
        length = high << 16 | low
        if length > LARGEST_FRAME:
            raise ValueError(f"a frame of {length} bytes")
        return kind, flags, stream & 0x7FFFFFFF, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        text = bytearray()
        while len(text) < count:
            self._hurry()
            chunk = self._socket.recv(count - len(text))
            if not chunk:
                raise ValueError("it hung up")
            text += chunk
        return bytes(text)

    def _send(self, kind: int, flags: int, stream: int, content: bytes, begin: bytes = b"") -> None:
        self._hurry()
        length = len(content)
        self._socket.sendall(begin + struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream) + content)

    def _hurry(self) -> None:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("not whole in time")
        self._socket.settimeout(left_s)


def _head(method: str) -> bytes:
    """Each field written out (HPACK's literal without indexing): the names and values are all shorter than 127."""
    pseudo = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost"}
    fields = {**pseudo, "content-type": "application/grpc", "te": "trailers"}
    return b"".join(b"\0" + _counted(name) + _counted(value) for name, value in fields.items())


def _counted(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _without_padding(content: bytes) -> bytes:
    if not content or content[0] >= len(content):
        raise ValueError("a frame that is all padding")
    return content[1 : len(content) - content[0]]


def _message(body: bytes) -> bytes:
    if not body:
        raise ValueError("it refused")
    if len(body) < 5 or body[0] != 0 or len(body) - 5 != int.from_bytes(body[1:5]):
        raise ValueError("no single plain message")
    return body[5:]
