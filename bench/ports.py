"""Ports that stay free while a server is away: below those that the kernel gives to whoever connects."""
import random
import socket

FIRST, LAST = 15_000, 32_000  # Linux hands out 32768 and up


def free_port() -> int:
    while True:
        port = random.randint(FIRST, LAST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
