"""What this host is called, and where things are kept on it. Imports nothing of ours but the layers below: agents start with this."""
import re
import socket
from pathlib import Path


def host_name() -> str:
    """The first part of the host's name, made fit for a label."""
    return re.sub(r"[^a-z0-9-]", "-", socket.gethostname().split(".")[0].lower()).strip("-")[:60] or "localhost"


def data_folder(wanted: Path | None, env: dict[str, str]) -> Path:
    if wanted is not None:
        return wanted.resolve()
    base = env.get("XDG_DATA_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "gpufairy"
