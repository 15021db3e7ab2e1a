"""A small pod with a user's home and nothing else, for SFTP and results when no session runs. It leaves by itself when it is unused."""
import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.core.result_file import ResultBytes, ResultFile, ResultFiles
from gpufairy.engines.contract import Door
from gpufairy.engines.docker_facts import TOOLS_SHELL
from gpufairy.engines.docker_spec import PORTER
from gpufairy.engines.homes import check_uid
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.kube.exec import STDOUT, exec_channel
from gpufairy.engines.pod_claims import HomeMaker, claim_name
from gpufairy.engines.pod_doors import STEP
from gpufairy.engines.pod_seen import PodSeen, slim_pod
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pod_spec import (
    FILES_OF,
    FILES_ROLE,
    MAIN,
    OWNER,
    RESULTS_BELOW,
    ROLE,
    asked_mount,
    claim_volume,
    confinement,
    label_value,
    no_privileges,
)
from gpufairy.engines.result_folder import not_there

IDLE_S = 120
CONFLICT, NOT_FOUND = 409, 404
READY_S, LOOK_S = 60.0, 0.05
INSIDE = ("/opt/fairy/bin/python3", "-I", "-m", "gpufairy.engines.results_inside")  # -I: nothing of the user's is imported


class FilesPods:
    def __init__(
        self, api: KubeApi, settings: PodSettings, homes: HomeMaker, server_id: str, door: Callable[[PodSeen, str, str], Door]
    ) -> None:
        self._api, self._settings, self._homes, self._server_id, self._door = api, settings, homes, server_id, door
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.idle_s = IDLE_S  # without anybody in it, before it leaves

    async def door(self, owner: str, uid: int) -> Door:
        return self._door(await self._running(owner, uid), f"/home/{owner}", TOOLS_SHELL)

    async def results(self, owner: str, uid: int, run: str) -> AsyncIterator[bytes]:
        """A tar stream; empty when nothing was written."""
        async for chunk in self._inside(owner, uid, "tar", run):
            yield chunk

    async def result_files(self, owner: str, uid: int, run: str, most: int) -> ResultFiles:
        text = b"".join([chunk async for chunk in self._inside(owner, uid, "list", run, str(most))])
        if not text:
            return ResultFiles()
        told = json.loads(text)
        named = tuple(ResultFile(str(one["path"]), int(one["size_bytes"])) for one in told["named"])
        return ResultFiles(named, int(told["count"]), int(told["size_bytes"]), bool(told["whole"]))

    async def result_file(self, owner: str, uid: int, run: str, path: str) -> ResultBytes:
        chunks = self._inside(owner, uid, "read", run, path)
        first = b""
        while b"\n" not in first:
            more = await anext(chunks, b"")
            first += more or b"\n"
        size, _, rest = first.partition(b"\n")
        if not size.isdigit():
            raise not_there(path)
        return ResultBytes(int(size), with_first(rest, chunks))

    async def _inside(self, owner: str, uid: int, what: str, run: str, *more: str) -> AsyncIterator[bytes]:
        """Read inside, with the owner's own rights: no link of theirs leads the server anywhere."""
        if self._settings.homes is None:
            return
        pod = await self._running(owner, uid)
        argv = [STEP, "--workdir", "/", "--", *INSIDE, what, f"/home/{owner}/{RESULTS_BELOW}", run, *more]
        channel = await exec_channel(self._api, pod.namespace, pod.name, MAIN, argv, terminal=False, stdin=False)
        try:
            async for kind, data in channel:
                if kind == STDOUT:
                    yield data
        finally:
            await channel.close()

    async def _running(self, owner: str, uid: int) -> PodSeen:
        check_uid(owner, uid)
        namespace = self._settings.namespace
        name = f"files-{claim_name(owner, uid)}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        async with self._locks[owner]:
            home = await self._homes.claim(namespace, owner, uid)
            for _ in range(round(READY_S / LOOK_S)):
                found = await self._found(f"{path}/{name}")
                if found is not None and found.running_since is not None and not found.leaving:
                    return found
                if found is not None and found.over and not found.leaving:
                    await self._api.delete(found.path, grace_s=0, uid=found.uid)
                elif found is None:
                    await self._make(path, self._body(name, owner, uid, home))
                await asyncio.sleep(LOOK_S)
        next_step = f"See `kubectl describe pod -n {namespace} {name}`."
        raise EngineRefused(f"the pod for the files of {owner} does not come up within {READY_S:g} s", next_step)

    async def _found(self, path: str) -> PodSeen | None:
        try:
            return slim_pod(await self._api.get(path))
        except KubeRefused as error:
            if error.status != NOT_FOUND:
                raise
            return None

    async def _make(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self._api.create(path, body)
        except KubeRefused as error:
            if error.status != CONFLICT:
                raise

    def _body(self, name: str, owner: str, uid: int, home: str | None) -> dict[str, Any]:
        settings, shared = self._settings, bool(self._settings.shared_claim)
        env = {"HOME": f"/home/{owner}", "USER": owner, "LOGNAME": owner, "SHELL": TOOLS_SHELL, "PATH": "/opt/fairy/bin", "LANG": "C.UTF-8"}
        folders = settings.folders.items()
        mounts = [
            {"name": "home", "mountPath": f"/home/{owner}"},
            *([{"name": "shared", "mountPath": "/shared", "readOnly": True}] if shared else []),
            *(asked_mount(key, settings.folders) for key in settings.folders),
        ]
        volumes = [
            claim_volume("home", home) if home else {"name": "home", "emptyDir": {}},
            *([claim_volume("shared", settings.shared_claim, read_only=True)] if shared else []),
            *(claim_volume(f"folder-{key}"[:63], one.claim, read_only=not one.writable) for key, one in folders),
        ]
        limits = {"cpu": "1", "memory": "512Mi"}
        main = {
            "name": MAIN, "image": settings.tools_image, "imagePullPolicy": settings.pull_policy,
            "command": [PORTER, "--idle-exit", str(self.idle_s), "--workdir", f"/home/{owner}"],
            "env": [{"name": key, "value": value} for key, value in env.items()], "securityContext": no_privileges(),
            "resources": {"limits": limits, "requests": {"cpu": "10m", "memory": "32Mi"}}, "volumeMounts": mounts,
        }  # fmt: skip
        labels = {ROLE: FILES_ROLE, FILES_OF: self._server_id, OWNER: label_value(owner)}
        spec = {**confinement(uid, settings), "hostname": "files", "containers": [main], "volumes": volumes}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def with_first(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for chunk in chunks:
        yield chunk
