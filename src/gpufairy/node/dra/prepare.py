"""Claims made ready for their containers, and taken back. A passing trouble is waited out within the call: a kubelet that is told no comes
again only after a minute.
"""
import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.cdi import KIND as VENDOR
from gpufairy.node.dra.cdi_files import KIND, ClaimFiles, device_name, make_files, remove_spec, spec_path
from gpufairy.node.dra.claims import read_grant
from gpufairy.node.dra.ledger import Ledger
from gpufairy.node.dra.messages import Prepared
from gpufairy.node.dra.room import is_whole, lacking, second_claim_of_a_pod
from gpufairy.node.dra.values import Asked, Grant, Offer
from gpufairy.node.kube_call import KubeCalls

PATIENCE_S = 40.0  # of the 45 that the kubelet waits for an answer
HOW_TO_NAME = "Run `nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml` on the node."
AGAIN_S = 0.5  # between two looks at what rings no bell here
log = logging.getLogger(__name__)


class Mps(Protocol):
    """NVIDIA's sharing of a GPU, where it is used."""

    async def ready(self, gpu: str, *, sm_percent: int, memory_bytes: int) -> Path | None:
        """The folder of its pipes; None: GPUs are shared by time here. Raises EngineRefused."""
        ...

    async def give_up(self, gpu: str) -> None:
        """Before somebody has it whole. Raises EngineRefused."""
        ...


