"""What `fairy up` was given, for whoever serves."""
from dataclasses import dataclass
from pathlib import Path

ANNOUNCE = "FAIRY_ANNOUNCE_FD"  # where a server in the background hands its block to the one who started it


@dataclass(frozen=True, slots=True)
class UpOptions:
    """None: not given."""

    data: Path | None
    port: int | None
    listen: str | None
    ssh_port: int | None
    engine: str
    simulate: str | None
    config: Path | None
