"""Listening: the port that was asked for, or the next free one when none was; what is in the way is named."""
import os
import socket
from pathlib import Path

from gpufairy.core.errors import BadInput, Conflict
from gpufairy.gateway.listening import Words
from gpufairy.gateway.listening import bound as bound_to

FIRST_PORT = 8420
PORTS_TRIED = 20


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
    return bound_to(host, port, WORDS)


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


WORDS = Words("port", "Stop that, or name another port with --port.", "Check --listen and --port.", taken_by)
