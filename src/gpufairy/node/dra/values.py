"""What is said of GPUs that the cluster hands out by DRA: what this node offers, what a claim was granted of it."""
from dataclasses import dataclass

DRIVER = "gpu.fairy"  # the device class has the same name
MIB = 2**20
ALL_CORES = 100  # percent


@dataclass(frozen=True, slots=True)
class Offer:
    """A device: a GPU, of which several claims may have parts, or a MIG instance, which one claim has whole."""

    name: str  # as the cluster calls it
    uuid: str  # GPU-… or MIG-…
    index: int  # of the GPU
    kind: str
    memory_mib: int
    parent: str = ""  # of an instance: the GPU it was cut from, and that one's memory
    parent_memory_mib: int = 0
    profile: str = ""
    start: int = 0
    size: int = 0

    @property
    def is_instance(self) -> bool:
        return bool(self.parent)

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * MIB


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str

    @property
    def words(self) -> str:
        return f"claim {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Part:
    """Of one device, for one request of a claim, as the scheduler allotted it."""

    request: str
    pool: str
    device: str  # its name
    share: str  # Kubernetes' own id of it; empty where a device is not shared
    memory_bytes: int
    cores: int  # percent
    vendor: str = ""  # the CDI device, by its full name, that brings in the GPU itself


@dataclass(frozen=True, slots=True)
class Grant:
    """What one claim has. However many containers and pods use the claim, they have this together."""

    claim: Asked
    parts: tuple[Part, ...]
    pods: tuple[str, ...] = ()  # uids of those that it was reserved for when it was made ready

    def of(self, device: str) -> tuple[int, int]:
        """Bytes and percents of it."""
        mine = [part for part in self.parts if part.device == device]
        return sum(part.memory_bytes for part in mine), sum(part.cores for part in mine)
