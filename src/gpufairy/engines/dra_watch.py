"""What a cluster's nodes offer by DRA, kept up to date: the slices of gpufairy's agents, and the claims of others on them."""
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gpufairy.core.mig import MigTable
from gpufairy.core.node import Gpu
from gpufairy.core.session import Session
from gpufairy.engines.dra_check import dra_trouble
from gpufairy.engines.dra_gpus import DRIVER, ClaimSeen, DeviceSeen, SliceSeen, check_sharing, offered_gpus, slim_claim, slim_slice
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.watch import Watched
from gpufairy.engines.pod_gpus import is_counted, real_gpus
from gpufairy.engines.pod_settings import FractionsBy, PodSettings

API = "/apis/resource.k8s.io/v1"
NOT_FOUND = 404
NOT_THERE = (401, 403, NOT_FOUND)
log = logging.getLogger(__name__)


class DraGpus:
    def __init__(
        self, api: KubeApi, settings: PodSettings, *, others: str, tables: Mapping[str, MigTable], changed: Callable[[str], None]
    ) -> None:
        """`others`: the labels of claims that are not ours. `changed`: told the node whose GPUs are not what they were."""
        self._api, self._settings, self._tables, self._changed = api, settings, tables, changed
        self._by_node: dict[str, list[SliceSeen]] = {}
        self._held: dict[str, dict[str, list[str]]] = {}  # by node and device, the names of others' claims
        self._slices = Watched(api, f"{API}/resourceslices", fields=f"spec.driver={DRIVER}", slim=slim_slice, on_change=self._slice_changed)
        self._claims = Watched(api, f"{API}/resourceclaims", labels=others, slim=slim_claim, on_change=self._claim_changed)

    @property
    def is_wanted(self) -> bool:
        return self._settings.gpus.fractions in (FractionsBy.AUTO, FractionsBy.DRA)

    async def open(self) -> "list[Watched[Any]]":
        """The watches to run; none where the cluster has no DRA, or does not let us look."""
        if not self.is_wanted:
            return []
        try:
            await self._api.get(f"{API}/resourceslices", limit="1")
            await self._api.get(f"{API}/resourceclaims", limit="1")
        except KubeRefused as error:
            if error.status not in NOT_THERE:
                raise
            matters = self._settings.gpus.fractions is FractionsBy.DRA or error.status != NOT_FOUND
            level = logging.WARNING if matters else logging.INFO
            log.log(level, "GPUs that nodes offer by DRA are not looked at: %s %s", error, error.next_step)
            return []
        return [self._slices, self._claims]

    async def warn(self) -> None:
        """Once, where it matters: what of DRA does not work in this cluster."""
        if not self._by_node and self._settings.gpus.fractions is not FractionsBy.DRA:
            return
        try:
            trouble = await dra_trouble(self._api, self._settings.namespace)
        except KubeSilent as error:
            trouble = f"whether it can be done is not known: {error}"
        if trouble:
            log.warning("parts of GPUs cannot be given out by DRA: %s", trouble)

    def gpus(self, node: str) -> tuple[Gpu, ...] | None:
        """None: it offers none by DRA."""
        if not self._by_node.get(node):
            return None
        return offered_gpus(self._devices(node), self._held.get(node, {}), self._tables)

    def check(self, session: Session) -> None:
        """Raises EngineRefused."""
        for gpu in real_gpus(session):
            if session.seat is not None and not is_counted(gpu):
                check_sharing(gpu, session.seat.node, self._devices(session.seat.node))

    def _devices(self, node: str) -> list[DeviceSeen]:
        return [device for one in self._by_node.get(node, ()) for device in one.devices]

    def _slice_changed(self, old: SliceSeen | None, new: SliceSeen | None) -> None:
        if old is not None:
            self._by_node[old.node].remove(old)
        if new is not None:
            self._by_node.setdefault(new.node, []).append(new)
        for one in filter(None, (old, new)):
            self._changed(one.node)

    def _claim_changed(self, old: ClaimSeen | None, new: ClaimSeen | None) -> None:
        if old is not None:
            for node, device in old.devices:
                self._held[node][device].remove(old.name)
                self._changed(node)
        if new is not None:
            for node, device in new.devices:
                self._held.setdefault(node, {}).setdefault(device, []).append(new.name)
                self._changed(node)
