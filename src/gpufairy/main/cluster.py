"""The kubernetes engine as this server needs it: its way to the cluster, its folders, its settings."""
import os
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from gpufairy.core.errors import BadInput
from gpufairy.core.image import IMAGE_NAME, ImageRules
from gpufairy.core.image_reference import reference_of
from gpufairy.core.session import Session
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.nvml_words import kind_of
from gpufairy.engines.contract import Credentials
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube_gpus import KindsKnown
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.pod_settings import ClaimFolder, FractionsBy, GpuNames, HomeClaims, PodSettings, ToolsBy
from gpufairy.engines.registry.logins import RegistryAccess
from gpufairy.engines.run_folder import Places
from gpufairy.main.containers import server_id
from gpufairy.wire.config import Config
from gpufairy.wire.kubernetes_config import KubernetesConfig

ACCESS = ("many", "one", "none")
Word = TypeVar("Word", bound=StrEnum)


def kubernetes_engine(
    data: Path, config: Config, url: str, credentials: Callable[[Session], Credentials], uid_of: Callable[[str], int]
) -> KubernetesEngine:
    wanted = config.kubernetes
    access = load_access(Path(wanted.kubeconfig) if wanted.kubeconfig else None, wanted.context, os.environ)
    return KubernetesEngine(
        KubeApi(access), Places(data / "sessions"), credentials,
        uid_of=uid_of, settings=pod_settings(config, url), server_id=server_id(data),
        kubeconfig=wanted.kubeconfig or "", context=wanted.context or "", log_cap_bytes=config.log_cap_bytes,
        kinds=KindsKnown(kind_of, mig_tables()),
    )  # fmt: skip


def pod_settings(config: Config, url: str) -> PodSettings:
    """Raises BadInput."""
    wanted, gpus, homes = config.kubernetes, config.kubernetes.gpus, config.kubernetes.homes
    if homes.access not in ACCESS:
        raise BadInput(f"kubernetes.homes.access: found {homes.access[:40]!r}", f"Write one of {', '.join(ACCESS)}.")
    by = chosen(FractionsBy, gpus.fractions, "kubernetes.gpus.fractions")
    names = GpuNames(gpus.whole, gpus.mig, by, gpus.memory, gpus.cores, gpus.replica, gpus.replicas)
    return PodSettings(
        namespace=wanted.namespace, namespace_for_each_team=wanted.team_namespaces, default_image=config.images.default,
        tools_image=wanted.tools_image, tools_by=chosen(ToolsBy, wanted.tools, "kubernetes.tools"), server_url=wanted.server_url or url,
        homes=None if homes.access == "none" else HomeClaims(homes.storage_class, homes.size, one_node=homes.access == "one"),
        shared_claim=wanted.shared_claim,
        folders={name: ClaimFolder(folder.claim, folder.path, folder.write) for name, folder in wanted.folders.items()},
        gpus=names, labels=wanted.labels, tolerations=tuple({"key": key, "operator": "Exists"} for key in wanted.tolerate),
        runtime_class=wanted.runtime_class, pull_secret=wanted.pull_secret, pull_policy=wanted.pull_policy,
        pool_label=wanted.pool_label, node_selector=wanted.nodes,
        registry=registry_prefix(wanted.registry), registry_access=registry_access(wanted),
        commit_most_bytes=config.to_image_rules().commit_quota_bytes,
    )  # fmt: skip


def image_rules(config: Config, engine: str) -> ImageRules:
    """Nobody is root in a pod, whatever the settings say: Pod Security "restricted" forbids it."""
    rules = config.to_image_rules()
    return replace(rules, root=()) if engine == KubernetesEngine.name else rules


def registry_prefix(text: str) -> str:
    """Raises BadInput. Without a prefix, what others put into that registry could be taken for ours."""
    if not text:
        return ""
    found = reference_of(f"{text}/image")
    has_both = found.host == text.partition("/")[0] and "/" in found.repository
    if not IMAGE_NAME.fullmatch(f"{text}/image") or not has_both or "@" in text:
        raise BadInput(f"kubernetes.registry: found {text[:80]!r}", 'Write a registry and a prefix in it: "registry.lab:5000/fairy".')
    return text


def registry_access(wanted: KubernetesConfig) -> RegistryAccess:
    plain = (reference_of(f"{wanted.registry}/image").host,) if wanted.registry and wanted.registry_http else ()
    return RegistryAccess(Path(wanted.registry_logins) if wanted.registry_logins else None, plain)


def chosen(of: type[Word], text: str, what: str) -> Word:
    """One of its words. Raises BadInput."""
    if text not in set(of):
        raise BadInput(f"{what}: found {text[:40]!r}", f"Write one of {', '.join(of)}.")
    return of(text)
