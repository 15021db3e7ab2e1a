"""The images of a machine as the house sees them: listed, fetched, made from sessions, looked into, removed."""
import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.core.image import Image, cuda_of
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.docker_commit import commit
from gpufairy.engines.docker_daemon import NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_images import Images, environment, wanted_image
from gpufairy.engines.docker_spec import confinement, ulimits

LOOK_EVERY_S = 0.3  # at how far a pull is
RUN_ONCE_S = 60.0

Inspected = Callable[[WorkloadId], Awaitable[dict[str, Any] | None]]


class DockerShelf:
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
