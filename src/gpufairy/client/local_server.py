"""The server that `fairy up` started on this machine, as written down beside the sign-in: so that `fairy down` finds it."""
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufairy.client.connection import config_folder, read_toml, write_toml
from gpufairy.core.errors import Conflict, NotAllowed

NOTE = "server.toml"
LOOK_EVERY_S = 0.05  # while it leaves: soon enough that nobody notices, seldom enough to cost nothing


@dataclass(frozen=True, slots=True)
class LocalServer:
    pid: int
    birth: str  # when the process began, in the system's own words (`birth_of`): a pid alone is used again
    url: str  # as people reach it
    data: str
    own_url: str = ""  # as whoever is on this machine does; empty: the same

    @property
    def alive(self) -> bool:
        return bool(self.birth) and birth_of(self.pid) == self.birth


def write_down(server: LocalServer, env: Mapping[str, str]) -> None:
    """Beside the sign-in, for the one started last; and in its own data folder, for each of several."""
    noted: dict[str, str | int] = {
        "pid": server.pid, "birth": server.birth, "url": server.url, "data": server.data, "own_url": server.own_url or server.url,
    }  # fmt: skip
    for path in (_path(env), Path(server.data) / NOTE):
        write_toml(path, noted)


def find_running(env: Mapping[str, str], folder: Path | None = None) -> LocalServer | None:
    """The one started last, or the one whose data folder this is; None if it runs no more."""
    noted = read_toml(_path(env) if folder is None else folder / NOTE) or {}
    pid, birth, url, data = (noted.get(name) for name in ("pid", "birth", "url", "data"))
    if not isinstance(pid, int) or pid <= 1 or not isinstance(birth, str):
        return None
    server = LocalServer(pid, birth, str(url), str(data), str(noted.get("own_url") or url))
    return server if server.alive else None


def forget(env: Mapping[str, str]) -> None:
    _path(env).unlink(missing_ok=True)


def stop(server: LocalServer, limit_s: float) -> None:
    """Asks it to leave and returns when it is gone."""
    try:
        os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise NotAllowed(f"the server (process {server.pid}) belongs to another user", "Ask the person who started it.") from error
    until = time.monotonic() + limit_s
    while server.alive:
        if time.monotonic() > until:
            raise Conflict(
                f"the server (process {server.pid}) was asked to leave and is still there after {limit_s:g} s",
                "See its log; kill it only if it hangs.",
            )
        time.sleep(LOOK_EVERY_S)


def birth_of(pid: int) -> str:
    """When the process began; empty if there is none. One that is dead and only waits for its parent counts as none."""
    try:
        # The command's name, in brackets, may itself hold spaces and brackets.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else rest[18]
    except OSError:
        pass
    if Path("/proc/self").exists():
        return ""
    seen = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return seen.stdout.strip()


def _path(env: Mapping[str, str]) -> Path:
    return config_folder(env) / NOTE
