"""A proxy for HTTP that only knows CONNECT, and counts."""
import contextlib
import socket
import threading
from collections.abc import Iterator

from kube.relay import carry


class ConnectProxy:
    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.asked: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += near.recv(4096)
        where = head.split()[1].decode()
        self.asked.append(where)
        host, _, port = where.rpartition(":")
        with near, socket.create_connection((host, int(port))) as far:
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=carry, args=(far, near), daemon=True)
            back.start()
            carry(near, far)
            back.join()


@contextlib.contextmanager
def connect_proxy() -> Iterator[ConnectProxy]:
    made = ConnectProxy()
    try:
        yield made
    finally:
        made.close()