class Claims:
    """`offers` and `vendor`: what there is now, by name; the names that the vendor's CDI files give to devices."""

    def __init__(
        self, ledger: Ledger, calls: KubeCalls, cdi: Path, library: Path, mps: Mps,
        *, offers: Callable[[], Mapping[str, Offer]], vendor: Callable[[], frozenset[str]], patience_s: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        self._ledger, self._calls, self._cdi, self._library, self._mps = ledger, calls, cdi, library, mps
        self._offers, self._vendor, self._patience_s = offers, vendor, patience_s
        self._changes = asyncio.Condition()  # something was given back, or is no longer worked on
        self._busy: set[str] = set()  # uids

    async def prepare(self, asked: Asked) -> list[Prepared]:
        """Twice the same: once. Raises EngineRefused."""
        began_s = time.monotonic()
        async with self._alone(asked.uid):
            known = self._ledger.get(asked.uid)
            if known is not None and spec_path(self._cdi, asked.uid).exists():
                return prepared(known)
            grant = known or await self._granted(asked, began_s + self._patience_s)
            done = known is not None  # what was held before stays so: its containers may run
            try:
                await self._make(grant)
                done = True
            finally:
                if not done:
                    await self._drop(asked.uid)
        log.info("%s is ready (%.0f ms): %s", asked.words, 1000 * (time.monotonic() - began_s), told(grant))
        return prepared(grant)

    async def unprepare(self, asked: Asked) -> None:
        """Absent: fine. Raises EngineRefused."""
        async with self._alone(asked.uid):
            if self._ledger.get(asked.uid) is not None:
                log.info("%s is given back", asked.words)
            await self._drop(asked.uid)

    @contextlib.asynccontextmanager
    async def _alone(self, uid: str) -> AsyncIterator[None]:
        async with self._changes:
            await self._changes.wait_for(lambda: uid not in self._busy)
            self._busy.add(uid)
        try:
            yield
        finally:
            self._busy.discard(uid)
            async with self._changes:
                self._changes.notify_all()

    async def _granted(self, asked: Asked, until_s: float) -> Grant:
        """Written down, once there is room: whoever had it before may be about to leave."""
        why = ""
        while True:
            try:
                grant = await asyncio.to_thread(read_grant, self._calls, asked, self._offers())
                grant = named(grant, self._offers(), self._vendor())
                why = self._hold(grant)
                if not why:
                    return grant
            except EngineSilent as error:
                why = f"{error} {error.next_step}".strip()
            if time.monotonic() >= until_s:
                raise EngineRefused(f"{asked.words} had to wait for {self._patience_s:.0f} s: {why}")
            log.info("%s waits: %s", asked.words, why)
            await self._changed(until_s)

    def _hold(self, grant: Grant) -> str:
        """Looks and takes without a pause between: nobody else can have taken it meanwhile."""
        if (other := second_claim_of_a_pod(grant, self._ledger.grants)) is not None:
            found = f"a pod has both {grant.claim.words} and {other.claim.words}, and its containers can have one"
            raise EngineRefused(found, "Put all its requests for GPUs into one claim.")
        why = lacking(grant, self._ledger.grants, self._offers())
        if not why:
            self._ledger.put(grant)
        return why

    async def _changed(self, until_s: float) -> None:
        left_s = max(0.0, min(AGAIN_S, until_s - time.monotonic()))
        async with self._changes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changes.wait()

    async def _make(self, grant: Grant) -> None:
        offers = self._offers()
        if missing := [part.device for part in grant.parts if part.device not in offers]:
            raise EngineRefused(f"{missing[0]} is not there now: its driver does not tell of it", "See the agent's log.")
        pipes = await self._pipes(grant, offers)
        at = ClaimFiles(self._ledger.home(grant.claim.uid), self._cdi, self._library, pipes)
        await asyncio.to_thread(make_files, at, grant, offers)

    async def _pipes(self, grant: Grant, offers: Mapping[str, Offer]) -> Path | None:
        names = dict.fromkeys(part.device for part in grant.parts)
        shared = [offers[name] for name in names if not is_whole(grant, offers[name])]
        for offer in [offers[name] for name in names if offers[name] not in shared and not offers[name].is_instance]:
            await self._mps.give_up(offer.uuid)
        pipes = None
        for place, offer in enumerate(shared):
            memory, cores = grant.of(offer.name)
            pipes = await self._mps.ready(offer.uuid, sm_percent=cores, memory_bytes=memory)
            if pipes is not None and place > 0:
                found = f"{grant.claim.words} has parts of {len(shared)} GPUs, and by MPS a program can use one shared GPU"
                raise EngineRefused(found, "Ask for a part of one GPU, or for whole ones.")
        return pipes

    async def _drop(self, uid: str) -> None:
        """The ledger last: as long as a file names it, it is held."""
        await asyncio.to_thread(remove_spec, self._cdi, uid)
        self._ledger.remove(uid)
        async with self._changes:
            self._changes.notify_all()


def named(grant: Grant, offers: Mapping[str, Offer], vendor: frozenset[str]) -> Grant:
    """With the vendor's own CDI devices, which bring in the GPUs. Raises EngineRefused."""
    return replace(grant, parts=tuple(replace(part, vendor=vendor_device(offers.get(part.device), vendor)) for part in grant.parts))


def vendor_device(offer: Offer | None, vendor: frozenset[str]) -> str:
    """Empty: it is not there now, which is told elsewhere. A MIG instance has no number of its own: the GPU's would be the whole GPU."""
    if offer is None:
        return ""
    names = (offer.uuid,) if offer.is_instance else (offer.uuid, str(offer.index))
    found = next((name for name in names if name in vendor), None)
    if found is None:
        raise EngineRefused(f"no CDI file names {offer.uuid}", HOW_TO_NAME)
    return f"{VENDOR}={found}"


def prepared(grant: Grant) -> list[Prepared]:
    """The vendor's device brings in the GPU; ours what holds it to its share."""
    ours = [f"{KIND}={device_name(grant, place)}" for place in range(len(grant.parts))]
    return [Prepared((part.request,), part.pool, part.device, (part.vendor, own)) for part, own in zip(grant.parts, ours, strict=True)]


def told(grant: Grant) -> str:
    return ", ".join(f"{part.memory_bytes} bytes and {part.cores} % of {part.device}" for part in grant.parts)
