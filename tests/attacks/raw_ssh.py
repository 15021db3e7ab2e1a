"""SSH as a stranger may send it: packets on a bare socket, in the clear, before any key is agreed on. Nothing of a library in between."""
import contextlib
import os
import socket
import struct
from collections.abc import Iterable

HELLO = b"SSH-2.0-OpenSSH_9.2\r\n"
DISCONNECT, IGNORE, UNIMPLEMENTED, DEBUG, SERVICE_REQUEST, SERVICE_ACCEPT, EXT_INFO = 1, 2, 3, 4, 5, 6, 7
KEXINIT, NEWKEYS, KEX_ECDH_INIT = 20, 21, 30
USERAUTH_REQUEST, USERAUTH_SUCCESS = 50, 52
GLOBAL_REQUEST, CHANNEL_OPEN, CHANNEL_OPEN_CONFIRMATION, CHANNEL_DATA, CHANNEL_REQUEST = 80, 90, 91, 94, 98
LARGEST = 256 * 2**10


def text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def packet(body: bytes, padding: int | None = None, length: int | None = None) -> bytes:
    """`padding`, `length`: what is claimed, whatever is true."""
    fill = 8 - (len(body) + 5) % 8
    fill += 8 if fill < 4 else 0
    claimed = 1 + len(body) + fill if length is None else length
    return struct.pack(">IB", claimed, fill if padding is None else padding) + body + bytes(fill)


LISTS = (
    b"curve25519-sha256,kex-strict-c-v00@openssh.com", b"ssh-ed25519", b"aes128-gcm@openssh.com", b"aes128-gcm@openssh.com",
    b"hmac-sha2-256", b"hmac-sha2-256", b"none", b"none", b"", b"",
)  # fmt: skip


def kexinit(lists: Iterable[bytes] = LISTS) -> bytes:
    return bytes([KEXINIT]) + os.urandom(16) + b"".join(map(text, lists)) + b"\0" + struct.pack(">I", 0)


def userauth(user: bytes, method: bytes = b"none") -> bytes:
    return bytes([USERAUTH_REQUEST]) + text(user) + text(b"ssh-connection") + text(method)


def channel_open(kind: bytes = b"session") -> bytes:
    return bytes([CHANNEL_OPEN]) + text(kind) + struct.pack(">III", 0, 2**21, 2**15)


class Stranger:
    """Reads what the gateway says in the clear, packet by packet."""

    def __init__(self, port: int, limit_s: float = 10) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=limit_s)
        self._rest = b""

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()

    def say(self, *pieces: bytes) -> "Stranger":
        try:
            for piece in pieces:
                self.link.sendall(piece)
        except OSError:  # sent away in the middle of a word, which is what it was said for
            pass
        return self

    def end(self) -> None:
        """That it says no more: whoever waits for more learns it at once. It may have been sent away already."""
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_WR)

    def hello(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += self._more()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def heard(self) -> list[bytes]:
        """All packets until it hangs up, which it must."""
        while more := self._more():
            self._rest += more
            assert len(self._rest) < LARGEST, "a stranger is told without end"
        return list(packets(self._rest))

    def next(self) -> bytes:
        """The next packet, without its padding."""
        while True:
            found = next(packets(self._rest), None)
            if found is not None:
                self._rest = self._rest[4 + int.from_bytes(self._rest[:4], "big") :]
                return found
            more = self._more()
            assert more, "it hung up"
            self._rest += more

    def _more(self) -> bytes:
        try:
            return self.link.recv(65536)
        except ConnectionResetError:
            return b""


def packets(said: bytes) -> Iterable[bytes]:
    while len(said) >= 5:
        length, padding = struct.unpack_from(">IB", said)
        if len(said) < 4 + length:
            return
        yield said[5 : 4 + length - padding]
        said = said[4 + length :]
