"""Points: what one report says of GPUs, the node, sessions and users. Pure; None is not known, never zero."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpufairy.core.drawn import drawn_by
from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.series import Kind, Point, Subject, point

COMPUTE_SLICES = 7  # of a GPU that MIG can cut; an A30 has fewer
COMPUTE_SLICES_OF = {"A30": 4}
BY_POWER, BY_HEAT = frozenset(("power cap", "power brake")), frozenset(("software heat", "hardware heat"))  # of THROTTLE_WORDS


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A session's part of one device."""

    session_id: str
    owner: str
    share: float  # 0 to 1, of the whole GPU


Held = Mapping[str, Sequence[HeldPart]]  # by UUID of the device: the MIG instance, where that is known


@dataclass(frozen=True, slots=True)
class Use:
    """Of GPUs, in GPU-equivalents. What is known and what is not are told apart."""

    known: float | None = None  # None: nothing is known
    unknown: float = 0.0  # held, and nobody can tell how much of it was used

    def __add__(self, other: "Use") -> "Use":
        return Use(_sum([self.known, other.known]), self.unknown + other.unknown)


@dataclass(slots=True)
class Picture:
    """A sample, sorted for those who count."""

    sample: NodeSample
    held: Held
    owners: Mapping[str, str]  # of sessions that hold no GPU
    before: NodeSample | None = None
    readings: dict[str, GpuReading] = field(default_factory=dict)
    devices: dict[str, GpuDevice] = field(default_factory=dict)
    on_device: dict[str, list[ProcessReading]] = field(default_factory=dict)
    of_session: dict[str, list[ProcessReading]] = field(default_factory=dict)
    parts_of: dict[str, list[tuple[str, HeldPart]]] = field(default_factory=dict)  # by session id, with the device

    def __post_init__(self) -> None:
        sample = self.sample
        self.devices = {device.uuid: device for device in sample.devices}
        self.readings = {reading.uuid: reading for reading in sample.readings} if sample.gpus_known else {}
        for process in sample.processes:
            self.on_device.setdefault(process.on.uuid, []).append(process)
            if process.owner.session_id is not None:
                self.of_session.setdefault(process.owner.session_id, []).append(process)
        for uuid, parts in self.held.items():
            for part in parts:
                self.parts_of.setdefault(part.session_id, []).append((uuid, part))

    def owner_of(self, session_id: str) -> str | None:
        if session_id in self.parts_of:
            return self.parts_of[session_id][0][1].owner
        named = (process.owner.user for process in self.of_session.get(session_id, ()))
        return self.owners.get(session_id) or next(named, None)


def points_of(sample: NodeSample, before: NodeSample | None, held: Held, owners: Mapping[str, str] | None = None) -> tuple[Point, ...]:
    """`held`: by whom each device of this node is held. `owners`: of its sessions, by id."""
    picture = Picture(sample, held, owners or {}, before=before)
    sessions = {session_id: _session(picture, session_id) for session_id in _session_ids(picture)}
    return (
        *(_gpu(picture, device) for device in sample.devices),
        _node(picture, before),
        *(found for found, _ in sessions.values()),
        *_users(picture, sessions),
    )


def _gpu(picture: Picture, device: GpuDevice) -> Point:
    reading, subject = picture.readings.get(device.uuid), Subject(Kind.GPU, device.uuid, picture.sample.node)
    held, utilisation = _held_of(picture, device), _utilisation(picture, device)
    held_unknown = held if utilisation is None else 0.0
    if reading is None:
        return point(subject, held=held, held_unknown=held_unknown)
    return point(
        subject, utilisation=utilisation, memory_bytes=reading.memory_used_bytes, memory_utilisation=reading.memory_utilisation,
        sm_active=reading.sm_active, power_w=reading.power_w, temperature_c=reading.temperature_c, held=held, held_unknown=held_unknown,
        throttled_power=_throttled(reading, BY_POWER), throttled_heat=_throttled(reading, BY_HEAT),
    )  # fmt: skip


def _throttled(reading: GpuReading, causes: frozenset[str]) -> float | None:
    return None if reading.throttled_by is None else float(not causes.isdisjoint(reading.throttled_by))


def _utilisation(picture: Picture, device: GpuDevice) -> float | None:
    """Of a GPU that is cut: that of its instances, by their compute slices, since the driver counts it for them alone."""
    reading = picture.readings.get(device.uuid)
    if reading is None or reading.utilisation is not None or not device.mig:
        return None if reading is None else reading.utilisation
    use = sum((_device_use(picture, cut) for cut in picture.sample.devices if cut.parent == device.uuid), Use())
    return None if use.known is None or use.unknown else min(1.0, use.known)


