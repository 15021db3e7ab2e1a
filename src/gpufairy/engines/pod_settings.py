"""What an admin chose for sessions that are pods: where they go, what they find there, and by which names the cluster gives out GPUs."""
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpufairy.engines.registry.logins import NO_LOGINS, RegistryAccess


class ToolsBy(StrEnum):
    """How /opt/fairy comes into a pod."""

    AUTO = "auto"  # by a volume where the API server takes one, else copied
    VOLUME = "volume"  # the image itself, mounted: nothing is copied. Kubernetes 1.33 or later, with the gate ImageVolume
    COPY = "copy"  # by an init container, into a folder of the pod


class FractionsBy(StrEnum):
    """Who gives out parts of GPUs."""

    AUTO = "auto"  # DRA where our agents offer GPUs by it, else nobody
    DRA = "dra"
    HAMI = "hami"  # by extended resources for memory and cores
    REPLICAS = "replicas"  # by an extended resource that stands for an equal part of a GPU, as NVIDIA's device plugin has it for MPS
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GpuNames:
    """Of extended resources, as the cluster's device plugins have them."""

    whole: str = "nvidia.com/gpu"
    mig: str = "nvidia.com/mig-{profile}"
    fractions: FractionsBy = FractionsBy.AUTO
    memory: str = "nvidia.com/gpumem"  # HAMi's, in MiB
    cores: str = "nvidia.com/gpucores"  # HAMi's, in percent
    replica: str = "nvidia.com/gpu.shared"
    replicas: int = 4  # of one GPU
    driver: str = "gpu.fairy"  # of our own agents, by DRA; the device class has the same name


@dataclass(frozen=True, slots=True)
class HomeClaims:
    """Homes are claims, one for each user."""

    storage_class: str = ""  # empty: the cluster's default
    size: str = "50Gi"
    one_node: bool = False  # ReadWriteOnce: all sessions of a user run on the node that has their home


@dataclass(frozen=True, slots=True)
class ClaimFolder:
    """A folder that the admin lets sessions mount by its name: a claim in the sessions' namespace."""

    claim: str
    path: str = ""  # in it
    writable: bool = False


@dataclass(frozen=True, slots=True)
class PodSettings:
    namespace: str = "gpufairy"
    namespace_for_each_team: bool = False  # NAMESPACE-TEAM
    default_image: str = "ubuntu:24.04"
    tools_image: str = ""  # gpufairy-tools: what sessions find at /opt/fairy
    tools_by: ToolsBy = ToolsBy.AUTO
    server_url: str = ""  # as pods reach it
    homes: HomeClaims | None = None  # None: a home lasts as long as its session
    shared_claim: str = ""  # /shared, read-only
    folders: Mapping[str, ClaimFolder] = field(default_factory=dict)
    gpus: GpuNames = GpuNames()
    labels: Mapping[str, str] = field(default_factory=dict)  # on every session's pod: the queue of Kueue, for example
    tolerations: tuple[Mapping[str, str], ...] = ({"key": "nvidia.com/gpu", "operator": "Exists"},)
    runtime_class: str = ""
    pull_secret: str = ""
    pull_policy: str = "IfNotPresent"
    pool_label: str = "role"  # nodes of a pool have it, with the pool's name
    node_selector: str = ""  # sessions go to nodes with these labels alone; empty: to any that takes them
    registry: str = ""  # HOST/PREFIX: where images made of sessions are put, and nothing else is; empty: none are made
    registry_access: RegistryAccess = NO_LOGINS
    commit_most_bytes: int = 50 * 2**30  # of what one session may have changed outside of its home
    pids: int = 4096  # said to users only: the kubelet's own setting (podPidsLimit) holds it
