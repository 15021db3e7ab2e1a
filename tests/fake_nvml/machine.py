"""The machine that the fake library shows, as values, and its script: the lines that script.c reads."""
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

NAMESPACE = uuid.UUID("6f0f7a7e-5f0c-4f0e-9c55-6e766d6c0001")  # of the UUIDs made for those that have none
NOT_KNOWN = -1  # how None is written
MIG_SLOTS = 7
MOST_FAILS = 16  # as fake_nvml.h
LONGEST_NAME = 95  # bytes, as NVML's own
LONGEST_WORD = 63
KINDS = {"compute": "c", "graphics": "g", "mps": "m"}


@dataclass(frozen=True)
class FakeProcess:
    pid: int
    memory_mib: int | None = 100
    sm: int | None = None  # percent, handed out as it is, also over 100; both None: no sample of it
    mem: int | None = None
    kind: str = "compute"  # or "graphics", "mps"


@dataclass(frozen=True)
class FakeInstance:
    """A MIG device. Of several in one GPU instance, the first speaks for the memory and the GPM of all of them."""

    gi: int
    ci: int = 0
    slot: int = 0  # where nvmlDeviceGetMigDeviceHandleByIndex finds it, 0 to 6
    profile: str = "1g.5gb"  # or "1c.3g.20gb": part of a GPU instance
    start: int = 0
    size: int = 1
    memory_mib: int = 4864
    used_mib: int = 0
    gpm: Mapping[int, float] | None = None
    processes: tuple[FakeProcess, ...] = ()
    uuid: str = ""


@dataclass(frozen=True)
class FakeGpu:
    name: str = "NVIDIA A100-SXM4-40GB"
    uuid: str = ""  # made from the index
    memory_mib: int = 40960
    used_mib: int = 0
    utilisation: int = 0
    memory_utilisation: int = 0
    power_w: float = 60.0
    power_limit_w: float = 400.0
    energy_j: float = 1000.0
    temperature_c: int = 30
    memory_temperature_c: int | None = None
    fan: int | None = None
    sm_clock_mhz: int = 210
    memory_clock_mhz: int = 1215
    throttle: int = 0  # NVML's bit mask
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)  # corrected, uncorrected, pending, failed
    pcie_tx_bytes: int = 0
    pcie_rx_bytes: int = 0
    architecture: int = 7  # NVML_DEVICE_ARCH_AMPERE
    gpm: Mapping[int, float] | None = None  # metric id to value; None: not supported
    mig: bool = False
    instances: tuple[FakeInstance, ...] = ()  # shown while mig is on
    processes: tuple[FakeProcess, ...] = ()
    lost: bool = False  # every call on it answers GPU_IS_LOST
    # Function to nvmlReturn; a name without _vN stands for all its versions. 0: says success and tells nothing, as some drivers do.
    fails: Mapping[str, int] = field(default_factory=dict)
    reserved_mib: int = 0  # kept by the driver: the old memory call counts it as used, the new one apart
    slowdown_c: int | None = 92
    hides_instances: bool = False  # its own lists do not say in which instance a process is
    refuses_cut: str = ""  # `3g.20gb@4`: making that one there fails for want of resources


@dataclass(frozen=True)
class FakeXid:
    gpu: int = 0
    code: int = 79
    number: int = 1  # each number comes once to each event set of each process


@dataclass(frozen=True)
class FakeMachine:
    gpus: tuple[FakeGpu, ...] = ()
    driver: str = "580.159.04"
    cuda: int = 13000
    hang: tuple[str, ...] = ()  # functions that never return; named as in `fails`
    init_fails: int = 0
    xids: tuple[FakeXid, ...] = ()
    counts_calls: bool = False  # see FakeNvml.calls

    def named(self) -> "FakeMachine":
        """With a UUID for every device that has none: always the same for the same index and cut."""
        return replace(self, gpus=tuple(_named_gpu(gpu, index) for index, gpu in enumerate(self.gpus)))

    def script(self) -> str:
        return "".join(f"{line}\n" for line in _machine_lines(self.named()))


def _named_gpu(gpu: FakeGpu, index: int) -> FakeGpu:
    named = replace(gpu, uuid=gpu.uuid or f"GPU-{uuid.uuid5(NAMESPACE, str(index))}")
    return replace(named, instances=tuple(_named_instance(instance, named.uuid) for instance in gpu.instances))


