"""Listening sockets of this machine: for SSH, for apps, and for the API."""
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.core.errors import BadInput, Conflict

WAITING_CONNECTIONS = 4096  # a thousand may come at once


@dataclass(frozen=True, slots=True)
class Words:
    """What people are told when it cannot be listened there."""

    what: str  # `SSH port`
    if_taken: str  # what to do then
    if_wrong: str
    taken_by: Callable[[int], str] = lambda _: ""  # ` by NAME`, where that is known


def bound(host: str, port: int, words: Words) -> socket.socket:
    """Raises Conflict, BadInput."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio would not switch delays off
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(WAITING_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise Conflict(f"{words.what} {port} is taken{words.taken_by(port)}", words.if_taken) from None
        raise BadInput(f"cannot listen on {host}, {words.what} {port}: {error}", words.if_wrong) from None
    listener.setblocking(False)
    return listener
