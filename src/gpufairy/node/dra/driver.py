"""The DRA driver of this node: what the driver of its GPUs tells goes to the cluster, what the kubelet asks is answered."""
import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.core.reading import GpuSample
from gpufairy.engines.cdi import offered_devices
from gpufairy.node.dra.offers import offers_of
from gpufairy.node.dra.prepare import HOW_TO_NAME, vendor_device
from gpufairy.node.dra.publisher import Publisher
from gpufairy.node.dra.service import Service
from gpufairy.node.dra.values import Offer

LOOK_S = 1.0
SILENCE_S = 15.0  # of the GPUs' own driver, after which nothing of it is offered any more
log = logging.getLogger(__name__)


class Offered:
    """What of this node's GPUs may be handed out: those that the driver tells of, and that a CDI file of their vendor's brings in."""

    def __init__(
        self, latest: Callable[[], GpuSample | None], folders: tuple[Path, ...], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._latest, self._folders, self._clock = latest, folders, clock
        self._told_s: float | None = None
        self._files: tuple[tuple[str, int], ...] = ()
        self._said: frozenset[str] = frozenset()
        self.vendor: frozenset[str] = frozenset()
        self.by_name: Mapping[str, Offer] = {}
        self.driver_version = ""
        self.known = False  # since when there was an answer at all

    async def look(self) -> None:
        await self._look_at_files()
        sample, now_s = self._latest(), self._clock()
        if sample is not None:
            self._told_s, self.driver_version = now_s, sample.driver or ""
            self.known = True
            self.by_name = {offer.name: offer for offer in offers_of(sample) if self._is_named(offer)}
            self._say(offers_of(sample))
        elif self._told_s is not None and now_s - self._told_s > SILENCE_S and self.by_name:
            log.warning("the NVIDIA driver does not answer: its GPUs are not offered to the cluster until it does")
            self.by_name = {}

    async def _look_at_files(self) -> None:
        found = tuple(
            (str(path), path.stat().st_mtime_ns)
            for folder in self._folders for path in sorted(folder.glob("*")) if path.suffix in (".yaml", ".yml") or is_vendors(path)
        )  # fmt: skip
        if found != self._files:
            self._files = found
            self.vendor = await asyncio.to_thread(offered_devices, self._folders)

    def _is_named(self, offer: Offer) -> bool:
        try:
            return bool(vendor_device(offer, self.vendor))
        except FairyError:
            return False

    def _say(self, offers: tuple[Offer, ...]) -> None:
        unnamed = frozenset(offer.uuid for offer in offers if offer.name not in self.by_name)
        if unnamed and unnamed != self._said:
            log.warning("%s cannot be offered to the cluster: no CDI file names it. %s", ", ".join(sorted(unnamed)), HOW_TO_NAME)
        self._said = unnamed


def is_vendors(path: Path) -> bool:
    """Not one of ours: they come and go with claims."""
    return path.suffix == ".json" and not path.name.startswith("gpu.fairy-")


class Driver:
    def __init__(self, offered: Offered, service: Service, publisher: Publisher, *, leaves: bool = False) -> None:
        """`leaves`: takes its GPUs off the cluster's list when it ends. Else the kubelet does so, half a minute later."""
        self._offered, self._service, self._publisher, self._leaves = offered, service, publisher, leaves

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._offered.look()
        await self._service.start()
        publishing = asyncio.create_task(self._publisher.run(), name="slices of this node")
        try:
            while not publishing.done():
                await self._service.mend()
                await self._offered.look()
                if self._offered.known:
                    self._publisher.offer(tuple(self._offered.by_name.values()), self._offered.driver_version)
                await asyncio.sleep(LOOK_S)
            publishing.result()
        finally:
            publishing.cancel()
            self._publisher.close()
            await asyncio.wait([publishing])
            await self._service.close()
            if self._leaves:
                await self._leave()

    async def _leave(self) -> None:
        try:
            await self._publisher.leave()
        except FairyError as error:
            log.warning("the GPUs of this node stay on the cluster's list: %s", error)
