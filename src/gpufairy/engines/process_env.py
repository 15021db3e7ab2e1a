"""The environment of a process session: built from a list, never inherited whole, so nothing of the server's leaks into it."""
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.names import RESERVED_ENV
from gpufairy.core.session import GpuSeat, Session
from gpufairy.core.share import show_parts

PASSED_ON = ("LANG", "LC_ALL", "TZ")  # of the server's own environment, with PATH
FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a session is told of where it runs."""

    home: Path
    results: Path
    token_file: Path
    url: str
    path_prepend: str
    server_env: Mapping[str, str]


def folder_environment(owner: str, home: Path, server_env: Mapping[str, str], path_prepend: str = "") -> dict[str, str]:
    """What anything run for somebody is told of where it is."""
    return {
        **{name: server_env[name] for name in PASSED_ON if name in server_env},
        "PATH": ":".join(part for part in (path_prepend, server_env.get("PATH") or FALLBACK_PATH) if part),
        "HOME": str(home),
        "USER": owner,
        "LOGNAME": owner,
        "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
    }


def session_environment(session: Session, here: Surroundings) -> dict[str, str]:
    gpus = () if session.seat is None else session.seat.gpus
    env = {
        **folder_environment(session.owner, here.home, here.server_env, here.path_prepend),
        "PYTHONUNBUFFERED": "1",  # else a follower of the log sees nothing for the first 8 KiB
        **dict(allowed(session.request.env)),
        "FAIRY_SESSION": session.name,
        "FAIRY_SESSION_ID": session.id,
        "FAIRY_URL": here.url,
        "FAIRY_TOKEN_FILE": str(here.token_file),
        "FAIRY_RESULTS": str(here.results),
        "FAIRY_GPUS": ",".join(f"{gpu.index}:{gpu.profile or show_parts(gpu.parts)}" for gpu in gpus),
        **visible_devices(gpus),
    }
    return env | ({"FAIRY_SIMULATED": "1"} if any(gpu.simulated for gpu in gpus) else {})


def visible_devices(gpus: Iterable[GpuSeat]) -> dict[str, str]:
    """Only what was granted. Both variables are always set: unset, CUDA shows every GPU of the machine."""
    devices = ",".join(dict.fromkeys(gpu.device for gpu in gpus))
    return {"CUDA_VISIBLE_DEVICES": devices, "NVIDIA_VISIBLE_DEVICES": devices or "void"}


def allowed(env: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in env if may_set(name) and "\0" not in value]


def left_out(env: Iterable[tuple[str, str]]) -> list[str]:
    return [name for name, value in env if not may_set(name) or "\0" in value]


def may_set(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.startswith(RESERVED_ENV)
