"""Signs of leaks: what the store says, what the engine lists and what the drivers tell, compared. Who did not answer is not judged."""
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpufairy.core.amounts import show_size
from gpufairy.core.leaks import LeakKind, Sign
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadId, workload_id

# What of a GPU's memory no process has: some MiB with nobody on it, up to 700 where an old driver counts what it keeps for itself.
NOBODYS_BYTES = 2**30
HAS_WORKLOAD = frozenset({Phase.RUNNING, Phase.STOPPING, Phase.LOST})  # one that starts may have none yet
DEAD, STUCK = frozenset("ZX"), "D"  # states of a process, as /proc has them

OnGpu = tuple[str, int, str]  # a process by its host, its PID and the device it is on


@dataclass(frozen=True, slots=True)
class Once:
    """Whose session a process was, when that lived."""

    session_id: str
    session: str  # its name
    start_ticks: int  # of the process: PIDs come again


@dataclass(frozen=True, slots=True)
class LeakLook:
    """What everybody said, at one time."""

    now: datetime
    sessions: tuple[Session, ...] = ()  # all that hold a seat
    workloads: tuple[Workload, ...] | None = None  # None: the engine did not answer
    busy: Collection[WorkloadId] = frozenset()  # something is done about them at this moment
    ended: Collection[str] = frozenset()  # ids of those among the workloads' sessions that are over
    samples: tuple[NodeSample, ...] = ()  # of the hosts that speak
    once_of: Mapping[OnGpu, Once] = field(default_factory=dict)
    stuck: Collection[str] = frozenset()  # ids of sessions that were killed, and are still there
    gpu_open: Mapping[str, bool] = field(default_factory=dict)  # by session id: whether it can open its GPUs; else it was not asked


class Judged:
    """Of which signs the look could have told, had they been there."""

    def __init__(self, look: LeakLook) -> None:
        self._look = look
        self._live = {session.id for session in look.sessions}
        self._busy = {str(workload) for workload in look.busy}
        self._heard = {sample.node for sample in look.samples if sample.gpus_known}
        self._gpus = {gpu_thing(sample.node, device) for sample in look.samples for device, *_ in countable(sample)}

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, tuple):
            return False
        kind, thing = key
        match kind:
            case LeakKind.MEMORY:
                return thing in self._gpus
            case LeakKind.HOLDER:
                return thing.partition(" ")[0] in self._heard
            case LeakKind.GPU_SHUT:
                return thing not in self._live or thing in self._look.gpu_open
            case _:
                return self._look.workloads is not None and thing not in self._busy


def signs(look: LeakLook) -> list[Sign]:
    return [*seats_without(look), *workloads_without(look), *unnamed_memory(look), *shut_out(look), *late_holders(look), *stuck(look)]


def seats_without(look: LeakLook) -> Iterator[Sign]:
    """The engine answers, and has nothing of a session that ran."""
    if look.workloads is None:
        return
    listed = {workload.id for workload in look.workloads}
    for session in look.sessions:
        known_id = workload_id(session)
        if session.phase not in HAS_WORKLOAD or known_id in listed or known_id in look.busy:
            continue
        node = "" if session.seat is None else session.seat.node
        yield Sign(
            LeakKind.SEAT, str(known_id), node, f"session {session.name} of {session.owner} holds a seat on {node}, and nothing runs there",
            "The seat is given back by itself. If that does not happen, see /readyz and the server's log.", session.id, known_id,
        )  # fmt: skip


def workloads_without(look: LeakLook) -> Iterator[Sign]:
    attempts = {session.id: session.attempt for session in look.sessions}
    for workload in look.workloads or ():
        if not workload.alive or workload.id in look.busy or workload.silent_since is not None:
            continue
        session_id, attempt = workload.id.session_id, workload.id.attempt
        if session_id in look.ended or attempt < attempts.get(session_id, 0):
            name = session_id if workload.session is None else f"{workload.session.name} of {workload.session.owner}"
            yield Sign(
                LeakKind.WORKLOAD, str(workload.id), workload.node, f"on {workload.node} runs what was session {name}, which is over",
                "It is stopped by itself. If it cannot be killed, drain the node and reboot it.", session_id, workload.id,
            )  # fmt: skip
        elif workload.session is None and session_id not in attempts:
            yield Sign(
                LeakKind.UNREADABLE, str(workload.id), workload.node,
                f"on {workload.node} runs {workload.id}, which has this server's label and says of no session",
                "Look who started it there, and end it by hand: nobody's session is ended for bad labels.", session_id, workload.id,
            )  # fmt: skip


def unnamed_memory(look: LeakLook) -> Iterator[Sign]:
    for sample in look.samples:
        for device, used_bytes, told_bytes in countable(sample):
            if used_bytes - told_bytes > NOBODYS_BYTES:
                thing = gpu_thing(sample.node, device)
                yield Sign(
                    LeakKind.MEMORY, thing, sample.node, f"{thing} has {show_size(used_bytes - told_bytes)} in use that no process has",
                    "Look there with `fuser -v /dev/nvidia*` who has it open; when nobody is on it, `nvidia-smi --gpu-reset` or a reboot "
                    "frees it.", device=device.uuid,
                )  # fmt: skip


