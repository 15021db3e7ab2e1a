"""An image made of another and one layer more: everything of the other stays, and nothing of ours comes in but a line of its history."""
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.registry.blobs import Blob, Repository, digest_of, plain

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
LAYERS = {DOCKER: "application/vnd.docker.image.rootfs.diff.tar.gzip", OCI: "application/vnd.oci.image.layer.v1.tar+gzip"}
ELSEWHERE = ("foreign", "nondistributable")  # layers that a registry does not have, but names an address of
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MOST_LAYERS = 127  # overlayfs mounts no more


@dataclass(frozen=True, slots=True)
class Base:
    """An image in a registry, for one kind of machine."""

    repository: Repository
    manifest: Mapping[str, Any]
    kind: str  # DOCKER or OCI
    config: Mapping[str, Any]
    layers: tuple[Blob, ...]

    @property
    def config_digest(self) -> str:
        return str(self.manifest["config"]["digest"])


@dataclass(frozen=True, slots=True)
class NewLayer:
    blob: Blob  # compressed by gzip
    diff_id: str  # the digest of what it is without
    read: Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class Pushed:
    digest: str  # of the manifest
    size_bytes: int  # of all layers, as the registry has them


async def read_base(repository: Repository, version: str, architecture: str) -> Base | None:
    """None: the registry has no such image. Raises EngineRefused, EngineSilent."""
    found = await repository.manifest(version)
    what = f"image {repository.host}/{repository.name}"
    if found is not None and kind_of(*found, what) in INDEXES:
        found = await repository.manifest(chosen(plain(found[0], what), architecture, what))
    if found is None:
        return None
    manifest, kind = plain(found[0], what), kind_of(*found, what)
    if kind not in LAYERS:
        raise EngineRefused(f"{what} is of a kind that is not known here: {kind[:100]}", "Have it pushed anew by a newer program.")
    layers = tuple(blob_of(one, what) for one in listed(manifest.get("layers")))
    config = plain(await repository.read(blob_of(manifest.get("config"), what).digest), what)
    return Base(repository, manifest, kind, config, layers)


def kind_of(text: bytes, header: str, what: str) -> str:
    return str(plain(text, what).get("mediaType") or header)


def chosen(index: Mapping[str, Any], architecture: str, what: str) -> str:
    for one in listed(index.get("manifests")):
        platform = one.get("platform") if isinstance(one, dict) else None
        if isinstance(platform, dict) and (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
            return blob_of(one, what).digest
    raise EngineRefused(f"{what} is not there for linux/{architecture}")


def listed(told: object) -> list[Any]:
    return told if isinstance(told, list) else []


def blob_of(told: Any, what: str) -> Blob:
    """Raises EngineRefused: whoever keeps that registry may have written anything."""
    try:
        found = Blob(str(told["digest"]), int(told["size"]))
    except (KeyError, TypeError, ValueError) as error:
        raise EngineRefused(f"{what} has a manifest that cannot be understood", "Have it pushed anew.") from error
    if not DIGEST.fullmatch(found.digest) or found.size_bytes < 0:
        raise EngineRefused(f"{what} has a piece that cannot be asked for: {found.digest[:80]!r}", "Have it pushed anew.")
    return found


async def push(base: Base, layer: NewLayer, target: Repository, tag: str, now: datetime) -> Pushed:
    """Layers first, the manifest last: nobody finds it before it is whole."""
    if len(base.layers) >= MOST_LAYERS:
        raise EngineRefused(f"the image has {len(base.layers)} layers already, and no more can be had", "Build it anew, in fewer steps.")
    for blob, told in zip(base.layers, base.manifest.get("layers", ()), strict=True):
        if not any(word in str(told.get("mediaType")) for word in ELSEWHERE):
            await target.take(blob, base.repository)
    await target.put(layer.blob, layer.read())
    config = json.dumps(new_config(base.config, layer.diff_id, now), separators=(",", ":")).encode()
    await target.put(Blob(digest_of(config), len(config)), in_one(config))
    manifest = new_manifest(base, layer, config)
    digest = await target.put_manifest(tag, json.dumps(manifest, separators=(",", ":")).encode(), base.kind)
    return Pushed(digest, sum(blob.size_bytes for blob in base.layers) + layer.blob.size_bytes)


def new_config(config: Mapping[str, Any], diff_id: str, now: datetime) -> dict[str, Any]:
    created = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # so fine that no two are the same image: who deletes one must not delete the other
    root = config.get("rootfs")
    layers = listed(root.get("diff_ids")) if isinstance(root, dict) else []
    history = listed(config.get("history")) or [{"created": created}] * len(layers)  # one line for each layer, or none is believed
    # Docker up to version 25 wrote the settings of the container that it was made from beside the image's own.
    kept = {key: value for key, value in config.items() if key not in ("container", "container_config")}
    return {
        **kept, "created": created, "rootfs": {"type": "layers", "diff_ids": [*layers, diff_id]},
        "history": [*history, {"created": created, "created_by": "fairy commit"}],
    }  # fmt: skip


def new_manifest(base: Base, layer: NewLayer, config: bytes) -> dict[str, Any]:
    settings = {**base.manifest["config"], "digest": digest_of(config), "size": len(config)}
    top = {"mediaType": LAYERS[base.kind], "digest": layer.blob.digest, "size": layer.blob.size_bytes}
    return {"schemaVersion": 2, "mediaType": base.kind, "config": settings, "layers": [*base.manifest.get("layers", ()), top]}


async def in_one(text: bytes) -> AsyncIterator[bytes]:
    yield text
