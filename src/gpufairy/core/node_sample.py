"""NodeSample: all that is known of one host at one time. What the exporter renders, the agent reports and the server keeps."""
from dataclasses import dataclass, field
from datetime import datetime

from gpufairy.core.host_reading import HostReading
from gpufairy.core.owner import Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, LostGpu, Xid


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process on a GPU: what it takes there, what it is, whose it is."""

    on: GpuProcess
    process: RunningProcess
    owner: Owner
    active: bool | None = None  # over the window; None: nobody can tell
    active_why: str = ""


@dataclass(frozen=True, slots=True)
class SessionReading:
    """What one session takes of the host, counted over all of its processes. GPUs are counted by `ProcessReading`."""

    session_id: str
    cpus: float | None = None  # used, in CPUs
    memory_bytes: int | None = None
    typed: bool | None = None  # at one of its terminals, within the last half minute; None: nobody can tell
    read_bytes_per_s: float | None = None  # from disks
    written_bytes_per_s: float | None = None
    received_bytes_per_s: float | None = None  # None of one that has no network of its own: nobody can tell its bytes from others'
    sent_bytes_per_s: float | None = None
    io_waited: float | None = None  # 0 to 1: the part of the time in which any of its programs stood still for a disk


@dataclass(frozen=True, slots=True)
class NodeSample:
    node: str
    at: datetime
    seconds: float  # what it stands for: the means are over so long
    host: HostReading | None = None  # None: could not be read
    devices: tuple[GpuDevice, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    sessions: tuple[SessionReading, ...] = ()
    xids: tuple[Xid, ...] = ()
    lost: tuple[LostGpu, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None
    containers_known: bool = True  # False: an engine does not answer, so names of containers may be missing or old
    gpus_known: bool = True  # False: the driver does not answer, so nothing above says that a GPU is idle
    trouble: tuple[str, ...] = field(default=())  # what could not be read, in words
    agent_up_s: float | None = None  # since the agent began; None: not known, or the server itself
    pods_known: bool | None = None  # False: nobody tells of the pods here, so their names may be missing; None: nobody has to
