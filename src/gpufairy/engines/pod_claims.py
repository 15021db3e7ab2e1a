"""Homes on Kubernetes: a claim for each user, made at their first session and never removed by us."""
import asyncio
import re
from collections import defaultdict
from typing import Any

from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.pod_settings import HomeClaims
from gpufairy.engines.pod_spec import OWNER, PREFIX, label_value

CONFLICT = 409


class HomeMaker:
    def __init__(self, api: KubeApi, homes: HomeClaims | None) -> None:
        self._api, self._homes = api, homes
        self._made: set[tuple[str, str]] = set()
        self._locks: dict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def claim(self, namespace: str, owner: str, uid: int) -> str | None:
        """Its name; None: homes last as long as their session here."""
        if self._homes is None:
            return None
        name = claim_name(owner, uid)
        async with self._locks[namespace, name]:
            if (namespace, name) not in self._made:
                try:
                    await self._api.create(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim_body(name, owner, self._homes))
                except KubeRefused as error:
                    if error.status != CONFLICT:
                        raise
                self._made.add((namespace, name))
        return name


def claim_name(owner: str, uid: int) -> str:
    """Two names that look the same without their _ and - still have two uids."""
    return f"home-{re.sub(r'[^a-z0-9]+', '-', owner).strip('-')}-{uid}"


def claim_body(name: str, owner: str, homes: HomeClaims) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {OWNER: label_value(owner), f"{PREFIX}home": "true"}},
        "spec": {
            "accessModes": ["ReadWriteOnce" if homes.one_node else "ReadWriteMany"], "resources": {"requests": {"storage": homes.size}},
            **({"storageClassName": homes.storage_class} if homes.storage_class else {}),
        },
    }  # fmt: skip
