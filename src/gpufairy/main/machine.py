"""What this machine is: its engine, its node and its GPUs, from the options, the settings, and what is found."""
import re
import socket
from dataclasses import replace
from pathlib import Path

from gpufairy.core.errors import BadInput
from gpufairy.core.node import Gpu, Node
from gpufairy.devices.host import cpus_milli, memory_bytes
from gpufairy.devices.simulated import parse_simulate
from gpufairy.wire.config import Config

NEWCOMERS_GPUS = "2xA100-40GB"  # so that somebody without a GPU sees it work
ENGINES = ("auto", "process", "docker", "kubernetes")


def chosen_engine(wanted: str) -> str:
    if wanted not in ENGINES:
        raise BadInput(f"--engine: found {wanted!r}", f"Write one of {', '.join(ENGINES)}.")
    if wanted in ("docker", "kubernetes"):
        raise BadInput(f"--engine: {wanted} is not part of this version", "Leave it out: sessions run as processes of this machine.")
    return "process"


def this_node(config: Config, simulate: str | None) -> Node:
    text = simulate or config.gpus.simulate or NEWCOMERS_GPUS
    gpus: tuple[Gpu, ...] = () if text in ("0", "none") else parse_simulate(text)
    return Node(
        name=config.node.name or host_name(),
        cpus_milli=config.cpus_milli or cpus_milli(),
        memory_bytes=config.memory_bytes or memory_bytes(),
        gpus=tuple(replace(gpu, fgpu_parts=config.fgpu_parts) for gpu in gpus),
        pool=config.node.pool,
    )


def host_name() -> str:
    """The first part of the host's name, made fit for a label."""
    return re.sub(r"[^a-z0-9-]", "-", socket.gethostname().split(".")[0].lower()).strip("-")[:60] or "localhost"


def data_folder(wanted: Path | None, env: dict[str, str]) -> Path:
    if wanted is not None:
        return wanted.resolve()
    base = env.get("XDG_DATA_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "gpufairy"
