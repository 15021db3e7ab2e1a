"""Readings of GPUs: one measurement each, with its time. None means not known, never zero."""
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """What can be read and held: a GPU, or one MIG instance of it."""

    uuid: str  # GPU-… or MIG-…
    label: str  # "0", or "0_1_0": GPU index, GPU instance, compute instance
    index: int  # of the GPU, as nvidia-smi counts
    kind: str  # "A100-40GB"
    memory_bytes: int | None
    name: str = ""  # as the driver says: "NVIDIA A100-SXM4-40GB"
    bus: str = ""  # PCI address
    parent: str | None = None  # of an instance: the GPU it was cut from
    profile: str | None = None  # of an instance: "1g.5gb"
    start: int | None = None  # of an instance: its first memory slice, and how many it takes
    size: int | None = None
    mig: bool = False  # of a GPU in MIG mode: its instances are used, not the whole
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Of a GPU or a MIG instance. What only the whole GPU has (power, heat, clocks, energy) is None on an instance: see its parent."""

    uuid: str
    at: datetime
    utilisation: float | None = None  # 0 to 1: the part of the time in which anything ran; of an instance: how busy its SMs were
    memory_used_bytes: int | None = None
    simulated: bool = False
    memory_total_bytes: int | None = None
    memory_utilisation: float | None = None  # 0 to 1: the part of the time in which its memory was read or written
    sm_active: float | None = None  # 0 to 1, as are the next three: by GPM, on Hopper and later
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None  # since the driver was loaded
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    slowdown_c: float | None = None  # from here on the GPU slows down to save itself
    fan: float | None = None  # 0 to 1
    sm_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    throttled_by: tuple[str, ...] | None = None  # (): by nothing. Words of THROTTLE_WORDS
    ecc_corrected: int | None = None  # since the driver was loaded
    ecc_uncorrected: int | None = None
    remapped_corrected: int | None = None  # rows of memory replaced, for good
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None  # a reset would replace a row
    remap_failed: bool | None = None  # no spare rows are left: the card should go back to its maker
    pcie_sent_bytes: int | None = None  # counters of the link, as seen from the GPU
    pcie_received_bytes: int | None = None
    processes_known: bool = True  # False: who is on it could not be read, so it must not look idle


THROTTLE_WORDS = ("power cap", "hardware slowdown", "sync boost", "software heat", "hardware heat", "power brake", "display clocks")


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one device, by its PID on the host."""

    pid: int
    uuid: str  # of the device it is on: the MIG instance, where there is one
    memory_bytes: int | None = None
    utilisation: float | None = None  # 0 to 1: of the SMs' time; None under MIG, where nobody counts it
    memory_utilisation: float | None = None  # 0 to 1: of the time in which it read or wrote memory
    kind: str = "compute"  # or "graphics"


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver reported of a GPU."""

    uuid: str
    code: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LostGpu:
    """A GPU that is there and does not answer: it fell off the bus, or its driver gave up on it."""

    index: int
    uuid: str | None  # as it was when it was last seen; None: never seen
    why: str


@dataclass(frozen=True, slots=True)
class GpuSample:
    """All that was read of one machine's GPUs at one time."""

    at: datetime
    devices: tuple[GpuDevice, ...] = ()  # GPUs by index, each followed by its instances
    readings: tuple[GpuReading, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    xids: tuple[Xid, ...] = ()  # since the sample before
    lost: tuple[LostGpu, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None  # the highest CUDA version that the driver takes
    took_s: float | None = None  # how long the reading itself took
