"""What the doctor's look found, as plain values. Every default means "not known": whoever looked in vain leaves it so."""
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from gpufairy.core.doctor_os import Os


class Nvml(StrEnum):
    """How the driver's library answered."""

    NOT_ASKED = "not asked"
    ANSWERED = "answered"
    NO_LIBRARY = "no library"
    FAILED = "failed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class GpuFact:
    index: int
    uuid: str
    persistent: bool | None = None
    compute_mode: int | None = None
    mig: bool | None = None  # None: it has none, or does not tell
    mig_pending: bool | None = None  # what it is after the next reset
    instances: tuple[str, ...] = ()  # UUIDs
    pids: tuple[int, ...] = ()
    lost: str = ""  # why it does not answer


@dataclass(frozen=True, slots=True)
class GpuFacts:
    on_bus: int | None = None  # NVIDIA's GPUs on the PCI bus
    module: str | None = None  # version of the kernel module that is loaded; empty: none is
    nouveau: bool | None = None
    nvml: Nvml = Nvml.NOT_ASKED
    nvml_trouble: str = ""
    driver: str | None = None
    gpus: tuple[GpuFact, ...] = ()
    caps: int | None = None  # files in /dev/nvidia-caps
    char_links: bool | None = None  # /dev/char has links to NVIDIA's devices
    in_container: bool = False


@dataclass(frozen=True, slots=True)
class MpsFacts:
    program: bool | None = None  # nvidia-cuda-mps-control is there
    live: tuple[str, ...] = ()  # GPUs whose daemon runs, by UUID
    left_over: tuple[str, ...] = ()  # GPUs with pipes of a daemon that is gone
    exclusive_kept: tuple[str, ...] = ()  # GPUs whose former compute mode we wrote down and did not put back


@dataclass(frozen=True, slots=True)
class EngineFacts:
    name: str | None = None  # docker or podman; empty: none answers
    socket: str = ""
    trouble: str = ""
    version: str = ""
    cgroup_driver: str = ""
    live_restore: bool | None = None
    cdi_on: bool | None = None
    runc: str | None = None  # its version; empty: there is none
    runc_mended: frozenset[str] = frozenset()  # CVEs that the changelog of its package names
    toolkit: str | None = None  # version of NVIDIA's container toolkit; empty: it is not there
    toolkit_mended: frozenset[str] = frozenset()
    cdi_names: frozenset[str] | None = None  # devices that CDI files name
    cdi_files: tuple[str, ...] = ()
    cgroups: int | None = None  # 1 or 2
    controllers: frozenset[str] | None = None
    nft: bool | None = None


class PortState(StrEnum):
    FREE = "free"
    OURS = "ours"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class PortFact:
    port: int
    state: PortState
    by: str = ""  # "sshd (process 812)"
    asked: bool = False  # that very port is set, so the next one is not taken in its place


class Base(StrEnum):
    """The database, as a quick look found it."""

    SOUND = "sound"
    DAMAGED = "damaged"
    ABSENT = "absent"
    ELSEWHERE = "elsewhere"  # PostgreSQL
    UNREADABLE = "unreadable"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The data folder and what lies in it."""

    folder: str = ""
    there: bool | None = None
    owner: int | None = None  # uid
    mode: int | None = None
    parent_writable: bool | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    free_inodes: int | None = None
    total_inodes: int | None = None
    file_system: str = ""
    kernel_quotas: bool | None = None  # whether the kernel can count by project there; None: not known
    mount_point: str = ""
    mount_options: frozenset[str] = frozenset()
    base: Base | None = None
    base_words: str = ""
    open_files: tuple[str, ...] | None = None  # secrets of ours that others may read
    host_keys: int | None = None
    share_library: bool | None = None  # it loads; None: it is not made yet, or not known
    share_trouble: str = ""
    compiler: bool | None = None
    backup_age: timedelta | None = None
    backups_kept: bool = False  # somebody wrote down when the last one was


@dataclass(frozen=True, slots=True)
class HostFacts:
    python: tuple[int, int] | None = None
    uid: int | None = None
    clock_synced: bool | None = None
    clock_skew: timedelta | None = None  # of the server against ours
    wrong_clocks: tuple[str, ...] = ()  # hosts with agents, "gpu02 (12 minutes behind)"
    name: str = ""
    name_resolves: bool | None = None
    url_name: str = ""  # of the server's address; empty: not known
    url_resolves: bool | None = None
    http: PortFact | None = None
    ssh: PortFact | None = None
    ssh_off: bool = False  # the settings want no gateway
    hidepid: str = ""  # "2", "invisible"; empty: processes of others are seen
    hosts_pids: bool | None = None  # we are in the host's PID namespace
    pids_match: bool | None = None  # numbers that the driver tells are those of /proc here
    strange_pids: int | None = None  # that the driver told and /proc does not have
    server: str = ""  # the server that this command is signed in to; empty: none
    server_trouble: str = ""
    server_runs_here: bool = False


@dataclass(frozen=True, slots=True)
class MetricsFacts:
    exporter: str = ""  # the address that was asked
    status: int | None = None  # of HTTP; None: nobody answers there
    words: str = ""  # of an answer that is no page
    collectors: tuple[tuple[str, bool], ...] = ()  # by name: did it succeed
    folder: str = ""  # node-exporter's textfile folder that there is; empty: none
    folder_writable: bool | None = None
    file_age: timedelta | None = None  # of gpu_sessions.prom; None: it is not there
    node_exporter: bool | None = None
    scrape_error: bool | None = None  # node-exporter could not read a file there
    prometheus: str = ""
    prometheus_answers: bool | None = None
    scraped: bool | None = None  # one of its targets is ours
    scrape_trouble: str = ""


class Kube(StrEnum):
    NOT_ASKED = "not asked"
    ABSENT = "absent"  # no way to a cluster is known here
    SILENT = "silent"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class KubeFacts:
    state: Kube = Kube.NOT_ASKED
    words: str = ""  # where, or why not
    in_use: bool = False  # sessions are pods
    version: tuple[int, int] | None = None
    namespace: str = ""
    namespace_there: bool | None = None
    account: str = ""  # system:serviceaccount:NAMESPACE:NAME
    denied: tuple["Right", ...] | None = None
    pod_security: str | None = None  # what the namespace enforces; empty: nothing
    storage_classes: tuple[str, ...] | None = None
    default_class: str = ""
    wanted_class: str = ""
    homes: bool = True
    gpu_resources: tuple[str, ...] | None = None  # that nodes offer
    dra_gpus: int | None = None  # slices of our driver
    dra_trouble: str | None = None  # empty: none
    agents: tuple[int, int] | None = None  # of ours: ready, all


@dataclass(frozen=True, slots=True)
class Right:
    verb: str
    resource: str  # pods, or pods/exec
    group: str = ""
    everywhere: bool = False

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True, slots=True)
class Facts:
    os: Os = field(default_factory=Os)
    gpu: GpuFacts = GpuFacts()
    mps: MpsFacts = MpsFacts()
    engine: EngineFacts = EngineFacts()
    data: DataFacts = DataFacts()
    host: HostFacts = HostFacts()
    metrics: MetricsFacts = MetricsFacts()
    kube: KubeFacts = KubeFacts()
