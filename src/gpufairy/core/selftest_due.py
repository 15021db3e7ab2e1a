"""Which GPUs the isolation self-test is due on, and what it may take there: only what nobody uses. Pure: the hour is an argument."""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as TimeOfDay

from gpufairy.core.errors import BadInput
from gpufairy.core.free_now import free_now
from gpufairy.core.node import Gpu, Sharing
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.room import GpuRoom
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.core.sharing import IsolationTest, sharing_of

NIGHT = timedelta(hours=3)  # how long after its hour the test may still begin: a GPU may be busy at first
HALF = Share(ShareKind.FRACTION, PARTS // 2)


@dataclass(frozen=True, slots=True)
class Busy:
    """Why it cannot be tested now."""

    why: str
    may_pass: bool = False  # no session holds it: whoever is seen there may be a program that has just ended, and not left yet


def parse_nightly(text: str, what: str = "selftest.nightly") -> TimeOfDay | None:
    """`03:00`, by the clock of the server's machine; `off`: None."""
    if text == "off":
        return None
    hour, colon, minute = text.partition(":")
    if colon and hour.isdecimal() and minute.isdecimal() and len(minute) == 2 and int(hour) < 24 and int(minute) < 60:
        return TimeOfDay(int(hour), int(minute))
    raise BadInput(f"{what}: {text[:40]!r} is no time of day", "Write it as 03:00, or off.")


def is_due(gpu: Gpu, tests: Mapping[tuple[str, Sharing], IsolationTest], now: datetime, nightly: TimeOfDay | None) -> bool:
    """Never tested as it is shared now; or not since its hour of this night. `now` is in the zone of the machine."""
    if gpu.simulated:
        return False
    test = tests.get((gpu.uuid, sharing_of(gpu)))
    if test is None:
        return True
    if nightly is None:
        return False
    hour = now.replace(hour=nightly.hour, minute=nightly.minute, second=0, microsecond=0)
    begun = hour if hour <= now else hour - timedelta(days=1)
    return now - begun < NIGHT and not begun <= test.at <= now  # one of days to come was before the clock was set back


def shares_to_take(room: GpuRoom, sample: NodeSample | None) -> tuple[Share, ...] | Busy:
    """Two halves of a GPU that is wholly free; of one in MIG mode two free instances, or the only one."""
    gpu = room.gpu
    if gpu.mig is None:
        return Busy("sessions are on it") if not room.is_free else closed_by_mps(gpu) or strangers_on(gpu.uuid, sample) or (HALF, HALF)
    free = [instance for instance in gpu.instances or () if (instance.start, instance.size) not in room.cut]
    if not free:
        return Busy("no MIG instance of it is free")
    # All of them: a session asks for a profile, and nobody says which of two equal instances it gets.
    taken = next((busy for instance in free if (busy := strangers_on(instance.uuid, sample)) is not None), None)
    return taken or tuple(Share(ShareKind.MIG, 0, instance.profile) for instance in free[:2])


def closed_by_mps(gpu: Gpu) -> Busy | None:
    """A GPU on which no fraction could start now: its sessions would wait in vain."""
    why = gpu.closed if gpu.sharing is Sharing.MPS else gpu.mps_stays
    return Busy(why, may_pass=True) if why else None


def strangers_on(uuid: str, sample: NodeSample | None) -> Busy | None:
    """Of a GPU or instance that no session holds. What is not known is never taken for free."""
    device = None if sample is None else next((device for device in sample.devices if device.uuid == uuid), None)
    if sample is None or device is None:
        return Busy("who is on it is not known")
    found = free_now(device, sample)
    return None if found.free else Busy(found.why, may_pass=sample.gpus_known)
