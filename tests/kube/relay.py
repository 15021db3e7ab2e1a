"""A way to the API server that a test can close, or leave silent, without disturbing others who use the server."""
import contextlib
import socket
import threading
from collections.abc import Iterator

from kube.node import NODE_ADDRESS


class Relay:
    def __init__(self, port: int, address: str) -> None:
        self._to, self.port = (address, port), 0
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()

    def mend(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            closed, self._open = [*self._open, *([server] if server else [])], []
        for one in closed:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                with contextlib.ExitStack() as if_cut:  # in this very moment
                    if_cut.enter_context(near)
                    far = if_cut.enter_context(socket.create_connection(self._to))
                    with self._lock:
                        if self._server is not server:
                            return
                        self._open += [near, far]
                    if_cut.pop_all()
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=(source, target), daemon=True).start()


def carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relay(port: int, address: str = NODE_ADDRESS) -> Iterator[Relay]:
    """From loopback to the shared cluster's API server, or to one elsewhere."""
    made = Relay(port, address)
    made.mend()
    try:
        yield made
    finally:
        made.cut()
