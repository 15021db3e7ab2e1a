"""Pools for tests, and a cluster that keeps what is applied to it."""
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpufairy.core.pool import Cloud, Machine, Pool, PoolState

MADE = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
GIB = 2**30
G5 = Machine("g5.xlarge", "A10", 1, 24 * GIB, 4000, 16 * GIB, 1_006_000, "AWS")
NO_PLUGIN_YET = {"metadata": {"name": "kube-proxy", "namespace": "kube-system"}, "spec": {"template": {"spec": {"containers": [{"image": "kube-proxy:1.34"}]}}}}


def a_pool(cloud: Cloud, **fields: Any) -> Pool:
    return replace(Pool("train-gpu", cloud, "", G5, 0, 4, "admin", MADE, PoolState.MAKING), **fields)


class FakeKube:
    """As much of KubeApi as the device plugin needs."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.others: list[dict[str, Any]] = [NO_PLUGIN_YET]

    @staticmethod
    def a_daemon(namespace: str, name: str, image: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}

    async def apply(self, path: str, body: dict[str, Any], *, manager: str) -> None:
        self.objects[path] = body

    async def delete(self, path: str) -> None:
        self.objects.pop(path, None)

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> AsyncIterator[dict[str, Any]]:
        for one in [*self.others, *self.objects.values()]:
            yield one