def countable(sample: NodeSample) -> Iterator[tuple[GpuDevice, int, int]]:
    """GPUs and MIG instances of which all is known: what is in use, and what processes have of it."""
    if not sample.gpus_known:
        return
    readings: dict[str, GpuReading] = {reading.uuid: reading for reading in sample.readings}
    shared = [gpu_instance(device) for device in sample.devices if device.parent is not None]
    lost = {gpu.uuid for gpu in sample.lost}
    for device in sample.devices:
        reading = readings.get(device.uuid)
        if reading is None or reading.memory_used_bytes is None or not reading.processes_known:
            continue
        # Of two compute instances in one GPU instance both have the memory of both.
        if device.simulated or device.mig or device.uuid in lost or shared.count(gpu_instance(device)) > 1:
            continue
        sizes = [process.on.memory_bytes for process in sample.processes if process.on.uuid == device.uuid]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            yield device, reading.memory_used_bytes, sum(known)


def gpu_instance(device: GpuDevice) -> str:
    """`0_1` of `0_1_0`."""
    return device.label.rpartition("_")[0]


def gpu_thing(node: str, device: GpuDevice) -> str:
    return f"{node} GPU {device.label}"


def shut_out(look: LeakLook) -> Iterator[Sign]:
    for session in look.sessions:
        if session.phase is not Phase.RUNNING or look.gpu_open.get(session.id) is not False:
            continue
        node = "" if session.seat is None else session.seat.node
        yield Sign(
            LeakKind.GPU_SHUT, session.id, node, f"session {session.name} of {session.owner} on {node} may not open its GPU any more",
            "Its container lost the right to its devices, as `systemctl daemon-reload` takes it with some versions of NVIDIA's toolkit. "
            "What has the GPU open goes on; nothing new can. Save and start it anew; see `fairy doctor`.", session.id,
        )  # fmt: skip


def stuck(look: LeakLook) -> Iterator[Sign]:
    """Killed, and listed as alive still."""
    alive = {workload.id: workload.node for workload in look.workloads or () if workload.alive}
    for session in look.sessions:
        known_id = workload_id(session)
        if session.id in look.stuck and known_id in alive:
            node = alive[known_id]
            yield Sign(
                LeakKind.STUCK, f"{known_id} stuck", node,
                f"session {session.name} of {session.owner} on {node} cannot be ended: it was killed and is still there",
                f"It waits in the kernel, for a disk or a driver that does not answer (state D in `ps` on {node}). Its seat stays held. "
                "Drain the node, and reboot it if the disk or driver does not come back.", session.id, known_id,
            )  # fmt: skip


def late_holders(look: LeakLook) -> Iterator[Sign]:
    """Processes that outlived their session, or themselves, and are on a GPU still."""
    live = {session.id for session in look.sessions}
    for sample in look.samples:
        labels = {device.uuid: device.label for device in sample.devices if not device.simulated}
        for process in sample.processes if sample.gpus_known else ():
            once = once_of(process, look.once_of.get(on_gpu(sample.node, process)))
            if process.on.uuid not in labels or process.owner.known_by is KnownBy.MPS or (once is not None and once.session_id in live):
                continue
            if once is None and process.process.state not in DEAD:
                continue  # an outsider's, of whom the alert of that name tells
            yield holder_sign(sample.node, labels[process.on.uuid], process, once)


def holder_sign(node: str, label: str, process: ProcessReading, once: Once | None) -> Sign:
    memory = "memory" if process.on.memory_bytes is None else show_size(process.on.memory_bytes)
    whose = "" if once is None else f" of session {once.session}, which is over,"
    what = f"process {process.on.pid} ({process.process.command}){whose} has {memory} of {node} GPU {label}"
    state = process.process.state
    if state in DEAD or process.process.start_ticks == 0:
        how, todo = "though it is dead: the driver does not let go of it", "Drain the node; reset the GPU when nobody is on it, or reboot."
    elif state == STUCK:
        how, todo = "and is stuck in the kernel, so that nothing ends it", "Drain the node and reboot it: nothing else ends such a process."
    else:
        how, todo = "and runs on", f"See what it is, and end it on {node} by hand: kill {process.on.pid}."
    thing = f"{node} GPU {label} process {process.on.pid}"
    return Sign(LeakKind.HOLDER, thing, node, f"{what} {how}", todo, once.session_id if once else "", device=process.on.uuid)


def on_gpu(node: str, process: ProcessReading) -> OnGpu:
    return node, process.on.pid, process.on.uuid


def remembered(before: Mapping[OnGpu, Once], samples: Iterable[NodeSample]) -> dict[OnGpu, Once]:
    """Of every process that is on a GPU whose session it is, or was. Hosts that say nothing now change nothing."""
    heard = [sample for sample in samples if sample.gpus_known]
    speaking = {sample.node for sample in heard}
    kept = {key: one for key, one in before.items() if key[0] not in speaking}
    for sample in heard:
        for process in sample.processes:
            key = on_gpu(sample.node, process)
            if (once := once_of(process, before.get(key))) is not None:
                kept[key] = once
    return kept


def once_of(process: ProcessReading, before: Once | None) -> Once | None:
    """One that has died is not in /proc any more, so that nobody can tell its owner: it is who it was."""
    owner, start_ticks = process.owner, process.process.start_ticks
    if owner.session_id is not None:
        return Once(owner.session_id, owner.session or owner.session_id, start_ticks)
    return before if before is not None and start_ticks in (0, before.start_ticks) else None
