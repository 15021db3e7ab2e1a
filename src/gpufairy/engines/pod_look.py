"""A pod of an image that is only looked into: nobody's home, no token, no privileges. It is removed after the look, or goes by itself.

It runs as nobody. Its network is that of sessions: Kubernetes has no pod without one.
"""
import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from gpufairy.core.errors import EngineRefused, FairyError
from gpufairy.engines.docker_spec import PORTER
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.exec import STDERR, STDOUT, exec_channel
from gpufairy.engines.pod_doors import STEP
from gpufairy.engines.pod_seen import PodSeen, slim_pod
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pod_spec import FILES_OF, MAIN, ROLE, confinement, no_privileges, on_node, tools_container, tools_volume

LOOK_ROLE = "look"
NOBODY = 65_534
READY_S, LOOK_S = 120.0, 0.1  # an image that the node has starts in seconds; one that it must fetch first may not
RUN_S, IDLE_S = 120.0, 60
MOST_PRINTED = 16 * 2**20

log = logging.getLogger(__name__)


class LookPods:
    def __init__(self, api: KubeApi, settings: PodSettings, server_id: str) -> None:
        self._api, self._settings, self._server_id = api, settings, server_id
        self.tools_by = settings.tools_by

    @asynccontextmanager
    async def opened(self, image: str, node: str) -> AsyncIterator[PodSeen]:
        """`node`: one that has the image; empty: any. Raises EngineRefused, EngineSilent."""
        name, path = f"look-{secrets.token_hex(6)}", f"/api/v1/namespaces/{self._settings.namespace}/pods"
        made = slim_pod(await self._api.create(path, self._body(name, image, node)))
        try:
            yield await self._running(made, image)
        finally:
            with suppress(FairyError):  # it leaves by itself
                await self._api.delete(made.path, grace_s=0, uid=made.uid)

    async def remove_left(self) -> None:
        """What a server left that died while it looked."""
        chosen = f"{ROLE}={LOOK_ROLE},{FILES_OF}={self._server_id}"
        try:
            async for told in self._api.list(f"/api/v1/namespaces/{self._settings.namespace}/pods", labels=chosen):
                pod = slim_pod(told)
                await self._api.delete(pod.path, grace_s=0, uid=pod.uid)
        except FairyError as error:  # the next start tries again
            log.warning("pods that images were looked into with are not removed: %s %s", error, error.next_step)

    async def _running(self, pod: PodSeen, image: str) -> PodSeen:
        for _ in range(round(READY_S / LOOK_S)):
            found = slim_pod(await self._api.get(pod.path))
            if found.running_since is not None:
                return found
            if found.refused or found.over:
                break
            await asyncio.sleep(LOOK_S)
        words = found.waiting_words or found.message or found.scheduled or "it did not start"
        raise EngineRefused(f"image {image} could not be looked into: {words}")

    def _body(self, name: str, image: str, node: str) -> dict[str, Any]:
        settings, limits = self._settings, {"cpu": "1", "memory": "512Mi"}
        main = {
            "name": MAIN, "image": image, "imagePullPolicy": settings.pull_policy,
            "command": [PORTER, "--idle-exit", str(IDLE_S), "--workdir", "/"],
            "securityContext": {**no_privileges(), "readOnlyRootFilesystem": True},
            "resources": {"limits": limits, "requests": {"cpu": "10m", "memory": "32Mi"}},
            "volumeMounts": [{"name": "tools", "mountPath": "/opt/fairy", "readOnly": True}],
        }  # fmt: skip
        spec = {
            **confinement(NOBODY, settings), **tools_container(self.tools_by, settings),
            "tolerations": [dict(one) for one in settings.tolerations], **({"affinity": on_node(node)} if node else {}),
            "containers": [main], "volumes": [tools_volume(self.tools_by, settings)],
        }  # fmt: skip
        labels = {ROLE: LOOK_ROLE, FILES_OF: self._server_id}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def printed(api: KubeApi, pod: PodSeen, argv: Sequence[str], told: bytes = b"", most: int = MOST_PRINTED) -> bytes:
    """What a program in a pod prints, when it has read `told`. Raises EngineRefused for one that fails or says too much."""
    out, err = bytearray(), bytearray()
    words = [STEP, "--workdir", "/", "--", *argv]
    channel = await exec_channel(api, pod.namespace, pod.name, MAIN, words, terminal=False, stdin=bool(told))
    try:
        async with asyncio.timeout(RUN_S):
            if told:
                await channel.write(told)
            async for kind, data in channel:
                (out if kind == STDOUT else err).extend(data if kind in (STDOUT, STDERR) else b"")
                if len(out) + len(err) > most:
                    raise EngineRefused(f"{argv[0]} in pod {pod.name} says more than {most} bytes")
    except TimeoutError as error:
        raise EngineRefused(f"{argv[0]} in pod {pod.name} did not end within {RUN_S:g} s") from error
    finally:
        await channel.close()
    if channel.exit_code:
        raise EngineRefused(f"{argv[0]} in pod {pod.name} failed: {bytes(err[-300:]).decode('utf-8', 'replace').strip()}")
    return bytes(out)
