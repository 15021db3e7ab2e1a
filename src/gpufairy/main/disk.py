"""Disk use as this server needs it: which folders there are, the program that walks through them, and who sets limits."""
import asyncio
import os
from pathlib import Path

from gpufairy.control.house import House
from gpufairy.core.disk import Place, outermost
from gpufairy.core.disk_limit import DiskLimit
from gpufairy.core.people import User
from gpufairy.engines.build_native import build_disk_walk
from gpufairy.engines.homes import LEAST_UID
from gpufairy.engines.project_quota import ProjectQuotas
from gpufairy.main.containers import places
from gpufairy.node.disk_walk import DiskWalker
from gpufairy.wire.config import Config

IN_CLAIMS = "homes are claims of the cluster, which this server does not see into"


def give_disk(house: House, data: Path, config: Config) -> None:
    """Homes lie on this machine's disk with the engines that run sessions on it."""
    disk, engine, homes = house.disk, house.engine.name, places(data, config).homes
    disk.pace = config.disk.to_pace()
    own = [] if engine == "kubernetes" else [Place("homes", os.path.realpath(homes), of_homes=True)]
    results = [] if engine == "kubernetes" else [Place("results", os.path.realpath(places(data, config).all_results))]
    offered = [Place(name, os.path.realpath(folder.path)) for name, folder in config.folders.items()]
    named = [Place(path, os.path.realpath(path)) for path in config.disk.checked_folders()]
    disk.places = outermost([*own, *results, *offered, *named])
    if engine == "kubernetes":
        disk.why_none = IN_CLAIMS
    disk.walk = DiskWalker(lambda: build_disk_walk(data / "tools"), data / "disk", disk.pace).walk

    async def set_limit(user: User, limit_bytes: int | None) -> DiskLimit:
        if engine != "docker" or user.uid < LEAST_UID:
            return DiskLimit(limit_bytes, False, *not_here(engine))
        return await asyncio.to_thread(ProjectQuotas().set_limit, places(data, config).home(user.name), user.uid, limit_bytes)

    disk.set_limit = set_limit


def not_here(engine: str) -> tuple[str, str]:
    if engine == "kubernetes":
        return IN_CLAIMS, "How large a claim may be is said in the settings: [kubernetes.homes]."
    return "sessions are plain processes here, all with the server's own uid", "Run them in containers: --engine docker."
