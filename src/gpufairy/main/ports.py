"""Listening: the port that was asked for, or the next free one when none was; what is in the way is named."""
import errno
import os
import socket
from pathlib import Path

from gpufairy.core.errors import BadInput, Conflict

FIRST_PORT = 8420
PORTS_TRIED = 20
WAITING_CONNECTIONS = 2048


def listen(host: str, asked: int | None) -> socket.socket:
    if asked is not None:
        return bound(host, asked)
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        try:
            return bound(host, port)
        except Conflict:
            continue
    raise Conflict(f"ports {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1} are all taken", "Name a free one with --port.")


def bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise BadInput(f"--port: {port} is no port", "Write a number from 1 to 65535, or 0 for any free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio would not switch delays off
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(WAITING_CONNECTIONS)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"port {port} is taken{taken_by(port)}", "Stop that, or name another port with --port.") from None
        raise BadInput(f"cannot listen on {host} port {port}: {error.strerror or error}", "Check --listen and --port.") from None
    listener.setblocking(False)
    return listener


def taken_by(port: int) -> str:
    """` by python3 (process 123)`, where the system tells us; else nothing."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in listening_inodes(Path("/proc/net") / table, port)}
    for folder in Path("/proc").glob("[0-9]*") if inodes else ():
        try:
            links = {os.readlink(entry) for entry in (folder / "fd").iterdir()}
            if links & {f"socket:[{inode}]" for inode in inodes}:
                return f" by {(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue
    return ""


def listening_inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
