"""The SSH gateway as a process of its own: started with the server, and left to its visitors when the server goes."""
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpufairy.client.local_server import birth_of
from gpufairy.control.passes import make_gateway_pass
from gpufairy.core.errors import Conflict
from gpufairy.engines.run_folder import write_private
from gpufairy.wire.limits import LimitsConfig

READY_LIMIT_S = 20.0
LOOK_EVERY_S = 0.02
FIRST_PORT = 8422
PORTS_TRIED = 20


@dataclass(frozen=True, slots=True)
class Gateway:
    pid: int
    birth: str
    port: int
    host_key: str = ""

    def drain(self) -> None:
        """No new visitors; those who are in stay as long as they like."""
        if birth_of(self.pid) == self.birth:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def gateway_limits(limits: LimitsConfig) -> list[str]:
    """As options of its command."""
    given = {
        "--login-grace": limits.ssh_login_s, "--most-waiting": limits.ssh_waiting,
        "--most-waiting-per-source": limits.ssh_waiting_per_source, "--most-signing-in": limits.ssh_signing_in,
        "--most-signing-in-per-source": limits.ssh_signing_in_per_source, "--most-per-user": limits.ssh_connections_per_user,
        "--most-channels": limits.ssh_channels,
    }  # fmt: skip
    trusted = [word for network in limits.trusted for word in ("--trusted", network)]
    return [*(word for option, value in given.items() for word in (option, f"{value:g}")), *trusted]


async def start_gateway(data: Path, listen: str, port: int | None, secret: bytes, options: Sequence[str] = ()) -> Gateway:
    folder = data / "ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    write_private(folder / "gateway.token", make_gateway_pass(secret))
    for tried in [port] if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        if (gateway := await started(folder, listen, tried, options)) is not None:
            return gateway
    taken = f"port {port}" if port is not None else f"ports {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1}"
    found = f"the SSH gateway could not listen on {taken}: {last_words(folder)}"
    raise Conflict(found, "Name another with --ssh-port, or set ssh.enabled = false.")


async def started(folder: Path, listen: str, port: int, options: Sequence[str]) -> Gateway | None:
    """None: it ended before it listened."""
    command = [sys.executable, "-P", "-m", "gpufairy.gateway", "--data", str(folder.parent), "--listen", listen, "--port", str(port)]
    child = spawned([*command, *options], folder / "gateway.log")
    async with asyncio.timeout(READY_LIMIT_S):
        while child.poll() is None:
            if (found := read_note(folder)) is not None and found.pid == child.pid:
                return found
            await asyncio.sleep(LOOK_EVERY_S)
    return None


def spawned(command: list[str], log_file: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C at the server is not meant for it."""
    with open(os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def read_note(folder: Path) -> Gateway | None:
    try:
        note = json.loads((folder / "gateway.json").read_bytes())
        return Gateway(int(note["pid"]), str(note["birth"]), int(note["port"]), str(note["host_key"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def last_words(folder: Path) -> str:
    lines = (folder / "gateway.log").read_bytes()[-2000:].decode(errors="replace").splitlines()
    return lines[-1][-200:] if lines else "it said nothing"
