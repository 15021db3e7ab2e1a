"""The images of a machine as the house sees them: listed, fetched, made from sessions, looked into, removed."""
import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gpufairy.core.errors import EngineRefused, FairyError
from gpufairy.core.image import Image, MadeImage, cuda_of
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.docker_commit import commit
from gpufairy.engines.docker_daemon import NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_images import Images, environment, wanted_image
from gpufairy.engines.docker_spec import confinement, ulimits

LOOK_EVERY_S = 0.3  # at how far a pull is
RUN_ONCE_S = 60.0
LEFT_AFTER_S = 2 * 3600.0  # longer than any image takes to be made: what is younger may be another server's, which is at it

log = logging.getLogger(__name__)

Inspected = Callable[[WorkloadId], Awaitable[dict[str, Any] | None]]


class DockerShelf:
    fetches = True
    no_commits = ""

    def __init__(self, daemon: Daemon, images: Images, inspected: Inspected) -> None:
        self._daemon, self._images, self._inspected = daemon, images, inspected

    async def images(self) -> list[Image]:
        return await self._images.list()

    async def image(self, name: str) -> Image | None:
        found = await self._images.inspect(wanted_image(name, name))
        if found is None:
            return None
        labels = (found.get("Config") or {}).get("Labels") or {}
        return Image(name, str(found["Id"]), int(found.get("Size") or 0), cuda=cuda_of(environment(found), labels))

    def known_as(self, name: str) -> str:
        return name

    def started_as(self, name: str, made: MadeImage | None) -> str:
        return name

    async def made_here(self, made: MadeImage) -> Image | None:
        return await self.image(made.name)

    async def kept(self) -> list[str]:
        return [image.name for image in await self.images() if image.name.startswith("gpufairy-kept/")]

    async def pull(self, name: str) -> AsyncIterator[str]:
        pulling = asyncio.create_task(self._images.pull(name))
        said = ""
        while not pulling.done():
            await asyncio.wait([pulling], timeout=LOOK_EVERY_S)
            words = self._images.pulling(name)
            if words and words != said:
                said = words
                yield words
        pulling.result()

    def pulling(self, name: str) -> str:
        return self._images.pulling(name)

    async def remove(self, name: str) -> None:
        checked = wanted_image(name, name)
        async with self._daemon.asked(f"removing image {checked}", within_s=WORK_S, fine=(NOT_FOUND,)):
            await self._daemon.docker.images.delete(checked)

    async def run_once(self, name: str, argv: tuple[str, ...]) -> bytes:
        what = f"looking into image {name}"
        async with self._daemon.asked(what, within_s=WORK_S):
            limits = ulimits(self._daemon.most_files(1024), self._daemon.hard.nproc)
            container = await self._daemon.docker.containers.create(shut_in(name, argv, limits), name=f"fairy-look-{uuid.uuid4().hex[:12]}")
        try:
            async with self._daemon.asked(what, within_s=WORK_S):
                await container.start()
                async with asyncio.timeout(RUN_ONCE_S):
                    await container.wait()
                printed = await container.log(stdout=True)
        finally:
            async with self._daemon.asked("removing a throw-away container", fine=(NOT_FOUND,)):
                await container.delete(force=True, v=True)
        return "".join(printed).encode()

    async def commit(self, workload: WorkloadId, name: str) -> Image:
        detail = await self._inspected(workload)
        before = await self._images.inspect(str(detail["Image"])) if detail is not None else None
        if detail is None or before is None:
            raise EngineRefused(f"workload {workload} is not here any more, so no image can be made of it", "See `fairy ps`.")
        await commit(self._daemon, detail, before, wanted_image(name, name))
        made = await self.image(name)
        if made is None:
            raise EngineRefused(f"image {name} was made and is gone again", "Try again.")
        return made


async def remove_left(daemon: Daemon) -> None:
    """What a server that died was making: images without a name yet, and containers that were to look into one."""
    left = {"label": ["gpufairy.session"], "dangling": ["true"]}
    looks = {"label": ["gpufairy.role=look"], "status": ["created", "exited"]}
    try:
        async with daemon.asked("looking for what was left half made", within_s=WORK_S):
            for image in await daemon.docker.images.list(filters=left):
                if is_old(image["Created"]):
                    await daemon.docker.images.delete(str(image["Id"]))
            for container in await daemon.docker.containers.list(all="true", filters=json.dumps(looks)):
                if is_old(container["Created"]):
                    await container.delete(v=True)
    except FairyError as error:  # the next start tries again
        log.warning("what a server may have left half made is not removed: %s", error)


def is_old(made_at_s: int) -> bool:
    return time.time() - made_at_s > LEFT_AFTER_S


def shut_in(image: str, argv: tuple[str, ...], limits: list[dict[str, Any]]) -> dict[str, Any]:
    """A container with no network, no folders, no rights and nothing to write to."""
    most = 512 * 2**20
    return {
        "Image": image,
        "Entrypoint": list(argv),
        "Cmd": [],
        "User": "65534:65534",
        "WorkingDir": "/",
        "Labels": {"gpufairy.role": "look"},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **confinement(), "ReadonlyRootfs": True, "NetworkMode": "none", "Memory": most, "MemorySwap": most, "PidsLimit": 256,
            "Ulimits": limits,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "8m", "max-file": "1"}},
        },
    }  # fmt: skip
