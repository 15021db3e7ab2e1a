"""[kubernetes] of fairy.toml: sessions as pods of a cluster."""
from typing import Annotated

from pydantic import Field

from gpufairy.wire.read import Strict


class KubeHomesConfig(Strict):
    """Users' homes: a claim for each."""

    storage_class: str = ""  # of the claims; empty: the cluster's default
    size: str = "50Gi"
    # "many": sessions of a user on any nodes (ReadWriteMany); "one": all on the node that has their home; "none": no homes
    access: str = "many"


class KubeGpusConfig(Strict):
    """By which names the cluster gives out GPUs."""

    whole: str = "nvidia.com/gpu"
    mig: str = "nvidia.com/mig-{profile}"
    fractions: str = "auto"  # parts of GPUs: "dra" by our agents, "hami", "replicas" of NVIDIA's device plugin, "none"; auto: dra, if there
    memory: str = "nvidia.com/gpumem"  # HAMi's, in MiB
    cores: str = "nvidia.com/gpucores"  # HAMi's, in percent
    replica: str = "nvidia.com/gpu.shared"  # of NVIDIA's device plugin
    replicas: Annotated[int, Field(ge=2, le=48)] = 4  # of one GPU


class KubeFolderConfig(Strict):
    """A claim in the sessions' namespace that sessions may mount by its name, at /mnt/NAME."""

    claim: str
    path: str = ""  # in it
    write: bool = False


class KubernetesConfig(Strict):
    """Sessions as pods: with --engine kubernetes."""

    kubeconfig: str | None = None  # None: as kubectl finds its own, or the service account of the pod that this runs in
    context: str | None = None  # of the kubeconfig; None: its current one
    namespace: str = "gpufairy"  # of sessions; it must be there
    team_namespaces: bool = False  # a namespace for each team: NAMESPACE-TEAM
    server_url: str | None = None  # how pods reach this server; None: as people do
    tools_image: str = "gpufairy-tools:latest"  # what sessions find at /opt/fairy
    tools: str = "auto"  # how it comes there: "volume" (an image volume), "copy" (an init container), auto
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""  # of a registry that asks for one
    registry: str = ""  # HOST/PREFIX that is gpufairy's own: where images made of sessions are put; empty: none are made
    registry_logins: str = ""  # a file as `docker login` writes it, for that registry and those that images come from
    registry_http: bool = False  # that registry is spoken to without TLS; on loopback it always is
    runtime_class: str = ""
    homes: KubeHomesConfig = KubeHomesConfig()
    shared_claim: str = ""  # /shared in every session, read-only
    folders: Annotated[dict[str, KubeFolderConfig], Field(max_length=100)] = {}  # noqa: RUF012
    gpus: KubeGpusConfig = KubeGpusConfig()
    labels: Annotated[dict[str, str], Field(max_length=50)] = {}  # noqa: RUF012 - on every session's pod: "kueue.x-k8s.io/queue-name"
    tolerate: Annotated[list[str], Field(max_length=50)] = ["nvidia.com/gpu"]  # noqa: RUF012 - keys of taints that sessions may ignore
    nodes: str = ""  # sessions go to nodes with these labels alone: "gpufairy.io/sessions=yes"; empty: to all
    pool_label: str = "role"  # nodes of a pool have it, with the pool's name
