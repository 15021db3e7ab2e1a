"""What this host is called, and where things are kept on it. Imports nothing of ours but the layers below: agents start with this."""
import os
import re
import socket
from pathlib import Path

from gpufairy.core.errors import BadInput


def host_name() -> str:
    """The first part of the host's name, made fit for a label."""
    return re.sub(r"[^a-z0-9-]", "-", socket.gethostname().split(".")[0].lower()).strip("-")[:60] or "localhost"


def data_folder(wanted: Path | None, env: dict[str, str]) -> Path:
    if wanted is not None:
        return wanted.resolve()
    base = env.get("XDG_DATA_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "gpufairy"


def make_private(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise BadInput(f"cannot make the data folder {folder}: {error.strerror or error}", "Choose another with --data.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"the data folder {folder} cannot be written", "Choose another with --data, or mend its rights.")
