"""Which images the nodes of a cluster have, as their kubelets tell: the fifty largest of each, unless they are told to name more."""
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.image import Image, image_name
from gpufairy.core.image_reference import reference_of

MOST_KINDS, MOST_NODES = 20_000, 10_000  # kept to be shared: nodes of a cluster have much the same images
MOST_NAMES = 20  # of one image
# What a cluster itself runs from is nothing to start a session from.
CLUSTERS_OWN = ("registry.k8s.io/", "k8s.gcr.io/")


@dataclass(frozen=True, slots=True)
class ImageSeen:
    names: tuple[str, ...]  # with tags, and with digests
    size_bytes: int


class NodeImages:
    """By name, over all nodes."""

    def __init__(self) -> None:
        self._count: Counter[ImageSeen] = Counter()
        self._by_name: dict[str, Image] | None = None  # None: to be made anew

    def changed(self, old: Iterable[ImageSeen], new: Iterable[ImageSeen]) -> None:
        if old is new:
            return
        self._count.subtract(old)
        self._count.update(new)
        self._by_name = None

    def by_name(self) -> Mapping[str, Image]:
        if self._by_name is None:
            self._count = +self._count
            rarest_first = sorted(self._count.items(), key=lambda one: one[1])
            # Of two that have the same name, the one that most nodes have.
            self._by_name = {image.name: image for seen, _ in rarest_first for image in named(seen)}
        return self._by_name


def named(seen: ImageSeen) -> list[Image]:
    """One for each of its tags. The id is the digest of its own repository, if it has one there."""
    digests = {repository(name): name.partition("@")[2] for name in seen.names if "@" in name}
    found = []
    for name in seen.names:
        if "@" in name or name.startswith(CLUSTERS_OWN):
            continue
        try:
            short = image_name(name)
        except BadInput:  # "<none>:<none>", or a name that no session may have
            continue
        digest = digests.get(repository(name)) or next(iter(digests.values()), "")
        found.append(Image(short, digest, seen.size_bytes))
    return found


def repository(name: str) -> tuple[str, str]:
    found = reference_of(name)
    return found.host, found.repository


def images_told(status: Mapping[str, Any]) -> tuple[ImageSeen, ...]:
    """Of a node's status. Equal ones are the same value, so that a thousand nodes do not keep a thousand lists."""
    told = status.get("images") or ()
    return _shared(tuple(_image(tuple(map(str, (one.get("names") or ())[:MOST_NAMES])), int(one.get("sizeBytes") or 0)) for one in told))


@lru_cache(MOST_KINDS)
def _image(names: tuple[str, ...], size_bytes: int) -> ImageSeen:
    return ImageSeen(names, size_bytes)


@lru_cache(MOST_NODES)
def _shared(images: tuple[ImageSeen, ...]) -> tuple[ImageSeen, ...]:
    return images
