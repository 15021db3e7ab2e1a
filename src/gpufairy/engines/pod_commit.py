"""A session's pod made into an image in a registry: the image that it runs from, with one layer more.

The container runtime of a node could do it, but only for whoever may do anything on that node. So the session itself tells what it has
changed (layer_inside.py), as its owner and no more; the server makes the layer and sends it.
"""
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from gpufairy.core.errors import EngineRefused
from gpufairy.core.image_reference import Reference, reference_of
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.exec import STDERR, STDOUT, exec_channel
from gpufairy.engines.layer_file import Bounds, LayerFile
from gpufairy.engines.pod_doors import STEP
from gpufairy.engines.pod_look import LookPods, printed
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_spec import MAIN, labelled_session
from gpufairy.engines.registry.blobs import CHUNK, Blob, Repository
from gpufairy.engines.registry.build import Base, NewLayer, Pushed, push, read_base
from gpufairy.engines.registry.http import RegistryHttp

INSIDE = ("/opt/fairy/bin/python3", "-I", "-m", "gpufairy.engines.layer_inside")
OURS = ("opt/fairy", "run", "results", "shared", "tmp", "var/tmp", "dev", "proc", "sys")  # mounted, or nothing to keep
MOST_FOLDERS, LONGEST_FOLDERS = 1000, 64 * 2**10  # that are looked into for what is gone; they travel as words of a command
TELLING_S = 3600.0
MOST_AT_ONCE = 4  # each takes a part of the server's disk, and of a processor


@dataclass(frozen=True, slots=True)
class Committed:
    image: Reference  # with its digest
    size_bytes: int
    made_from: str  # as the pod has it
    node: str


class PodCommit:
    def __init__(self, api: KubeApi, http: RegistryHttp, looks: LookPods, folder: Path, architecture: Callable[[str], str]) -> None:
        self._api, self._http, self._looks, self._folder, self._architecture = api, http, looks, folder, architecture
        self.most_bytes = 50 * 2**30  # of what one session has changed
        self._of: set[str] = set()  # owners of those that are being made

    async def commit(self, pod: PodSeen, target: Reference) -> Committed:
        """Raises EngineRefused, EngineSilent. One at a time for each user: a session may take as long as it likes to tell of its files."""
        if pod.owner in self._of:
            raise EngineRefused(f"another image of a session of {pod.owner}'s is being made", "Wait until it is done.")
        if len(self._of) >= MOST_AT_ONCE:
            raise EngineRefused(f"{MOST_AT_ONCE} images are being made already", "Try again in some minutes.")
        self._of.add(pod.owner)
        try:
            return await self._committed(pod, target)
        finally:
            self._of.discard(pod.owner)

    async def _committed(self, pod: PodSeen, target: Reference) -> Committed:
        told = await self._api.get(pod.path)
        image = str(((told.get("spec") or {}).get("containers") or [{}])[0].get("image"))
        ran = image_id(told)
        base = await self._base(image, ran, self._architecture(pod.node))
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:  # without a name: nothing is left of it, whatever happens
                layer = await self._layer(pod, ran if "@" in ran else image, file)
                pushed = await self._pushed(base, layer, file, target)
        except OSError as error:
            raise EngineRefused(f"an image cannot be made in {self._folder}: {error}", "Tell an admin; nothing was changed.") from error
        return Committed(Reference(target.host, target.repository, target.tag, pushed.digest), pushed.size_bytes, image, pod.node)

    async def _base(self, image: str, ran: str, architecture: str) -> Base:
        """The very image that the session runs from, though its name may stand for another by now."""
        named, running = reference_of(image), reference_of(ran)
        digest = running.digest or named.digest
        repository = Repository(self._http, named.host, named.repository)
        base = await read_base(repository, digest or named.version, architecture)
        if base is None:
            raise EngineRefused(
                f"image {image}, which the session runs from, is not in registry {named.host}, so nothing can be built on it",
                "Have it pushed there, and start a session from it.",
            )  # fmt: skip
        if not digest and ran != base.config_digest:
            raise EngineRefused(f"image {image} is another one by now than when the session started", "Start a session from the new one.")
        return base

    async def _layer(self, pod: PodSeen, image: str, file: BinaryIO) -> LayerFile:
        session = labelled_session(pod.launch)
        home = f"home/{pod.owner if session is None else session.owner}"
        layer = LayerFile(file, Bounds(self.most_bytes, (home, *OURS)))
        argv = [STEP, "--workdir", "/", "--", *INSIDE, "changes"]
        channel = await exec_channel(self._api, pod.namespace, pod.name, MAIN, argv, terminal=False, stdin=False)
        words = b""
        try:
            async with asyncio.timeout(TELLING_S):
                async for kind, data in channel:
                    if kind == STDOUT:
                        await asyncio.to_thread(layer.feed, data)
                    elif kind == STDERR:
                        words = (words + data)[-300:]
        except TimeoutError as error:
            raise EngineRefused(f"the session did not tell of its files within {TELLING_S:g} s", "Try again.") from error
        finally:
            await channel.close()
        if channel.exit_code:
            raise EngineRefused(f"the session cannot tell of its files: {words.decode('utf-8', 'replace').strip()}", "Are its tools whole?")
        for path in await self._gone(pod, image, layer.changed_folders):
            layer.gone(path)
        return layer

    async def _gone(self, pod: PodSeen, image: str, folders: list[str]) -> list[str]:
        """What the image has in folders that the session has changed, and the session has not."""
        if not folders:
            return []
        asked = [f"/{folder}" for folder in folders[:MOST_FOLDERS]]
        if len(folders) > MOST_FOLDERS or sum(map(len, asked)) > LONGEST_FOLDERS:
            return []
        async with self._looks.opened(image, pod.node) as look:
            there = await printed(self._api, look, [*INSIDE, "names", *asked])
        names = {folder: known for folder, known in table(there).items() if folder in asked and known}
        if not names:
            return []
        missing = await printed(self._api, pod, [*INSIDE, "missing"], json.dumps(names).encode() + b"\n")
        possible = {f"{folder}/{name}" for folder, known in names.items() for name in known}
        return sorted(path.lstrip("/") for path in listed(missing) if path in possible)

    async def _pushed(self, base: Base, layer: LayerFile, file: BinaryIO, target: Reference) -> Pushed:
        digest, diff_id = await asyncio.to_thread(layer.finish)
        new = NewLayer(Blob(digest, layer.size_bytes), diff_id, lambda: chunks(file))
        return await push(base, new, Repository(self._http, target.host, target.repository), target.tag, datetime.now(UTC))


async def chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    await asyncio.to_thread(file.seek, 0)
    while chunk := await asyncio.to_thread(file.read, CHUNK):
        yield chunk


def image_id(told: dict[str, Any]) -> str:
    """What the node runs: NAME@DIGEST, or the digest of its settings alone where it was not fetched from a registry."""
    statuses = (told.get("status") or {}).get("containerStatuses") or ()
    return next((str(one.get("imageID") or "").rpartition("://")[2] for one in statuses if one.get("name") == MAIN), "")


def table(text: bytes) -> dict[str, list[str]]:
    """From an image that users may have made: what is not as it should be is nothing."""
    try:
        told = json.loads(text)
        return {str(folder): [str(name) for name in names] for folder, names in told.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def listed(text: bytes) -> list[str]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [path for path in told if isinstance(path, str)] if isinstance(told, list) else []
