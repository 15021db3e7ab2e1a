"""What the doctor finds of a cluster, as the server's account: asked and tried, nothing made. What may not be asked is not known."""
import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gpufairy.core.doctor_facts import Kube, KubeFacts, Right
from gpufairy.core.doctor_kube import RESTRICTED, needed_rights
from gpufairy.core.errors import BadInput
from gpufairy.engines.dra_check import dra_trouble
from gpufairy.engines.dra_gpus import DRIVER
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent

LOOK_S = 10.0
AT_ONCE = 8  # questions of rights on their way
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ENFORCE = "pod-security.kubernetes.io/enforce"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
AGENTS = "app.kubernetes.io/name=gpufairy,app.kubernetes.io/component=agent"
NOT_FOUND, FORBIDDEN = 404, 403
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KubeWanted:
    """As the settings have it."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = "gpufairy"
    storage_class: str = ""
    homes: bool = True
    in_use: bool = False  # sessions are pods


async def kube_facts(wanted: KubeWanted, env: Mapping[str, str], limit_s: float = LOOK_S) -> KubeFacts:
    from_settings = KubeFacts(in_use=wanted.in_use, namespace=wanted.namespace, wanted_class=wanted.storage_class, homes=wanted.homes)
    try:
        access = load_access(None if not wanted.kubeconfig else Path(wanted.kubeconfig), wanted.context or None, env)
    except BadInput as error:
        absent = "No way to a Kubernetes" in error.detail and not wanted.in_use
        return replace(from_settings, state=Kube.ABSENT if absent else Kube.SILENT, words=error.detail)
    try:
        async with asyncio.timeout(limit_s), KubeApi(access) as api:
            return await looked(api, replace(from_settings, words=access.words))
    except (KubeSilent, KubeRefused) as error:
        return replace(from_settings, state=Kube.SILENT, words=f"{access.words}: {error.detail}")
    except TimeoutError:
        return replace(from_settings, state=Kube.SILENT, words=f"{access.words}: no answer within {limit_s:g} s")


async def looked(api: KubeApi, found: KubeFacts) -> KubeFacts:
    version = await api.version()
    there, enforced = await namespace_of(api, found.namespace)
    found = replace(found, state=Kube.ANSWERS, version=version, namespace_there=there)
    if there is False:
        return found
    who, denied, classes = await asyncio.gather(account(api), denied_rights(api, found.namespace), told(storage_classes(api)))
    nodes, slices, trouble, agents = await asyncio.gather(
        told(gpu_resources(api)), told(own_slices(api)), told(dra_trouble(api, found.namespace)), told(agents_of(api))
    )
    if enforced is None:
        enforced = await tried_security(api, found.namespace)
    names, default = (None, "") if classes is None else classes
    return replace(
        found, account=who, denied=denied, pod_security=enforced, storage_classes=names, default_class=default, gpu_resources=nodes,
        dra_gpus=slices, dra_trouble=trouble, agents=agents,
    )  # fmt: skip


async def told(asked: Awaitable[T]) -> T | None:
    """None: it may not be asked for, or there is no such kind here."""
    try:
        return await asked
    except KubeRefused:
        return None


async def namespace_of(api: KubeApi, name: str) -> tuple[bool | None, str | None]:
    """Whether it is there, and what it enforces. None: the account may not look at it."""
    try:
        seen = await api.get(f"/api/v1/namespaces/{name}")
    except KubeRefused as error:
        return (False if error.status == NOT_FOUND else None), None
    return True, str((seen["metadata"].get("labels") or {}).get(ENFORCE, ""))


async def account(api: KubeApi) -> str:
    """Empty: it is not told, as before Kubernetes 1.28."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    seen = await told(api.create(WHO_AM_I, asked))
    return "" if seen is None else str(((seen.get("status") or {}).get("userInfo") or {}).get("username", ""))


async def denied_rights(api: KubeApi, namespace: str) -> tuple[Right, ...] | None:
    """None: it cannot be asked."""
    places, rights = asyncio.Semaphore(AT_ONCE), needed_rights(parts=False)

    async def has(right: Right) -> bool:
        async with places:
            return bool((await api.create(REVIEWS, review(right, namespace)))["status"]["allowed"])

    try:
        allowed = await asyncio.gather(*(has(right) for right in rights))
    except (KubeRefused, LookupError):
        return None
    return tuple(right for right, may in zip(rights, allowed, strict=True) if not may)


def review(right: Right, namespace: str) -> dict[str, Any]:
    kind, _, part = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": kind, **({"subresource": part} if part else {})}
    place = {} if right.everywhere else {"namespace": namespace}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {**asked, **place}}}


async def tried_security(api: KubeApi, namespace: str) -> str | None:
    """By a pod with more rights than a session has, which is never made: one that is refused for that shows that it is enforced."""
    try:
        await api.create(f"/api/v1/namespaces/{namespace}/pods", privileged_pod(), dry_run=True)
    except KubeRefused as error:
        return RESTRICTED if error.status == FORBIDDEN and RESTRICTED in error.message and "PodSecurity" in error.message else None
    return ""


def privileged_pod() -> dict[str, Any]:
    container = {"name": "probe", "image": "gpufairy-probe", "securityContext": {"runAsUser": 0}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpufairy-doctor-probe"}, "spec": {"containers": [container]}}


async def storage_classes(api: KubeApi) -> tuple[tuple[str, ...], str]:
    """All of them, and the default one."""
    seen = [one["metadata"] async for one in api.list("/apis/storage.k8s.io/v1/storageclasses")]
    default = [one["name"] for one in seen if (one.get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
    return tuple(sorted(one["name"] for one in seen)), default[0] if default else ""


async def gpu_resources(api: KubeApi) -> tuple[str, ...]:
    offered = [(one.get("status") or {}).get("allocatable") or {} async for one in api.list("/api/v1/nodes")]
    names = {name for node in offered for name, count in node.items() if str(count) != "0" and is_gpu(name)}
    return tuple(sorted(names))


def is_gpu(name: str) -> bool:
    return name.startswith("nvidia.com/") and ("gpu" in name or "mig-" in name)


async def own_slices(api: KubeApi) -> int:
    slices = [one async for one in api.list("/apis/resource.k8s.io/v1/resourceslices") if one["spec"].get("driver") == DRIVER]
    return sum(len(one["spec"].get("devices") or ()) for one in slices)


async def agents_of(api: KubeApi) -> tuple[int, int]:
    """Ready ones, and all."""
    pods = [one.get("status") or {} async for one in api.list("/api/v1/pods", labels=AGENTS)]
    ready = sum(any(part["type"] == "Ready" and part["status"] == "True" for part in pod.get("conditions") or ()) for pod in pods)
    return ready, len(pods)