def _held_of(picture: Picture, device: GpuDevice) -> float | None:
    """Of a GPU with what its instances hold of it; of an instance all or nothing."""
    own = sum(part.share for part in picture.held.get(device.uuid, ()))
    if device.parent is not None:
        if own == 0.0 and picture.held.get(device.parent):
            return None  # somebody holds an instance of this GPU, and which one is not written down
        return 1.0 if own else 0.0
    cut = [other.uuid for other in picture.sample.devices if other.parent == device.uuid]
    return min(1.0, own + sum(part.share for uuid in cut for part in picture.held.get(uuid, ())))


def _node(picture: Picture, before: NodeSample | None) -> Point:
    sample, host = picture.sample, picture.sample.host
    subject = Subject(Kind.NODE, sample.node, sample.node)
    uses = [_device_use(picture, device) for device in sample.devices if not device.mig]
    use = sum(uses, Use())
    gpus = sum(equivalents(device) for device in sample.devices if not device.mig)
    known_gpus = gpus - use.unknown
    busy = None if use.known is None or known_gpus <= 0 else min(1.0, use.known / known_gpus)
    powers = [reading.power_w for reading in picture.readings.values()]  # of instances it is not known: their GPU has it
    if host is None:
        return point(subject, gpu_utilisation=busy, gpus_used=use.known, gpus_unknown=use.unknown, power_w=_sum(powers))
    used = None
    if host.memory_total_bytes is not None and host.memory_available_bytes is not None:
        used = host.memory_total_bytes - host.memory_available_bytes
    return point(
        subject, cpu=host.cpu_used, memory_bytes=used, gpu_utilisation=busy, power_w=_sum([*powers, host.power_w]), load_1m=host.load_1m,
        gpus_used=use.known, gpus_unknown=use.unknown, **_rates(host, None if before is None else before.host),
    )  # fmt: skip


def _device_use(picture: Picture, device: GpuDevice) -> Use:
    reading, whole = picture.readings.get(device.uuid), equivalents(device)
    if reading is None or reading.utilisation is None:
        return Use(None, whole)
    return Use(reading.utilisation * whole)


def equivalents(device: GpuDevice) -> float:
    """How much of a GPU it is, by its compute slices."""
    if device.parent is None:
        return 1.0
    slices = (device.profile or "").partition("g.")[0]
    whole = COMPUTE_SLICES_OF.get(device.kind.split("-")[0], COMPUTE_SLICES)
    return min(1.0, int(slices) / whole) if slices.isdecimal() else 1.0 / whole


RATES = (
    ("read_bytes_per_s", "disks", "read_bytes"), ("written_bytes_per_s", "disks", "written_bytes"),
    ("received_bytes_per_s", "networks", "received_bytes"), ("sent_bytes_per_s", "networks", "sent_bytes"),
)  # fmt: skip


def _rates(host: HostReading, before: HostReading | None) -> dict[str, float | None]:
    """From counters: one that fell began anew, and a clock that went back tells nothing."""
    seconds = 0.0 if before is None else (host.at - before.at).total_seconds()
    if before is None or seconds <= 0:
        return {}
    rates = {name: _rate(getattr(host, part), getattr(before, part), counter, seconds) for name, part, counter in RATES}
    return {**rates, "disk_busy": _busiest(host, before, seconds)}


def _busiest(host: HostReading, before: HostReading, seconds: float) -> float | None:
    """Of the disk that had the most to do: the part of the time in which it was at work."""
    was = {disk.device: disk.busy_s for disk in before.disks}
    worked = [disk.busy_s - old for disk in host.disks if disk.busy_s is not None and (old := was.get(disk.device)) is not None]
    return min(1.0, max(worked) / seconds) if worked and min(worked) >= 0 else None


def _rate(now: Iterable[object], before: Iterable[object], counter: str, seconds: float) -> float | None:
    """Over the devices seen both times: one that came or went says nothing of what passed in between."""
    was = {getattr(device, "device", ""): getattr(device, counter) for device in before}
    risen = [getattr(device, counter) - was[name] for device in now if (name := getattr(device, "device", "")) in was]
    if not risen or min(risen) < 0:
        return None
    return float(sum(risen)) / seconds


def _session_ids(picture: Picture) -> list[str]:
    told = (reading.session_id for reading in picture.sample.sessions)
    return list(dict.fromkeys([*picture.parts_of, *told, *picture.of_session]))


OF_HOST = (
    "cpus", "memory_bytes", "read_bytes_per_s", "written_bytes_per_s", "received_bytes_per_s", "sent_bytes_per_s", "io_waited",
)  # fmt: skip


