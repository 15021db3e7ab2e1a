"""One gRPC call: against sockets that answer badly. That a real kubelet answers is seen in tests/kube."""
import contextlib
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.errors import EngineSilent
from gpufairy.node.grpc_call import DATA, END_STREAM, GO_AWAY, HEADERS, PADDED, PING, PREFACE, RESET, SETTINGS, WINDOW, call

MOST = 1 << 20


def frame(kind: int, content: bytes = b"", flags: int = 0, stream: int = 1) -> bytes:
    return struct.pack(">BHBBI", len(content) >> 16, len(content) & 0xFFFF, kind, flags, stream) + content


def message(text: bytes) -> bytes:
    return struct.pack(">?I", False, len(text)) + text


BEGIN = frame(SETTINGS, struct.pack(">HI", 5, 16384), stream=0) + frame(WINDOW, struct.pack(">I", 100), stream=0)
END = frame(HEADERS, b"\x88", END_STREAM)


@contextlib.contextmanager
def answering(answer: bytes, *, stays: bool = False) -> Iterator[tuple[str, bytearray]]:
    """Says that to its one visitor, and hangs up unless it stays. With what the visitor said."""
    heard, over = bytearray(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="fairy-gc-") as folder, socket.socket(socket.AF_UNIX) as server:
        path = f"{folder}/socket"
        server.bind(path)
        server.listen(1)

        def serve() -> None:
            with contextlib.suppress(OSError):
                visitor, _ = server.accept()
                with visitor:
                    heard.extend(visitor.recv(65536))
                    visitor.sendall(answer)
                    visitor.shutdown(socket.SHUT_WR) if not stays else over.wait(20)
                    while chunk := visitor.recv(65536):
                        heard.extend(chunk)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path, heard
        finally:
            over.set()
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        BEGIN + frame(HEADERS, b"\x88") + frame(DATA, message(b"hello")) + END,
        BEGIN + frame(HEADERS, b"\x88") + frame(DATA, message(b"hello"), END_STREAM),
        frame(HEADERS, b"\x88") + frame(DATA, message(b"hello")[:7]) + frame(PING, b"12345678", stream=0) + frame(DATA, message(b"hello")[7:]) + END,
        frame(DATA, b"\x03" + message(b"hello") + bytes(3), PADDED) + frame(DATA, b"another's", stream=3) + frame(0x55, b"unknown") + END,
    ],
)
def test_an_answer_is_read_however_it_is_cut(answer: bytes):
    with answering(answer) as (path, _):
        assert call(path, "/a.B/C", MOST) == b"hello"


def test_what_is_asked_is_http_2():
    with answering(BEGIN + frame(PING, b"12345678", stream=0) + frame(DATA, message(b"")) + END) as (path, heard):
        assert call(path, "/a.B/C", MOST, b"what?") == b""
    assert heard.startswith(PREFACE)
    assert b"/a.B/C" in heard
    assert message(b"what?") in heard
    assert frame(SETTINGS, b"", 1, 0) in heard, "its settings are taken"
    assert frame(PING, b"12345678", 1, 0) in heard


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", BEGIN, END, frame(RESET, bytes(4)), frame(GO_AWAY, bytes(8), stream=0),
        frame(DATA, b"\1\0\0\0\0") + END, frame(DATA, message(b"one") + message(b"two")) + END, frame(DATA, b"\0\0") + END,
        frame(DATA, b"", PADDED) + END, frame(DATA, b"\xff12", PADDED) + END, b"\xff\xff\xff\0\0\0\0\0\1", frame(DATA, bytes(16384)) * 100 + END,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_silence_in_words(answer: bytes):
    with answering(answer) as (path, _), pytest.raises(EngineSilent, match=r"socket gave no answer to /a\.B/C \(.+\)"):
        call(path, "/a.B/C", MOST)


@given(st.lists(st.tuples(st.integers(0, 10), st.binary(max_size=50), st.integers(0, 255), st.integers(0, 3)), max_size=8))
@settings(deadline=None, max_examples=50)
def test_no_frames_are_too_strange(frames: list[tuple[int, bytes, int, int]]):
    with answering(b"".join(frame(*one) for one in frames)) as (path, _), contextlib.suppress(EngineSilent):
        call(path, "/a.B/C", MOST)


@pytest.mark.parametrize("answer", [b"", BEGIN])
def test_one_that_never_answers_is_given_up(answer: bytes):
    began = time.monotonic()
    with answering(answer, stays=True) as (path, _), pytest.raises(EngineSilent, match=r"time"):
        call(path, "/a.B/C", MOST, answer_s=0.2)
    assert time.monotonic() - began < 5


def test_where_nobody_listens_there_is_no_answer(tmp_path: Path):
    with pytest.raises(EngineSilent, match="No such file"):
        call(str(tmp_path / "missing"), "/a.B/C", MOST)
