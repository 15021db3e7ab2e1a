"""What Kubernetes' events say of pods that take long to begin: a volume that cannot be mounted, a network that cannot be made.

Of such trouble nothing is on the pod itself.
"""
import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufairy.core.errors import FairyError
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.pod_seen import PodSeen, moment

LOOK_S = 5.0
SLOW = timedelta(seconds=10)  # most have begun by then
MOST = 20  # of them are asked about in one look: where all are slow, all have the same trouble
EARLIEST = datetime.min.replace(tzinfo=UTC)

log = logging.getLogger(__name__)


class PodEvents:
    def __init__(self, api: KubeApi, pods: Callable[[], Iterable[PodSeen]], on_change: Callable[[], None]) -> None:
        self._api, self._pods, self._on_change = api, pods, on_change
        self._words: dict[str, str] = {}  # by uid

    def words(self, uid: str) -> str:
        return self._words.get(uid, "")

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            slow = slow_pods(self._pods(), datetime.now(UTC))[:MOST]
            before, self._words = self._words, {pod.uid: self._words.get(pod.uid, "") for pod in slow}
            try:
                for pod in slow:
                    self._words[pod.uid] = await self._asked(pod)
            except FairyError as error:  # who may not read events is told less, and all else goes on
                log.info("events: %s", error)
            if before != self._words:
                self._on_change()

    async def _asked(self, pod: PodSeen) -> str:
        fields = f"involvedObject.uid={pod.uid},type=Warning"
        return last_words([told async for told in self._api.list(f"/api/v1/namespaces/{pod.namespace}/events", fields=fields)])


def slow_pods(pods: Iterable[PodSeen], now: datetime) -> list[PodSeen]:
    return [pod for pod in pods if pod.node and not pod.begun and not pod.refused and pod.made_at is not None and now - pod.made_at > SLOW]


def last_words(events: Iterable[dict[str, Any]]) -> str:
    newest = max(events, key=happened_at, default=None)
    return "" if newest is None else f"{newest.get('reason') or ''}: {newest.get('message') or ''}".strip(": ")


def happened_at(told: Mapping[str, Any]) -> datetime:
    """Of what happened again and again, the last time."""
    last = (told.get("series") or {}).get("lastObservedTime") or told.get("lastTimestamp") or told.get("eventTime")
    return moment(last) or moment((told.get("metadata") or {}).get("creationTimestamp")) or EARLIEST
