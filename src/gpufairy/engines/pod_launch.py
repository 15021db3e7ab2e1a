"""A session's pod made, once: its Secret and its GPU claim first, under the pod's own name, so that whatever is left half made is found."""
import asyncio
import contextlib
import logging
from collections.abc import Callable, Container, Iterable
from datetime import datetime, timedelta
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.errors import EngineRefused, FairyError
from gpufairy.core.session import Request, Session
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.engines.contract import Credentials
from gpufairy.engines.docker_launch import check_length, check_names
from gpufairy.engines.homes import LEAST_UID, check_uid
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.pod_claims import HomeMaker
from gpufairy.engines.pod_gpus import claim_body
from gpufairy.engines.pod_seen import PodSeen, slim_pod
from gpufairy.engines.pod_settings import PodSettings, ToolsBy
from gpufairy.engines.pod_spec import (
    MAIN,
    SERVER,
    Here,
    asked_mount,
    confinement,
    labels,
    namespace_of,
    no_privileges,
    pod_body,
    pod_name,
    secret_body,
)

CONFLICT, NOT_FOUND = 409, 404
GONE_WITHIN_S, LOOK_S = 20.0, 0.1
ORPHAN_AFTER = timedelta(minutes=10)  # longer than any launch takes
NO_RIGHT = "cannot create resource"  # RBAC's words; a full quota, for one, is a 403 too
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"

log = logging.getLogger(__name__)


