"""The five families that dashboards elsewhere are built on: names, labels and their order, and values, are promised and never change."""
from collections.abc import Iterable

from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice
from gpufairy.node.render_text import Family, Text, escaped, gauge

COMMAND_LETTERS = 64  # enough to know a program by; more would only make many series
MIB = 2**20

PROCESS_INFO = gauge("gpu_process_info", "A process on a GPU or MIG instance, with the pod and container it runs in.")
# A name that ends in _count is a histogram's to those who check such pages, unless it has no type.
SESSION_COUNT = Family("gpu_session_count", "untyped", "Processes on each GPU or MIG instance.")
TOTAL_SESSIONS = gauge("gpu_total_sessions", "Processes on all GPUs and MIG instances, one on two GPUs counted on each.")
UTILIZATION = gauge("gpu_process_utilization", "Percent of the time in which the process kept the GPU busy.")
MEMORY_UTILIZATION = gauge("gpu_process_memory_utilization", "Percent of the time in which the process read or wrote GPU memory.")


def put_contract(text: Text, sample: NodeSample) -> None:
    """Nothing at all where the driver does not answer: a GPU without a row is not known, one with 0 is idle."""
    if not sample.gpus_known:
        return
    devices = usable_labels(sample)
    rows = on_devices(sample.processes, devices)
    labels_of = {(gpu, pid): process_labels(gpu, one) for (gpu, pid), one in rows.items()}
    for key, one in rows.items():
        text.put(PROCESS_INFO, f'{labels_of[key]},status="{status(one)}",gpu_memory="{memory(one)}"', 1)
    counts = {gpu: 0 for uuid, gpu in devices.items() if uuid not in unread(sample)}
    for gpu, _ in rows:
        if gpu in counts:
            counts[gpu] += 1
    for gpu, count in counts.items():
        text.put(SESSION_COUNT, f'gpu="{gpu}"', count)
    text.put(TOTAL_SESSIONS, "", len(rows) if len(counts) == len(devices) else None)
    for key, one in rows.items():
        text.put(UTILIZATION, labels_of[key], percent(one.on.utilisation))
        text.put(MEMORY_UTILIZATION, labels_of[key], percent(one.on.memory_utilisation))


def usable_labels(sample: NodeSample) -> dict[str, str]:
    """UUID to label of all that processes can be on: a GPU in MIG mode is its instances, and a lost one is not idle but lost."""
    return {one.uuid: one.label for one in answering(sample) if not (one.mig and one.parent is None)}


def answering(sample: NodeSample) -> list[GpuDevice]:
    """Without GPUs that are lost, and their instances."""
    uuids = {one.uuid for one in sample.lost if one.uuid is not None}
    indexes = {one.index for one in sample.lost if one.uuid is None}
    return [one for one in sample.devices if one.index not in indexes and one.uuid not in uuids and one.parent not in uuids]


def on_devices(processes: Iterable[ProcessReading], devices: dict[str, str]) -> dict[tuple[str, int], ProcessReading]:
    """By label and PID. One that computes and draws is listed twice by the driver, with the same memory."""
    rows: dict[tuple[str, int], ProcessReading] = {}
    for one in processes:
        gpu = devices.get(one.on.uuid)
        if gpu is None:  # cut anew between two readings
            continue
        same = rows.get((gpu, one.on.pid))
        if same is None or known(one) > known(same):
            rows[gpu, one.on.pid] = one
    return rows


def known(one: ProcessReading) -> tuple[int, int]:
    return (one.on.utilisation is not None) + (one.on.memory_utilisation is not None), one.on.memory_bytes or 0


def unread(sample: NodeSample) -> set[str]:
    return {one.uuid for one in sample.readings if not one.processes_known}


def process_labels(gpu: str, one: ProcessReading) -> str:
    owner = one.owner
    where = f'pod="{escaped(owner.pod)}",namespace="{escaped(owner.namespace)}",container="{escaped(owner.container)}"'
    return f'gpu="{gpu}",pid="{one.on.pid}",command="{escaped(one.process.command, COMMAND_LETTERS)}",{where}'


def status(one: ProcessReading) -> str:
    """The contract has no third word, and what is not known must not look idle; `fairy_process_active` has no row then."""
    return "idle" if one.active is False else "active"


def memory(one: ProcessReading) -> str:
    return "" if one.on.memory_bytes is None else f"{one.on.memory_bytes // MIB}MiB"


def percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio * 100, 2)
