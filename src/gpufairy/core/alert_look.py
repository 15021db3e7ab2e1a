"""AlertLook: all that the rules of alerts look at, at one time. And from when on a figure is bad, as the settings say."""
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpufairy.core.disk_limit import OverLimit
from gpufairy.core.doctor_night import Trouble
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import Xid


@dataclass(frozen=True, slots=True)
class AlertLimits:
    memory_left: float = 0.04  # of a host's memory: less is bad, whatever the trend
    memory_within: timedelta = timedelta(minutes=5)  # it runs out by its trend
    disk_left: float = 0.05
    disk_within: timedelta = timedelta(hours=24)
    inodes_left: float = 0.05
    gpu_hot_c: float = 90.0  # where the GPU does not say at what it slows down
    gpu_memory_hot_c: float = 105.0
    host_hot_c: float = 95.0
    certificate_within: timedelta = timedelta(days=14)
    backup_within: timedelta = timedelta(days=2)
    starting_for: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class HostLook:
    """`sample=None`: it has told nothing, or not for a while."""

    node: str
    sample: NodeSample | None
    silent: bool
    heard_at: datetime | None = None
    agent_version: str = ""  # empty: the server itself, or not known
    runs_sessions: bool = False


@dataclass(frozen=True, slots=True)
class SeenXid:
    node: str
    xid: Xid
    times: int = 1


@dataclass(frozen=True, slots=True)
class QueueLook:
    waiting: int = 0
    failing: tuple[tuple[str, str], ...] = ()  # loops, with what went wrong
    engine_silent_since: datetime | None = None
    starting: tuple[tuple[str, str, datetime], ...] = ()  # sessions: name, node, since when


@dataclass(frozen=True, slots=True)
class Certificate:
    """`ends_at=None`: it could not be read, and `trouble` says why."""

    where: str
    ends_at: datetime | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Leak:
    """What is held by nobody, as the janitor found it."""

    thing: str
    node: str
    sentence: str
    todo: str


@dataclass(frozen=True, slots=True)
class AlertLook:
    now: datetime
    hosts: tuple[HostLook, ...] = ()
    xids: tuple[SeenXid, ...] = ()  # of late
    queue: QueueLook = QueueLook()
    certificates: tuple[Certificate, ...] = ()
    last_backup: datetime | None = None  # None: not known, so nothing is said
    leaks: tuple[Leak, ...] = ()
    version: str = ""  # of the server
    limits: AlertLimits = field(default_factory=AlertLimits)
    doctor: tuple[Trouble, ...] | None = None  # what fails on the server's own host; None: nobody has looked, so nothing is said
    disk_over: tuple[OverLimit, ...] = ()  # users, each on one machine