class PodLauncher:
    def __init__(
        self, api: KubeApi, settings: PodSettings, homes: HomeMaker, credentials: Callable[[Session], Credentials], server_id: str
    ) -> None:
        self._api, self._settings, self._homes, self._credentials, self._server_id = api, settings, homes, credentials, server_id
        self.tools_by = settings.tools_by
        self.coming: Callable[[str], str | None] = lambda _: None  # the pool of a node that is not there yet, by its name

    def check(self, request: Request) -> None:
        """Raises EngineRefused for what can never be done here."""
        for wanted in request.mounts:
            asked_mount(wanted, self._settings.folders)

    async def launch(self, session: Session, uid: int) -> PodSeen:
        check_names(session)
        check_length(session)
        check_uid(session.owner, uid)
        namespace = namespace_of(session, self._settings)
        home = await self._homes.claim(namespace, session.owner, uid)
        failpoints.passing("after_home_claim_before_secret")
        pool = None if session.seat is None else self.coming(session.seat.node)
        here = Here(uid, self._server_id, self.tools_by, home, pool)
        body = pod_body(session, here, self._settings)  # before anything is made: it may be refused
        secret = secret_body(session, here, self._settings, self._credentials(session).token)
        claim = claim_body(session, self._settings.gpus, pod_name(session), labels(session, self._server_id, self._settings))
        await self._put(f"/api/v1/namespaces/{namespace}/secrets", secret)
        if claim is not None:
            await self._put(CLAIMS.format(namespace), claim)
        failpoints.passing("after_secret_before_pod")
        made = await self._made(session, namespace, body)
        failpoints.passing("after_pod_create_before_told")
        if claim is not None:
            await self._own(made, CLAIMS.format(namespace), claim)
        return made

    async def _put(self, path: str, body: dict[str, Any]) -> None:
        """What is there under that name is of this very attempt."""
        try:
            await self._api.create(path, body)
        except KubeRefused as error:
            if error.status != CONFLICT:
                raise

    async def _made(self, session: Session, namespace: str, body: dict[str, Any]) -> PodSeen:
        path = f"/api/v1/namespaces/{namespace}/pods"
        for _ in range(round(GONE_WITHIN_S / LOOK_S)):
            try:
                return slim_pod(await self._api.create(path, body))
            except KubeRefused as error:
                if error.status != CONFLICT:
                    with contextlib.suppress(FairyError):  # what is left is removed at the next start
                        await self.remove_parts(namespace, pod_name(session))
                    raise
            found = await self._found(f"{path}/{pod_name(session)}")
            if found is not None and found.id == workload_id(session) and not found.leaving and not found.refused:
                return found  # the answer to its create was lost
            if found is not None and not found.leaving:
                await self._api.delete(found.path, grace_s=end_grace_s(found), uid=found.uid)
            await asyncio.sleep(LOOK_S)
        next_step = f"See `kubectl describe pod -n {namespace} {pod_name(session)}`."
        raise EngineRefused(f"an old pod {namespace}/{pod_name(session)} does not go", next_step)

    async def _found(self, path: str) -> PodSeen | None:
        try:
            return slim_pod(await self._api.get(path))
        except KubeRefused as error:
            if error.status != NOT_FOUND:
                raise
            return None

    async def _own(self, pod: PodSeen, path: str, part: dict[str, Any]) -> None:
        """Kubernetes itself removes it with the pod from now on: nobody else's GPU waits for our server. If this is not done, whoever
        clears the session does, as they do its secret.

        One that was an old pod's of that name may have gone with that pod since: it is made anew."""
        owned = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}]}
        try:
            await self._api.patch(f"{path}/{pod.name}", {"metadata": owned})
        except KubeRefused as error:
            if error.status == NOT_FOUND:
                await self._put(path, {**part, "metadata": {**part["metadata"], **owned}})
            else:
                log.warning("pod %s: %s", pod.name, error)

    async def remove_parts(self, namespace: str, name: str) -> None:
        await self._api.delete(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        await self._api.delete(f"{CLAIMS.format(namespace)}/{name}")

    async def remove(self, pod: PodSeen) -> None:
        await self._api.delete(pod.path, grace_s=end_grace_s(pod), uid=pod.uid)
        failpoints.passing("after_pod_remove_before_secret")
        await self._api.delete(f"/api/v1/namespaces/{pod.namespace}/secrets/{pod.name}")
        if pod.claims_gpus:
            await self._api.delete(f"{CLAIMS.format(pod.namespace)}/{pod.name}")

    async def remove_orphans(self, pods: Iterable[PodSeen], now: datetime) -> None:
        """Secrets of pods that were never made: a server that died left them. A young one is of a launch that is under way."""
        there = list(pods)
        for namespace in sorted({self._settings.namespace, *(pod.namespace for pod in there), *await self._team_namespaces()}):
            try:
                await self._remove_orphans_in(namespace, {pod.id for pod in there}, now)
            except FairyError as error:  # the next start tries again; the other namespaces are looked at all the same
                log.warning("what a server may have left half made in %s is not removed: %s %s", namespace, error, error.next_step)

    async def _remove_orphans_in(self, namespace: str, known: Container[WorkloadId | None], now: datetime) -> None:
        async for told in self._api.list(f"/api/v1/namespaces/{namespace}/secrets", labels=f"{SERVER}={self._server_id}"):
            found, owned = slim_pod(told), (told.get("metadata") or {}).get("ownerReferences")
            young = found.made_at is None or now - found.made_at < ORPHAN_AFTER
            if found.id is not None and found.id not in known and not owned and not young:
                await self.remove_parts(found.namespace, found.name)

    async def _team_namespaces(self) -> list[str]:
        """Also those in which no pod is: a server that died before a team's first pod was made left its secret in one. Those that only
        begin like ours have nothing with our label in them."""
        if not self._settings.namespace_for_each_team:
            return []
        begins = f"{self._settings.namespace}-"
        try:
            names = [str((told.get("metadata") or {}).get("name")) async for told in self._api.list("/api/v1/namespaces")]
        except FairyError as error:
            log.warning("what a server may have left half made for teams is not looked for: %s %s", error, error.next_step)
            return []
        return [name for name in names if name.startswith(begins)]


def end_grace_s(pod: PodSeen) -> int:
    """None for one whose container has ended. Where it only seems that it will never begin, its node may begin it at this very moment."""
    return 0 if pod.over else 1


async def tools_way(api: KubeApi, settings: PodSettings) -> ToolsBy:
    """Whether images can be mounted as volumes is tried: an API server whose gate is off drops the field, and then misses it."""
    if settings.tools_by is not ToolsBy.AUTO:
        return settings.tools_by
    tools = {"name": "tools", "image": {"reference": settings.tools_image, "pullPolicy": "Never"}}
    mount, little = {"name": "tools", "mountPath": "/opt/fairy"}, {"limits": {"cpu": "1m", "memory": "1Mi"}}
    main = {
        "name": MAIN, "image": settings.default_image, "volumeMounts": [mount], "securityContext": no_privileges(), "resources": little,
    }  # fmt: skip
    probe = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpufairy-probe"},
        "spec": {**confinement(LEAST_UID, settings), "containers": [main], "volumes": [tools]},
    }  # fmt: skip
    try:
        made = await api.create(f"/api/v1/namespaces/{settings.namespace}/pods", probe, dry_run=True)
    except KubeRefused as error:
        if error.status == NOT_FOUND or NO_RIGHT in error.message:  # a trouble of its own
            raise
        return ToolsBy.COPY  # a quota that is full, or a rule of the cluster's: no answer, and copying is possible everywhere
    return ToolsBy.VOLUME if "image" in (made["spec"].get("volumes") or [{}])[0] else ToolsBy.COPY
