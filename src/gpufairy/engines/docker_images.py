"""Images on this machine: listed, pulled with progress, and what is known of each."""
import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufairy.core.amounts import show_size
from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.image import Image, cuda_of, image_name
from gpufairy.engines.docker_daemon import NOT_FOUND, Daemon
from gpufairy.engines.docker_facts import ImageFacts
from gpufairy.engines.docker_probe import Probed, probe

STALLED_S = 300.0  # a pull that says nothing for so long is given up
MOST_KEPT = 1000  # images whose facts are kept in memory

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pull:
    """How far one has come: bytes by layer."""

    image: str
    had: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def told(self, line: Mapping[str, Any]) -> None:
        layer, detail = str(line.get("id") or ""), line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            self.had[layer], self.sizes[layer] = int(detail.get("current") or 0), int(detail["total"])
        elif line.get("status") in ("Download complete", "Pull complete") and layer in self.sizes:
            self.had[layer] = self.sizes[layer]

    def __str__(self) -> str:
        if not self.sizes:
            return f"pulling {self.image}"
        return f"pulling {self.image}: {show_size(sum(self.had.values()))} of {show_size(sum(self.sizes.values()))} or more"


class Images:
    def __init__(self, daemon: Daemon, folder: Path, tools: Path, *, may_pull: bool) -> None:
        self._daemon, self._folder, self._tools, self._may_pull = daemon, folder, tools, may_pull
        self._pulls: dict[str, tuple[Pull, asyncio.Task[None]]] = {}
        self._probed: dict[str, Probed] = {}
        self._probing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ready(self, name: str) -> ImageFacts:
        """The image is on this machine, pulled if need be, and this is known of it. Raises EngineRefused."""
        found = await self.inspect(name)
        if found is None:
            if not self._may_pull:
                raise EngineRefused(f"image {name} is not on {self._daemon.node_name}, and pulling is off here", "See `fairy image list`.")
            await self.pull(name)
            found = await self.inspect(name)
        if found is None:
            raise EngineRefused(f"image {name} was pulled to {self._daemon.node_name}, and is gone again", "Try again.")
        env = environment(found)
        known = await self._known(str(found["Id"]), name)
        return ImageFacts(known.passwd, known.group, known.shell, env)

    async def inspect(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        async with self._daemon.asked(f"looking for image {name}", fine=(NOT_FOUND,)):
            found = await self._daemon.docker.images.inspect(name)
        return found

    async def list(self) -> list[Image]:
        """One entry a name: several may stand for the same image."""
        async with self._daemon.asked("listing images", within_s=30):
            found = await self._daemon.docker.images.list()
        tags = [(entry, tag.removeprefix("localhost/")) for entry in found for tag in entry.get("RepoTags") or ()]
        names = [(entry, name) for entry, name in tags if name != "<none>:<none>"]
        return [await self._image(entry, name) for entry, name in names if not name.startswith("gpufairy/")]

    async def _image(self, entry: Mapping[str, Any], name: str) -> Image:
        detail = await self.inspect(str(entry["Id"])) or {}
        labels = (detail.get("Config") or {}).get("Labels") or {}
        made = entry.get("Created")
        return Image(
            name, str(entry["Id"]), int(entry.get("Size") or 0),
            datetime.fromtimestamp(made, UTC) if isinstance(made, int) and made > 0 else None, cuda_of(environment(detail), labels),
        )  # fmt: skip

    def pulling(self, name: str) -> str:
        """In words, how far it has come; empty if it is not being pulled."""
        found = self._pulls.get(name)
        return str(found[0]) if found is not None else ""

    async def pull(self, name: str) -> None:
        if name not in self._pulls:
            pull = Pull(name)
            task = asyncio.create_task(self._pulled(pull), name=f"pull {name}")
            self._pulls[name] = (pull, task)
            task.add_done_callback(self._pull_over)
        # Shielded: one who gives up must not end it for the others.
        await asyncio.shield(self._pulls[name][1])

    def _pull_over(self, task: asyncio.Task[None]) -> None:
        self._pulls = {name: known for name, known in self._pulls.items() if known[1] is not task}
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("%s", error)  # whoever waited is told too; but all of them may have given up

    async def _pulled(self, pull: Pull) -> None:
        try:
            async with self._daemon.asked(f"image {pull.image} is not on this machine and could not be pulled", within_s=24 * 3600):
                async with asyncio.timeout(STALLED_S) as patience:
                    async for line in self._daemon.docker.images.pull(pull.image, stream=True):
                        pull.told(line)
                        patience.reschedule(asyncio.get_running_loop().time() + STALLED_S)
        except EngineSilent as error:
            raise EngineRefused(f"image {pull.image} could not be pulled: {error}", "Try again later.") from error

    async def _known(self, image_id: str, name: str) -> Probed:
        if image_id in self._probed:
            return self._probed[image_id]
        async with self._probing[image_id]:  # the second launch of an image finds what the first one learned
            if image_id not in self._probed:
                if len(self._probed) >= MOST_KEPT:
                    self._probed.clear()
                self._probed[image_id] = await self._learned(image_id, name)
            return self._probed[image_id]

    async def _learned(self, image_id: str, name: str) -> Probed:
        path = self._folder / f"{image_id.rpartition(':')[2]}.json"
        if (kept := read_probed(path)) is not None:
            return kept
        fallback = Probed(shell="/opt/fairy/bin/bash" if (self._tools / "bin" / "bash").exists() else "/bin/sh")
        try:
            found = await probe(self._daemon, image_id, self._tools)
        except (EngineRefused, EngineSilent) as error:
            log.warning("image %s could not be looked into, so sessions of it are shown no users but their own: %s", name, error)
            return fallback
        if not found.bash and fallback.shell.startswith("/opt"):
            found = Probed(found.passwd, found.group, fallback.shell)
        write_probed(path, found)
        return found

    async def close(self) -> None:
        for _, task in list(self._pulls.values()):
            task.cancel()
            await asyncio.wait([task])


def environment(found: Mapping[str, Any]) -> dict[str, str]:
    """Of an image or container, as `inspect` shows it."""
    return dict(variable.partition("=")[::2] for variable in (found.get("Config") or {}).get("Env") or ())


def wanted_image(asked: str | None, default: str) -> str:
    try:
        return image_name(asked or default)
    except BadInput as error:
        raise EngineRefused(error.detail, error.next_step) from error


def read_probed(path: Path) -> Probed | None:
    try:
        plain = json.loads(path.read_bytes())
        return Probed(tuple(map(str, plain["passwd"])), tuple(map(str, plain["group"])), str(plain["shell"]))
    except (OSError, ValueError, KeyError, TypeError):  # not there, or half written: looked at anew
        return None


def write_probed(path: Path, found: Probed) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(json.dumps({"passwd": found.passwd, "group": found.group, "shell": found.shell}))
    except OSError as error:
        log.warning("what is known of an image could not be kept in %s: %s", path, error)
