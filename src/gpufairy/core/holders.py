"""Holders: whose share each GPU carries, for those who look. Who holds GPUs is everybody's business here; what they run is not."""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.session import GpuSeat, Session


@dataclass(frozen=True, slots=True)
class Holder:
    session: str
    owner: str
    gpu: GpuSeat
    since: datetime | None = None  # it was given the seat then


def holders_by_gpu(holding: Iterable[Session]) -> dict[str, list[Holder]]:
    """By GPU UUID, in order of submission: so that nobody's part of a bar moves when another session changes."""
    holders: dict[str, list[Holder]] = {}
    for session in sorted(holding, key=lambda session: session.number):
        for gpu in session.seat.gpus if session.seat is not None else ():
            holders.setdefault(gpu.uuid, []).append(Holder(session.name, session.owner, gpu, session.placed_at))
    return holders