def _named_instance(instance: FakeInstance, parent: str) -> FakeInstance:
    cut = f"{parent} {instance.gi} {instance.ci} {instance.profile} {instance.start}"
    return replace(instance, uuid=instance.uuid or f"MIG-{uuid.uuid5(NAMESPACE, cut)}")


def _machine_lines(machine: FakeMachine) -> Iterator[str]:
    yield f"driver {_text('driver', machine.driver, LONGEST_WORD)}"
    yield f"cuda {machine.cuda}"
    yield f"init_fails {machine.init_fails}"
    yield f"counts_calls {int(machine.counts_calls)}"
    yield from (f"hang {_text('hang', name, LONGEST_WORD)}" for name in machine.hang)
    yield from (f"xid {xid.gpu} {xid.code} {xid.number}" for xid in machine.xids)
    for index, gpu in enumerate(machine.gpus):
        _check(gpu, index)
        yield "gpu"
        yield from _gpu_lines(gpu)


def _gpu_lines(gpu: FakeGpu) -> Iterator[str]:
    yield f"name {_text('name', gpu.name, LONGEST_NAME)}"
    yield f"uuid {_text('uuid', gpu.uuid, LONGEST_NAME)}"
    if gpu.refuses_cut:
        yield f"refuses_cut {_text('refuses_cut', gpu.refuses_cut, LONGEST_WORD)}"
    yield from (f"{part.name} {_number(getattr(gpu, part.name))}" for part in fields(gpu) if _is_whole_number(part.name))
    yield from (f"{name}_m{unit} {round(value * 1000)}" for name, unit, value in _thousandths(gpu))
    yield from (f"{name} {count}" for name, count in zip(("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"), gpu.remapped, strict=True))
    yield from (f"fails {_text('fails', name, LONGEST_WORD)} {code}" for name, code in gpu.fails.items())
    yield from _shared_lines(gpu)
    for instance in gpu.instances:
        yield "instance"
        yield f"uuid {_text('uuid', instance.uuid, LONGEST_NAME)}"
        yield f"profile {_text('profile', instance.profile, LONGEST_WORD)}"
        yield from (f"{name} {getattr(instance, name)}" for name in ("gi", "ci", "slot", "start", "size", "memory_mib", "used_mib"))
        yield from _shared_lines(instance)


def _shared_lines(device: FakeGpu | FakeInstance) -> Iterator[str]:
    yield f"has_gpm {int(device.gpm is not None)}"
    yield from (f"gpm {metric} {float(value)!r}" for metric, value in (device.gpm or {}).items())
    for process in device.processes:
        numbers = " ".join(_number(value) for value in (process.pid, process.memory_mib, process.sm, process.mem))
        yield f"process {numbers} {KINDS[process.kind]}"


WRITTEN_OTHERWISE = {"refuses_cut", "name", "uuid", "power_w", "power_limit_w", "energy_j", "remapped", "gpm", "instances", "processes", "fails"}


def _is_whole_number(name: str) -> bool:
    return name not in WRITTEN_OTHERWISE


def _thousandths(gpu: FakeGpu) -> tuple[tuple[str, str, float], ...]:
    """What NVML counts in thousandths."""
    return (("power", "w", gpu.power_w), ("power_limit", "w", gpu.power_limit_w), ("energy", "j", gpu.energy_j))


def _number(value: int | None) -> str:
    return str(NOT_KNOWN if value is None else int(value))


def _text(what: str, text: str, longest: int) -> str:
    if len(text.splitlines()) != 1 or len(text.encode()) > longest:
        raise ValueError(f"{what} of a fake device is {text!r}: one line of at most {longest} bytes is wanted.")
    return text


def _check(gpu: FakeGpu, index: int) -> None:
    slots = [instance.slot for instance in gpu.instances]
    if len(set(slots)) < len(slots) or any(not 0 <= slot < MIG_SLOTS for slot in slots):
        raise ValueError(f"the instances of fake GPU {index} are in slots {slots}: give each its own, 0 to {MIG_SLOTS - 1}.")
    if len(gpu.fails) > MOST_FAILS:
        raise ValueError(f"fake GPU {index} has {len(gpu.fails)} failing functions; {MOST_FAILS} are the most.")
