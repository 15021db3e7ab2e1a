"""A way to the API server that a test can close, or leave silent, without disturbing others who use the server."""
import contextlib
import socket
import threading
from collections.abc import Iterator


class Relay:
    def __init__(self, port: int) -> None:
        self._to, self.port = port, 0
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []

    def mend(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        server, self._server = self._server, None
        for one in [*self._open, *([server] if server else [])]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _serve(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=(source, target), daemon=True).start()


def carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relay(port: int) -> Iterator[Relay]:
    made = Relay(port)
    made.mend()
    try:
        yield made
    finally:
        made.cut()
