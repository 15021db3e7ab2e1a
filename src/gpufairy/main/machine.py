"""What this machine is: its engine, its node and its GPUs, from the options, the settings, and what is found."""
import os
from dataclasses import replace

from gpufairy.core.errors import BadInput
from gpufairy.core.node import Gpu, Node, Sharing
from gpufairy.devices.host import cpus_milli, memory_bytes
from gpufairy.devices.nvidia import Nvidia, found_nvidia
from gpufairy.devices.simulated import parse_simulate
from gpufairy.main.containers import found_socket, say
from gpufairy.main.folders import host_name
from gpufairy.wire.config import Config

NEWCOMERS_GPUS = "2xA100-40GB"  # so that somebody without a GPU sees it work
ENGINES = ("auto", "process", "docker", "kubernetes")


def chosen_engine(wanted: str, config: Config) -> str:
    if wanted not in ENGINES:
        raise BadInput(f"--engine: found {wanted!r}", f"Write one of {', '.join(ENGINES)}.")
    if wanted != "auto":
        return wanted
    if found_socket(config) is None:
        return "process"
    if os.geteuid() != 0:
        say("Docker answers here, but sessions in containers need root (sudo): sessions run as processes instead")
        return "process"
    return "docker"


def this_node(config: Config, simulate: str | None, engine: str) -> Node:
    gpus, nvidia = the_gpus(simulate or config.gpus.simulate, engine)
    return Node(
        name=config.node.name or host_name(),
        cpus_milli=config.cpus_milli or cpus_milli(),
        memory_bytes=config.memory_bytes or memory_bytes(),
        # Plain processes are held to nothing, so their fractions are of time alone.
        gpus=tuple(replace(gpu, fgpu_parts=config.fgpu_parts, sharing=Sharing.MPS if engine == "docker" else Sharing.TIME) for gpu in gpus),
        pool=config.node.pool,
        driver_cuda=nvidia.driver_cuda,
    )


def the_gpus(simulate: str | None, engine: str) -> tuple[tuple[Gpu, ...], Nvidia]:
    """Those that were asked for; else those that are there; else, where nothing is really isolated anyway, two to try it with."""
    if simulate is not None:
        return (() if simulate in ("0", "none") else parse_simulate(simulate)), Nvidia()
    nvidia = found_nvidia()
    if nvidia.trouble:
        say(f"no GPU is offered: {nvidia.trouble}")
    if nvidia.gpus or nvidia.trouble or engine != "process":
        return nvidia.gpus, nvidia
    return parse_simulate(NEWCOMERS_GPUS), nvidia
