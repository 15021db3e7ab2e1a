"""The images of a cluster: what its nodes have, and what was made here, which lies in a registry.

Nodes fetch images by themselves, when a session starts there. What was made here is started by its digest, never by a name that could
stand for something else by then.
"""
import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.image import Image, MadeImage, image_name, is_ours
from gpufairy.core.image_reference import USUAL_HOST, Reference, full_name, reference_of
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.node_images import NodeImages
from gpufairy.engines.pod_commit import Committed, PodCommit
from gpufairy.engines.pod_look import LookPods, printed
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.registry.blobs import Repository, digest_of
from gpufairy.engines.registry.http import RegistryHttp

PATIENCE_S = 2.0  # somebody waits for a page or a submit meanwhile
BELIEVED_S = 60.0  # whether the registry has an image is asked so often, and not with every page
MOST_REMEMBERED = 200
KEPT = "gpufairy-kept"  # one repository for all: it can be listed by any registry
NO_REGISTRY = (
    "this server has no registry to put an image in. What pip, conda and the like install into your home stays with every image; "
    "an admin can name a registry as [kubernetes] registry"
)

K = TypeVar("K")
V = TypeVar("V")


class PodShelf:
    fetches = False

    def __init__(
        self, api: KubeApi, settings: PodSettings, *, seen: NodeImages, looks: LookPods, commits: PodCommit, http: RegistryHttp,
        pod_of: Callable[[WorkloadId], PodSeen | None],
    ) -> None:  # fmt: skip
        self._api, self._settings, self._seen, self._looks, self._commits, self._http = api, settings, seen, looks, commits, http
        self._pod_of = pod_of
        self._registry = settings.registry
        self._there: dict[tuple[str, str], tuple[float, bool]] = {}  # by name and digest: when it was asked for, and what the registry said
        self._near: dict[str, tuple[str, str]] = {}  # by name: what to start for it, and a node that has it

    @property
    def no_commits(self) -> str:
        return "" if self._registry else NO_REGISTRY

    def known_as(self, name: str) -> str:
        if not self._registry:
            return name
        found, ours = reference_of(name), reference_of(f"{self._registry}/x")
        prefix = ours.repository.removesuffix("x")
        if plain_host(found.host) != plain_host(ours.host) or not found.repository.startswith(prefix):
            return name
        return f"{found.repository.removeprefix(prefix)}:{found.tag or 'latest'}"

    def started_as(self, name: str, made: MadeImage | None) -> str:
        if self._registry and is_ours(name):
            return str(self._place(name))
        if self._registry and made is not None:
            place = self._place(name)
            return str(Reference(place.host, place.repository, place.tag, made.image_id))
        return name

    async def images(self) -> list[Image]:
        own = full_name(self._settings.tools_image)
        return [image for name, image in self._seen.by_name().items() if self.known_as(name) == name and full_name(name) != own]

    async def kept(self) -> list[str]:
        if not self._registry:
            return []
        tags = await self._repository(self._place(f"{KEPT}/x:1")).tags()
        parts = (tag.rpartition("-") for tag in tags)
        return [f"{KEPT}/{session}:{attempt}" for session, _, attempt in parts if session]

    async def image(self, name: str) -> Image | None:
        return self._seen.by_name().get(name)

    async def made_here(self, made: MadeImage) -> Image | None:
        """A registry that does not answer is no proof that it is gone: it is started by its digest, so it can be no other."""
        key, now = (made.name, made.image_id), time.monotonic()
        asked_at, there = self._there.get(key, (0.0, bool(self._registry)))
        if self._registry and (not asked_at or now - asked_at > BELIEVED_S):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    there = await self._repository(self._place(made.name)).has_manifest(made.image_id)
            except (EngineRefused, EngineSilent, TimeoutError):
                there = True
            remember(self._there, key, (now, there))
        return Image(made.name, made.image_id, made.size_bytes, made.made_at) if there else None

    async def pull(self, name: str) -> AsyncIterator[str]:
        raise EngineRefused(f"no image is fetched beforehand here: each node fetches {name} when a session starts there with it")
        yield ""  # so that this is a stream, as it is of who fetches

    def pulling(self, name: str) -> str:
        return ""

    async def remove(self, name: str) -> None:
        place = self._place(name) if self._registry and is_bare(name) else None
        found = None if place is None else await self._repository(place).manifest(place.version)
        if place is not None and found is not None:
            await self._repository(place).delete(digest_of(found[0]))
        elif name in self._seen.by_name():
            raise EngineRefused(f"image {name} was not made here: nodes remove what nobody uses by themselves")
        self._there = {key: known for key, known in self._there.items() if key[0] != name}

    async def run_once(self, name: str, argv: tuple[str, ...]) -> bytes:
        image, node = self._near.get(name, (full_name(name), ""))
        async with self._looks.opened(image, node) as pod:
            return await printed(self._api, pod, argv)

    async def commit(self, workload: WorkloadId, name: str) -> Image:
        if not self._registry:
            raise EngineRefused(f"no image can be made of a session: {NO_REGISTRY}")
        if not is_bare(name):
            raise EngineRefused(f"image {name}: images made here lie in {self._registry}", "Give it a name without a registry's.")
        pod = self._pod_of(workload)
        if pod is None or pod.running_since is None or pod.over:
            raise EngineRefused(f"workload {workload} does not run here any more, so no image can be made of it", "See `fairy ps`.")
        made = await self._commits.commit(pod, self._place(name))
        self._remember(name, made)
        return Image(name, made.image.digest, made.size_bytes)

    def _remember(self, name: str, made: Committed) -> None:
        """So that what came into it can be asked of both where they lie already."""
        remember(self._near, self.known_as(image_name(made.made_from)), (made.made_from, made.node))
        remember(self._near, name, (str(made.image), made.node))

    def _place(self, name: str) -> Reference:
        """In our registry."""
        at = reference_of(f"{self._registry}/{name}")
        if not is_ours(name):
            return at
        session = name.removeprefix(f"{KEPT}/").partition(":")[0]
        return reference_of(f"{self._registry}/{KEPT}:{session}-{at.tag}")

    def _repository(self, place: Reference) -> Repository:
        return Repository(self._http, place.host, place.repository)


def is_bare(name: str) -> bool:
    """Without a registry's host."""
    return reference_of(name).host == USUAL_HOST


def plain_host(host: str) -> str:
    """One for all ways of writing it."""
    return host.lower().removesuffix(":443").removesuffix(":80")


def remember(known: dict[K, V], key: K, value: V) -> None:
    """The oldest goes when there are too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MOST_REMEMBERED:
        del known[next(iter(known))]
