"""How hosts and what was read of them read as JSON. null is "not known", never 0."""
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from gpufairy.api.shapes import moment
from gpufairy.control.watch import Seen
from gpufairy.core.free_now import FreeNow, free_now
from gpufairy.core.holders import Holder
from gpufairy.core.host_reading import HostReading
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice, GpuReading

READ = tuple(field.name for field in fields(GpuReading) if field.name not in ("uuid", "at", "simulated", "memory_total_bytes"))
NOTHING_READ = dict.fromkeys(READ)
read_of = attrgetter(*READ)
NamesShown = Callable[[str], bool]  # of which owners the caller may know what they call their work


def reading_shape(reading: GpuReading | None) -> dict[str, Any]:
    if reading is None:
        return dict(NOTHING_READ)
    return dict(zip(READ, map(plain, read_of(reading)), strict=True))


def plain(value: Any) -> Any:
    """Figures as far as anybody measured them."""
    kind = type(value)  # a page of a thousand GPUs has thirty thousand
    return round(value, 4) if kind is float else list(value) if kind is tuple else value


def process_shape(process: ProcessReading, names_shown: NamesShown) -> dict[str, Any]:
    """Whose it is, and how much it takes, is everybody's business; a command line may hold a secret."""
    owner, on = process.owner, process.on
    mine = owner.user is not None and names_shown(owner.user)
    hidden = owner.session_id is not None and not mine
    return {
        "pid": on.pid,
        "command": process.process.command,
        "command_line": process.process.line or None if mine else None,
        "user": owner.user,
        "known_by": owner.known_by,
        "outside": owner.outside,
        "session": None if hidden else owner.session,
        "container": None if hidden else owner.container or None,
        "pod": owner.pod or None,
        "namespace": owner.namespace or None,
        "memory_bytes": on.memory_bytes,
        "utilisation": plain(on.utilisation),
        "memory_utilisation": plain(on.memory_utilisation),
        "active": process.active,
        "active_why": process.active_why,
        "started_s": process.process.started_s,
    }


def now_shape(now: FreeNow) -> dict[str, Any]:
    return {"free": now.free, "idle": now.idle, "why": now.why}


def device_shape(
    device: GpuDevice, sample: NodeSample, reading: GpuReading | None, now: FreeNow, names_shown: NamesShown
) -> dict[str, Any]:
    """What is the same of a GPU and of a MIG instance."""
    return {
        "label": device.label,
        "now": now_shape(now),
        "processes": [process_shape(process, names_shown) for process in sample.processes if process.on.uuid == device.uuid],
        **reading_shape(reading),
    }


def seen_gpus(sample: NodeSample, holders: Mapping[str, list[Holder]], names_shown: NamesShown) -> list[dict[str, Any]]:
    """The GPUs that a host sees, each with its instances."""
    readings = {reading.uuid: reading for reading in sample.readings}
    shapes = []
    for gpu in (device for device in sample.devices if device.parent is None):
        instances = [device for device in sample.devices if device.parent == gpu.uuid]
        held = {one.uuid: owners(on_instance(holders, one)) for one in instances}
        now = free_now(gpu, sample, owners(holders.get(gpu.uuid, [])), held_instances=held)
        shapes.append({
            **named(gpu), **device_shape(gpu, sample, readings.get(gpu.uuid), now, names_shown),
            "mig": gpu.mig,
            "instances": [
                {
                    **named(one),
                    **device_shape(one, sample, readings.get(one.uuid), free_now(one, sample, held[one.uuid]), names_shown),
                    "profile": one.profile, "start": one.start, "size": one.size,
                }
                for one in instances
            ] if gpu.mig else None,
        })  # fmt: skip
    return shapes


def owners(holders: Sequence[Holder]) -> list[str]:
    return [holder.owner for holder in holders]


def on_instance(holders: Mapping[str, list[Holder]], instance: GpuDevice) -> list[Holder]:
    return [holder for holder in holders.get(instance.parent or "", []) if holder.gpu.instance_uuid == instance.uuid]


def named(device: GpuDevice) -> dict[str, Any]:
    return {
        "index": device.index, "uuid": device.uuid, "kind": device.kind, "product": device.name or None,
        "memory_bytes": device.memory_bytes, "simulated": device.simulated,
    }  # fmt: skip


def seen_shape(seen: Seen | None) -> dict[str, Any]:
    """What is added to a node for having been read."""
    sample = None if seen is None else seen.sample
    return {
        "heard_at": None if seen is None else moment(seen.heard_at),
        "agent_version": None if seen is None or seen.own else seen.agent_version or None,
        "driver": None if sample is None else sample.driver,
        "driver_cuda": None if sample is None else sample.driver_cuda,
        "host": None if sample is None or sample.host is None or (seen is not None and seen.silent) else host_shape(sample.host),
        "trouble": [] if sample is None else list(sample.trouble),
        "lost": [] if sample is None else [{"index": gpu.index, "uuid": gpu.uuid, "why": gpu.why} for gpu in sample.lost],
    }


def host_shape(host: HostReading) -> dict[str, Any]:
    plain = {field.name: getattr(host, field.name) for field in fields(host) if field.name != "boot_id"}
    for name in ("cpu_pressure", "memory_pressure", "io_pressure"):
        plain[name] = {"some": plain[name].some, "full": plain[name].full}
    for name in ("disks", "mounts", "networks", "users"):
        plain[name] = [{part.name: getattr(value, part.name) for part in fields(value)} for value in plain[name]]
    plain["temperatures_c"] = [{"sensor": sensor, "celsius": celsius} for sensor, celsius in host.temperatures_c]
    return {**plain, "at": moment(host.at), "cores": list(host.cores)}


def watched_shape(seen: Seen, names_shown: NamesShown) -> dict[str, Any]:
    """A host that only tells of itself: nothing is started there."""
    sample = None if seen.silent else seen.sample
    heard = "it has told nothing since the server began" if seen.heard_at is None else f"no report since {seen.heard_at:%H:%M:%S} UTC"
    host = None if sample is None else sample.host
    return {
        "name": seen.node,
        "state": watched_state(seen),
        "why": heard if sample is None else "watched by its agent; sessions are not started here",
        "pool": None,
        "runs_sessions": False,
        "cpus": None if host is None else host.cpus,
        "memory_bytes": None if host is None else host.memory_total_bytes,
        "free": None,
        "gpus": [] if sample is None else [watched_gpu(gpu) for gpu in seen_gpus(sample, {}, names_shown)],
        **seen_shape(seen),
    }


def watched_state(seen: Seen) -> str:
    if seen.silent:
        return "silent"
    if seen.sample is None:
        return "awaited"
    return "watched" if seen.sample.gpus_known else "faulty"


def watched_gpu(gpu: dict[str, Any]) -> dict[str, Any]:
    """With the fields that a GPU of our own has, so that nobody must tell the two apart to read them."""
    for process in [*gpu["processes"], *(one for instance in gpu["instances"] or () for one in instance["processes"])]:
        process["outside"] = False  # nothing is handed out there, so nobody takes what was not
    free = gpu["now"]["free"]
    rest_bytes = None if gpu["memory_bytes"] is None or gpu["memory_used_bytes"] is None else gpu["memory_bytes"] - gpu["memory_used_bytes"]
    return {
        **gpu, "fgpu": None, "free_share": None if free is None else int(free), "free_memory_bytes": rest_bytes,
        "holders": [], "enforced": [], "accounted": [],
    }  # fmt: skip