def _session(picture: Picture, session_id: str) -> tuple[Point, Use]:
    parts = picture.parts_of.get(session_id, [])
    own = picture.of_session.get(session_id, [])
    shares = {uuid: sum(part.share for there, part in parts if there == uuid) for uuid, _ in parts}
    places = dict.fromkeys([*shares, *(process.on.uuid for process in own)])
    uses = [_use_on(picture, uuid, own, _share_of(picture, uuid, shares)) for uuid in places]
    use = sum(uses, Use()) if uses else Use(0.0)
    host = next((reading for reading in picture.sample.sessions if reading.session_id == session_id), None)
    found = point(
        Subject(Kind.SESSION, session_id, picture.sample.node),
        gpus_held=sum(shares.values()), gpus_used=use.known, gpus_unknown=use.unknown, gpu_memory_bytes=_memory(picture, own),
        drawn_w=drawn_by(picture.sample, picture.before, shares), **{} if host is None else {name: getattr(host, name) for name in OF_HOST},
    )  # fmt: skip
    return found, use


def _share_of(picture: Picture, uuid: str, shares: Mapping[str, float]) -> float:
    device = picture.devices.get(uuid)
    parent = None if device is None else device.parent
    return shares.get(uuid, 0.0 if parent is None else shares.get(parent, 0.0))


def _use_on(picture: Picture, uuid: str, own: Iterable[ProcessReading], share: float) -> Use:
    """What these processes use of that device, which is held to such a share."""
    here = [process for process in own if process.on.uuid == uuid]
    device = picture.devices.get(uuid)
    whole = 1.0 if device is None else equivalents(device)
    if device is None or uuid not in picture.readings:
        return Use(None, share)
    if device.mig:
        return _use_of_cut(picture, device, own)
    told = [process.on.utilisation for process in here]
    if None not in told:
        return Use(min(1.0, sum(part for part in told if part is not None)) * whole)
    utilisation = picture.readings[uuid].utilisation
    if utilisation is not None and len(here) == len(picture.on_device.get(uuid, ())):
        return Use(utilisation * whole)  # alone on it: all that runs there is theirs
    return Use(None, share)


def _use_of_cut(picture: Picture, device: GpuDevice, own: Iterable[ProcessReading]) -> Use:
    """An instance that was cut on demand is held under its GPU's name; the processes show which one it is, and are counted there."""
    cut = {other.uuid for other in picture.sample.devices if other.parent == device.uuid}
    return Use() if any(process.on.uuid in cut for process in own) else Use(0.0)


def _memory(picture: Picture, processes: Sequence[ProcessReading]) -> float | None:
    if not processes:
        return 0.0 if picture.sample.gpus_known else None
    return _sum([process.on.memory_bytes for process in processes])


def _users(picture: Picture, sessions: Mapping[str, tuple[Point, Use]]) -> list[Point]:
    theirs: dict[str, list[str]] = {}
    for session_id in sessions:
        if (owner := picture.owner_of(session_id)) is not None:
            theirs.setdefault(owner, []).append(session_id)
    processes: dict[str, list[ProcessReading]] = {}
    for process in picture.sample.processes:
        inside = process.owner.session_id
        user = process.owner.user if inside is None else picture.owner_of(inside)
        if user is not None:
            processes.setdefault(user, []).append(process)
    names = sorted({*theirs, *processes})
    return [_user(picture, name, [sessions[session_id] for session_id in theirs.get(name, ())], processes.get(name, [])) for name in names]


def _user(picture: Picture, name: str, sessions: Sequence[tuple[Point, Use]], processes: Sequence[ProcessReading]) -> Point:
    pods = [process for process in processes if process.owner.session_id is None and not process.owner.outside]
    use = sum((use for _, use in sessions), Use() if sessions else Use(0.0)) + _use_by(picture, pods)
    loads = [load.cpus for load in picture.sample.host.users if load.user == name] if picture.sample.host is not None else []
    # Processes of a session may run under the user's own account, and are then counted in both: the larger has them all.
    cpus = [known for known in (_sum([found.value("cpus") for found, _ in sessions]), _sum(loads)) if known is not None]
    outside = _use_by(picture, [process for process in processes if process.owner.outside])
    return point(
        Subject(Kind.USER, name, picture.sample.node),
        gpus_held=sum(found.value("gpus_held") or 0.0 for found, _ in sessions), gpus_used=use.known, gpus_unknown=use.unknown,
        gpus_outside=outside.known, gpu_memory_bytes=_memory(picture, processes), cpus=max(cpus, default=None),
    )  # fmt: skip


def _use_by(picture: Picture, processes: Sequence[ProcessReading]) -> Use:
    if not processes:
        return Use(0.0) if picture.sample.gpus_known else Use()
    return sum((_use_on(picture, uuid, processes, 0.0) for uuid in dict.fromkeys(process.on.uuid for process in processes)), Use())


def _sum(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None: none is."""
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None
