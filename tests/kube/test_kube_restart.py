"""An API server that is killed and comes back, having forgotten what it told: a control plane of this module's own."""
import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.watch import Watched
from kube.cluster import Cluster
from kube.processes import kill_and_start, wait
from kube.relay import Relay, relay
from kube.soon import SOON_S, soon

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
MAPS = "/api/v1/namespaces/default/configmaps"


def restart(cluster: Cluster) -> None:
    kill_and_start(cluster.folder, "kube-apiserver")
    wait(cluster.folder, "kube-apiserver", lambda: cluster.answer("GET", "/readyz")[0] == 200)


def a_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"kept": "yes"}}}


def over(way: Relay, cluster: Cluster, folder: Path) -> KubeApi:
    path = folder / "config.json"
    path.write_text(cluster.kubeconfig.read_text().replace(cluster.url, f"https://127.0.0.1:{way.port}").replace('"ca.crt"', f'"{cluster.authority}"'))
    return KubeApi(load_access(path, None, {}))


async def test_what_was_deleted_and_made_while_it_was_down_and_forgot_is_told_after_it_is_back(lone_cluster, tmp_path, caplog):
    told: list[tuple[str | None, str | None]] = []
    caplog.set_level(logging.INFO)
    with relay(lone_cluster.port, lone_cluster.address) as way:
        async with KubeApi(load_access(lone_cluster.kubeconfig, None, {})) as direct, over(way, lone_cluster, tmp_path) as api:
            for name in ("gone", "stays"):
                await direct.create(MAPS, a_map(name))
            watched = Watched(api, MAPS, labels="kept=yes", slim=lambda one: str(one["metadata"]["name"]), on_change=lambda old, new: told.append((old, new)))
            running = asyncio.create_task(watched.run())
            await asyncio.wait_for(watched.ready.wait(), SOON_S)
            way.cut()
            await direct.delete(f"{MAPS}/gone")
            await direct.create(MAPS, a_map("new"))
            await asyncio.to_thread(restart, lone_cluster)
            assert set(watched.items) == {"default/gone", "default/stays"}
            way.mend()
            await soon(lambda: set(watched.items) == {"default/stays", "default/new"} and watched.stale_since is None, "all to be known again")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert told == [(None, "gone"), (None, "stays"), ("gone", None), (None, "new")]
    assert "The API server has forgotten where the watch" in caplog.text
    assert "is watched again" in caplog.text


async def test_what_is_made_while_it_is_killed_is_made_once_and_what_may_be_open_is_said_to_be(lone_cluster):
    async with KubeApi(load_access(lone_cluster.kubeconfig, None, {})) as api:

        async def made(name: str) -> str:
            try:
                await api.create(MAPS, a_map(name))
            except (KubeRefused, KubeSilent) as error:
                return error.reason
            return "made"

        restarting = asyncio.create_task(asyncio.to_thread(restart, lone_cluster))
        said: dict[str, str] = {}
        while not restarting.done():
            names = [f"many-{len(said) + number}" for number in range(20)]
            said |= dict(zip(names, await asyncio.gather(*map(made, names)), strict=True))
        await restarting
        there = {str(found["metadata"]["name"]) async for found in api.list(MAPS, labels="kept=yes")}
    assert {name for name, how in said.items() if how == "made"} <= there
    assert "AlreadyExists" not in said.values(), "it was sent a second time"
    assert {name for name in said if name in there and said[name] != "made"} <= {name for name, how in said.items() if how in ("cut", "timeout")}
