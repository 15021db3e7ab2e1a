"""Pools of nodes: each cloud is a module of its own, loaded when a pool of it is asked for, since few have all their libraries."""
import importlib

from gpufairy.control.house import House
from gpufairy.core.errors import Conflict
from gpufairy.core.pool import Cloud
from gpufairy.engines.clouds.contract import CloudPools
from gpufairy.engines.kubernetes import KubernetesEngine


def give_pools(house: House, engine: object) -> None:
    """Where sessions are pods. Elsewhere whoever asks for a pool is told so."""
    if not isinstance(engine, KubernetesEngine):
        return
    opened: dict[Cloud, CloudPools] = {}

    async def cloud_pools(cloud: Cloud) -> CloudPools:
        if cloud not in opened:
            opened[cloud] = open_cloud(cloud, engine)
        return opened[cloud]

    house.pools.clouds = cloud_pools
    engine.pools.pools = house.pools.by_name


def open_cloud(cloud: Cloud, engine: KubernetesEngine) -> CloudPools:
    try:
        module = importlib.import_module(f"gpufairy.engines.clouds.{cloud}")
    except ImportError as error:
        found = f"pools of {cloud} need a library that is not installed here: {error.name}"
        raise Conflict(found, f"Install it where the server runs: pip install 'gpufairy[{cloud}]'.") from error
    made: CloudPools = module.open_pools(engine.api)
    return made
