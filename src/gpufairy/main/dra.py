"""`fairy agent --dra`: this node's GPUs in shares for Kubernetes, put together from its parts. Loaded only where it is wanted."""
import asyncio
import hashlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpufairy.core.errors import BadInput
from gpufairy.core.reading import GpuSample
from gpufairy.devices.compute_mode import KeptComputeMode
from gpufairy.devices.mps import HeldShare, MpsDaemons
from gpufairy.engines.build_native import build
from gpufairy.engines.cdi import USUAL_FOLDERS
from gpufairy.main.pods import KubernetesWatch, find_access
from gpufairy.node.dra.driver import Driver, Offered
from gpufairy.node.dra.ledger import Ledger
from gpufairy.node.dra.prepare import Claims
from gpufairy.node.dra.publisher import Publisher
from gpufairy.node.dra.room import is_whole
from gpufairy.node.dra.service import Service
from gpufairy.node.dra.values import DRIVER
from gpufairy.node.kube_call import KubeCalls

MPS_PROGRAM = "nvidia-cuda-mps-control"
LOOK_S = 5.0


class Settings(Protocol):
    """As agent.py has them."""

    @property
    def cdi(self) -> Path: ...
    @property
    def sharing(self) -> str: ...
    @property
    def leaves(self) -> bool: ...


class NoMps:
    """GPUs are shared by time: each program has all of the GPU in turn."""

    async def ready(self, gpu: str, *, sm_percent: int, memory_bytes: int) -> Path | None:
        return None

    async def give_up(self, gpu: str) -> None:
        pass


async def hand_out(settings: Settings, kubernetes: KubernetesWatch, latest: Callable[[], GpuSample | None], data: Path) -> None:
    """For ever. Raises BadInput and EngineRefused."""
    access = find_access(kubernetes.where, os.environ)
    if access is None:
        raise BadInput("--dra: there is no way to the API server", "Run in the cluster, or name a kubeconfig by --kubernetes.")
    if settings.sharing == "mps" and shutil.which(MPS_PROGRAM) is None:
        next_step = "Give it (NVIDIA_DRIVER_CAPABILITIES=compute), or share by time."
        raise BadInput(f"--dra-sharing mps: {MPS_PROGRAM} is not on this machine", next_step)
    library = await asyncio.to_thread(share_library, data / "native")
    home = Path(kubernetes.kubelet) / "plugins" / DRIVER
    name = os.environ.get("NODE_NAME") or kubernetes.node or socket.gethostname().strip().lower()
    ledger, offered = Ledger(home / "claims"), Offered(latest, tuple(dict.fromkeys((settings.cdi, *USUAL_FOLDERS))))
    daemons = MpsDaemons(home / "mps", compute_mode=KeptComputeMode(home / "mps")) if settings.sharing == "mps" else None
    claims = Claims(
        ledger, KubeCalls(access), settings.cdi, library, daemons or NoMps(),
        offers=lambda: offered.by_name, vendor=lambda: offered.vendor,
    )  # fmt: skip
    publisher = Publisher(access, name, settings.sharing)
    service = Service(home, Path(kubernetes.kubelet) / "plugins_registry", claims, publisher.taken)
    driver = Driver(offered, service, publisher, leaves=settings.leaves)
    watching = [] if daemons is None else [asyncio.create_task(keep_mps(daemons, ledger, offered), name="MPS")]
    try:
        await driver.run()
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


def share_library(folder: Path) -> Path:
    """In `folder`, which a pod of the agent has at the same place as its node: from the agent's own image no container can be given it."""
    made = build(folder).share_library
    if made.is_relative_to(folder):
        return made
    content = made.read_bytes()
    kept = folder / hashlib.sha256(content).hexdigest()[:16] / made.name  # another version, another place: who has the old one keeps it
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        beside = kept.with_suffix(".new")
        beside.write_bytes(content)
        beside.chmod(0o755)
        beside.replace(kept)
    return kept


async def keep_mps(daemons: MpsDaemons, ledger: Ledger, offered: Offered) -> None:
    """For ever: daemons that died are started anew, those that nobody needs are ended."""
    while True:
        await daemons.watch(held_shares(ledger, offered))
        await asyncio.sleep(LOOK_S)


def held_shares(ledger: Ledger, offered: Offered) -> dict[str, list[HeldShare]]:
    held: dict[str, list[HeldShare]] = {}
    for grant in ledger.grants:
        known = {part.device: offered.by_name[part.device] for part in grant.parts if part.device in offered.by_name}
        for name, offer in known.items():
            if not is_whole(grant, offer):
                memory, cores = grant.of(name)
                held.setdefault(offer.uuid, []).append(HeldShare(grant.claim.uid, cores, memory))
    return held
