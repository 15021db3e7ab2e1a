"""Images in memory, for tests."""
from collections.abc import AsyncIterator

from gpufairy.core.errors import EngineRefused
from gpufairy.core.image import Image, MadeImage
from gpufairy.core.workload import WorkloadId


class FakeShelf:
    fetches = True
    no_commits = ""

    def __init__(self, *names: str, in_registry: tuple[str, ...] = (), cuda: str | None = None) -> None:
        self.there = {name: Image(name, f"sha256:{name}", 10**9, cuda=cuda) for name in names}
        self.in_registry = in_registry
        self.printed: dict[str, bytes] = {}  # by image: what any command prints in it
        self.committed: list[tuple[WorkloadId, str]] = []
        self.refuse = ""  # while not empty: nothing can be made into an image, and this is said

    async def images(self) -> list[Image]:
        return list(self.there.values())

    async def image(self, name: str) -> Image | None:
        return self.there.get(name)

    def known_as(self, name: str) -> str:
        return name

    def started_as(self, name: str, made: MadeImage | None) -> str:
        return name

    async def made_here(self, made: MadeImage) -> Image | None:
        return self.there.get(made.name)

    async def kept(self) -> list[str]:
        return [image.name for image in await self.images() if image.name.startswith("gpufairy-kept/")]

    async def pull(self, name: str) -> AsyncIterator[str]:
        if name not in self.in_registry:
            raise EngineRefused(f"image {name} cannot be fetched: no registry has it", "See how it is spelt.")
        yield "half of it"
        self.there[name] = Image(name, f"sha256:{name}", 10**9)

    def pulling(self, name: str) -> str:
        return ""

    async def remove(self, name: str) -> None:
        self.there.pop(name, None)

    async def run_once(self, name: str, argv: tuple[str, ...]) -> bytes:
        return self.printed.get(name, b"")

    async def commit(self, workload: WorkloadId, name: str) -> Image:
        if self.refuse:
            raise EngineRefused(self.refuse)
        self.committed.append((workload, name))
        self.there[name] = Image(name, f"sha256:{name}", 2 * 10**9)
        return self.there[name]
