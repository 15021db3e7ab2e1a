"""The GPUs of all hosts as rows, from the API's nodes: each GPU, its instances below it, who is on each. For `smi` and `top`."""
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpufairy.client.protocol import Record
from gpufairy.core.points import COMPUTE_SLICES, COMPUTE_SLICES_OF


@dataclass(frozen=True, slots=True)
class OnGpu:
    """One process on a GPU; or, where no process is seen, a session that holds it."""

    user: str | None
    session: str | None
    container: str | None
    pod: str | None
    pid: int | None
    command: str | None
    memory_bytes: int | None
    utilisation: float | None
    active: bool | None
    outside: bool = False  # it uses what nobody handed out to it


@dataclass(frozen=True, slots=True)
class Held:
    """A session's part of a GPU."""

    user: str | None
    session: str | None  # None: its name is not ours to know
    share: float | None  # 0 to 1, of the whole GPU
    profile: str | None  # of a MIG instance


@dataclass(frozen=True, slots=True)
class GpuRow:
    """None is "not known", never 0."""

    node: str
    node_state: str
    label: str
    kind: str
    uuid: str
    simulated: bool
    instance: bool  # a MIG instance, shown under its GPU
    cut: bool  # a GPU in MIG mode: its instances are what is used
    utilisation: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    fan: float | None
    throttled_by: tuple[str, ...]
    free: bool | None
    idle: bool
    why: str
    on_it: tuple[OnGpu, ...]
    held: tuple[Held, ...] = ()  # of a GPU, with what is held of its instances
    part: float = 1.0  # how much of a GPU it is: of an instance by its compute slices
    processes_known: bool = True  # False: who is on it could not be read


def gpu_rows(nodes: Sequence[Record]) -> list[GpuRow]:
    return [row for node in nodes for row in _rows_of(node)]


def _rows_of(node: Record) -> Iterator[GpuRow]:
    for gpu in node.get("gpus") or []:
        yield _row(node, gpu, instance=False)
        for one in gpu.get("instances") or []:
            if one.get("uuid"):  # a simulated cut that is only drawn has none
                yield _row(node, {"simulated": gpu.get("simulated"), **one}, instance=True)


def _row(node: Record, gpu: Record, *, instance: bool) -> GpuRow:
    now = gpu.get("now") or {}
    processes = tuple(_process(process) for process in gpu.get("processes") or [])
    seen = {process.user for process in processes}
    holders = tuple(_holder(holder) for holder in gpu.get("holders") or [] if holder.get("owner") not in seen)
    return GpuRow(
        node=str(node["name"]), node_state=str(node.get("state")), label=str(gpu.get("label") or gpu.get("index")),
        kind=str(gpu.get("profile") or gpu.get("kind")), uuid=str(gpu.get("uuid")), simulated=bool(gpu.get("simulated")),
        instance=instance, cut=bool(gpu.get("mig")) and bool(gpu.get("instances")), utilisation=gpu.get("utilisation"),
        memory_used_bytes=gpu.get("memory_used_bytes"), memory_bytes=gpu.get("memory_bytes"),
        power_w=gpu.get("power_w"), power_limit_w=gpu.get("power_limit_w"), temperature_c=gpu.get("temperature_c"),
        fan=gpu.get("fan"), throttled_by=tuple(gpu.get("throttled_by") or ()),
        free=now.get("free"), idle=bool(now.get("idle")), why=str(now.get("why") or ""), on_it=(*processes, *holders),
        held=tuple(_held(holder) for holder in gpu.get("holders") or []), part=_part(gpu) if instance else 1.0,
        processes_known=gpu.get("processes_known") is not False,
    )  # fmt: skip


def _process(process: Record) -> OnGpu:
    return OnGpu(
        process.get("user"), process.get("session"), process.get("container"), process.get("pod"), process.get("pid"),
        process.get("command"), process.get("memory_bytes"), process.get("utilisation"), process.get("active"),
        bool(process.get("outside")),
    )  # fmt: skip


def _holder(holder: Record) -> OnGpu:
    return OnGpu(holder.get("owner"), holder.get("session"), None, None, None, None, None, None, None)


def _held(holder: Record) -> Held:
    return Held(holder.get("owner"), holder.get("session"), holder.get("share"), holder.get("profile"))


def _part(instance: Record) -> float:
    slices, _, _ = str(instance.get("profile") or "").partition("g.")
    whole = COMPUTE_SLICES_OF.get(str(instance.get("kind")).split("-")[0], COMPUTE_SLICES)
    return min(1.0, int(slices) / whole) if slices.isdecimal() else 1.0 / whole


def remarks(nodes: Sequence[Record]) -> Iterator[str]:
    """What a table of GPUs cannot show: hosts that say nothing, drivers that hang, GPUs that are gone. Strangers' words, as they came."""
    for node in nodes:
        if node.get("state") in ("silent", "awaited"):
            yield f"{node['name']}: {node.get('why')}"
        yield from (f"{node['name']}: {words}" for words in node.get("trouble") or [])
        yield from (f"{node['name']}: GPU {gpu.get('index')} does not answer: {gpu.get('why')}" for gpu in node.get("lost") or [])
