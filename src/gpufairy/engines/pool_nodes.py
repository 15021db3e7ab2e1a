"""Pools as the kubernetes engine sees them: nodes that could come, who waits for one, and what is said of it by whoever makes nodes."""
import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufairy.core.errors import FairyError
from gpufairy.core.node import Node, NodeState
from gpufairy.core.pool import Cloud, Pool, coming_nodes, coming_words, pool_coming
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube_gpus import WHOLE_ALONE
from gpufairy.engines.pod_events import happened_at
from gpufairy.engines.pod_list import PodList
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_settings import FractionsBy, PodSettings
from gpufairy.engines.pod_words import said

MAKERS = frozenset({"cluster-autoscaler", "karpenter"})  # who makes nodes, and tells in events why it does not
EVENTS = "/api/v1/namespaces/{}/events"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
CANNOT = frozenset({"NotTriggerScaleUp", "FailedScheduling"})
LOOK_S = 5.0
MOST_ASKED = 20  # pods in one look: where many wait, all wait for the same
CLAIM_POOL = "karpenter.sh/nodepool"
# A node that came for somebody is kept for them: kube-scheduler binds them within seconds. If it has not by then, it never will.
KEPT = timedelta(minutes=2)
JUST_COME = "it has just come, for sessions that wait for it"

log = logging.getLogger(__name__)


def trouble_said(events: Iterable[Mapping[str, Any]]) -> str:
    """The last that a maker of nodes said of a pod, if it was a no."""
    from_makers = [one for one in events if said_by(one) in MAKERS]
    last = max(from_makers, key=happened_at, default=None)
    return str(last.get("message") or "") if last is not None and last.get("reason") in CANNOT else ""


def said_by(event: Mapping[str, Any]) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


def claim_trouble(claims: Iterable[Mapping[str, Any]]) -> str:
    """Why a node that Karpenter has asked its cloud for does not come; empty: it does."""
    for told in claims:
        conditions = {one.get("type"): one for one in (told.get("status") or {}).get("conditions") or ()}
        launched = conditions.get("Launched") or {}
        if launched.get("status") == "False":
            return str(launched.get("message") or launched.get("reason") or "")
    return ""


class PoolNodes:
    def __init__(self, api: KubeApi, settings: PodSettings, pods: PodList, on_change: Callable[[], None]) -> None:
        self._api, self._pods, self._on_change = api, pods, on_change
        pods.coming_words = lambda pod, node: self.words(pod, node, datetime.now(UTC))
        parts = settings.gpus.fractions in (FractionsBy.HAMI, FractionsBy.REPLICAS)
        self._closed = "" if parts else f"it is only coming, and {WHOLE_ALONE}"
        self._like: dict[str, Node] = {}  # a node of each pool as it really is
        self._trouble: dict[str, str] = {}  # why no node comes, by the uid of the pod that waits
        self.pools: Callable[[], Mapping[str, Pool]] = dict

    async def run(self) -> None:
        """For ever: asks what those who make nodes say of the pods that wait for one."""
        while True:
            await asyncio.sleep(LOOK_S)
            waiting = [(pod, name) for pod, node in self._pods.waiting() if (name := pool_coming(node)) is not None][:MOST_ASKED]
            before, self._trouble = self._trouble, {pod.uid: self._trouble.get(pod.uid, "") for pod, _ in waiting}
            try:
                for pod, name in waiting:
                    self._trouble[pod.uid] = await self._asked(pod, name)
            except FairyError as error:  # who may not ask is told less, and all else goes on
                log.info("pools: %s", error)
            if waiting or before != self._trouble:
                self._on_change()  # also for the minutes that are left

    async def _asked(self, pod: PodSeen, name: str) -> str:
        fields = f"involvedObject.uid={pod.uid}"
        said_of_it = trouble_said([one async for one in self._api.list(EVENTS.format(pod.namespace), fields=fields)])
        pool = self.pools().get(name)
        if said_of_it or pool is None or pool.cloud is not Cloud.KARPENTER:
            return said_of_it
        return claim_trouble([one async for one in self._api.list(CLAIMS, labels=f"{CLAIM_POOL}={name}")])

    def with_coming(self, real: list[Node], now: datetime) -> list[Node]:
        pools = self.pools()
        used: dict[str, set[str]] = {}
        for _, node_name in self._pods.waiting():
            if (pool_name := pool_coming(node_name)) is not None:
                used.setdefault(pool_name, set()).add(node_name)
        if not pools and not used:
            return real
        there: dict[str, list[Node]] = {}
        for node in real:
            if node.pool is not None and node.pool in pools:
                there.setdefault(node.pool, []).append(node)
        self._like.update({name: max(nodes, key=lambda node: node.cpus_milli) for name, nodes in there.items()})
        kept = self._just_come(there, used, now) if used else {}
        coming = [
            node
            for name, pool in pools.items()
            for node in coming_nodes(pool, len(there.get(name, ())), used.get(name, set()), self._like.get(name), closed=self._closed)
        ]
        return [*(kept.get(node.name, node) for node in real), *coming]

    def _just_come(self, there: Mapping[str, Sequence[Node]], used: Mapping[str, set[str]], now: datetime) -> dict[str, Node]:
        """Empty nodes, as many as are waited for, the newest first: else somebody else might be put where those are about to be bound."""
        taken, kept = {pod.node for pod in self._pods.pods() if not pod.over}, {}
        for name, names in used.items():
            empty = [
                node
                for node in there.get(name, ())
                if node.name not in taken and not node.of_others and node.came_at is not None and now - node.came_at < KEPT
            ]
            for node in sorted(empty, key=lambda node: (node.came_at or now, node.name), reverse=True)[: len(names)]:
                if node.state is NodeState.READY:
                    kept[node.name] = replace(node, state=NodeState.DRAINED, state_why=JUST_COME)
        return kept

    def words(self, pod: PodSeen, node: str, now: datetime) -> str | None:
        """Why a pod waits that asked for a node of a pool; None: it waits for something else."""
        name = pool_coming(node)
        pool = None if name is None else self.pools().get(name)
        if pool is None or pod.node:
            return None
        if trouble := self._trouble.get(pod.uid):
            return f"pool {pool.name} brings no node for it: {said(trouble)}"
        return coming_words(pool, 0.0 if pod.made_at is None else (now - pod.made_at).total_seconds())
