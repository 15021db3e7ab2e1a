"""Pieces of images in registries: asked for, taken over from another repository, sent."""
import hashlib
import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.registry.http import NOT_ALLOWED, NOT_FOUND, RegistryHttp

CHUNK = 2**20
LARGEST_TEXT = 8 * 2**20  # bytes of a manifest or of an image's settings
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
)  # fmt: skip
ACCEPTED = {"Accept": ", ".join(MANIFESTS)}
CREATED, STREAM = 201, "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Blob:
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Repository:
    """One of a registry's."""

    http: RegistryHttp
    host: str
    name: str

    @property
    def reads(self) -> str:
        return f"repository:{self.name}:pull"

    @property
    def writes(self) -> str:
        return f"repository:{self.name}:pull,push"

    async def manifest(self, version: str) -> tuple[bytes, str] | None:
        """With its media type. None: there is none. `version`: a tag or a digest, which is then checked."""
        path = self._path("manifests", version)
        async with self.http.asked("GET", self.host, path, self.reads, headers=ACCEPTED, fine=(NOT_FOUND,)) as answer:
            if answer.status == NOT_FOUND:
                return None
            text = await read_text(answer.content.iter_chunked(CHUNK), f"the manifest {self.name}:{version}")
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        check_digest(text, version, f"manifest {self.host}/{self.name}")
        return text, kind

    async def has_manifest(self, version: str) -> bool:
        path = self._path("manifests", version)
        async with self.http.asked("HEAD", self.host, path, self.reads, headers=ACCEPTED, fine=(NOT_FOUND,)) as answer:
            return answer.status != NOT_FOUND

    async def put_manifest(self, tag: str, text: bytes, kind: str) -> str:
        """Its digest."""
        headers = {"Content-Type": kind}
        async with self.http.asked("PUT", self.host, self._path("manifests", tag), self.writes, headers=headers, body=text):
            return digest_of(text)

    async def delete(self, digest: str) -> None:
        """Absent: fine."""
        scope = f"repository:{self.name}:delete,pull"
        async with self.http.asked("DELETE", self.host, self._path("manifests", digest), scope, fine=(NOT_FOUND, NOT_ALLOWED)) as answer:
            if answer.status == NOT_ALLOWED:
                raise EngineRefused(
                    f"registry {self.host} deletes nothing, so {self.name} stays in it",
                    "Its admin can let it (REGISTRY_STORAGE_DELETE_ENABLED=true for Docker's registry).",
                )  # fmt: skip

    async def tags(self) -> list[str]:
        async with self.http.asked("GET", self.host, self._path("tags", "list"), self.reads, fine=(NOT_FOUND,)) as answer:
            if answer.status == NOT_FOUND:
                return []
            text = await read_text(answer.content.iter_chunked(CHUNK), f"the tags of {self.name}")
        return [str(tag) for tag in plain(text, f"the tags of {self.name}").get("tags") or ()]

    async def read(self, digest: str) -> bytes:
        """A small one, whole, and checked."""
        async with self.http.asked("GET", self.host, self._path("blobs", digest), self.reads) as answer:
            text = await read_text(answer.content.iter_chunked(CHUNK), f"{self.name}@{digest}")
        check_digest(text, digest, f"blob {self.host}/{self.name}")
        return text

    async def stream(self, blob: Blob) -> AsyncIterator[bytes]:
        async with self.http.asked("GET", self.host, self._path("blobs", blob.digest), self.reads) as answer:
            async for chunk in answer.content.iter_chunked(CHUNK):
                yield chunk

    async def has(self, digest: str) -> bool:
        async with self.http.asked("HEAD", self.host, self._path("blobs", digest), self.writes, fine=(NOT_FOUND,)) as answer:
            return answer.status != NOT_FOUND

    async def take(self, blob: Blob, source: "Repository") -> None:
        """From another repository, of this registry or of another. The registry checks what comes against its digest."""
        if await self.has(blob.digest):
            return
        where = await self._begun(f"?mount={quote(blob.digest)}&from={quote(source.name)}" if source.host == self.host else "")
        if where is not None:
            await self._sent(where, blob, source.stream(blob))

    async def put(self, blob: Blob, content: AsyncIterable[bytes]) -> None:
        if await self.has(blob.digest):
            return
        where = await self._begun("")
        if where is not None:
            await self._sent(where, blob, content)

    async def _begun(self, query: str) -> str | None:
        """Where to send it. None: the registry has taken it from where it had it."""
        async with self.http.asked("POST", self.host, f"/v2/{self.name}/blobs/uploads/{query}", self.writes) as answer:
            if answer.status == CREATED:
                return None
            return str(answer.headers.get("Location", ""))

    async def _sent(self, where: str, blob: Blob, content: AsyncIterable[bytes]) -> None:
        headers = {"Content-Type": STREAM, "Content-Length": str(blob.size_bytes)}
        async with self.http.asked("PATCH", self.host, where, self.writes, headers=headers, body=content) as answer:
            where = str(answer.headers.get("Location", where))
        async with self.http.asked("PUT", self.host, with_query(where, f"digest={quote(blob.digest)}"), self.writes, body=b""):
            pass

    def _path(self, what: str, which: str) -> str:
        return f"/v2/{self.name}/{what}/{quote(which, safe=':')}"


def with_query(url: str, more: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=f"{parts.query}&{more}" if parts.query else more))


async def read_text(chunks: AsyncIterable[bytes], what: str) -> bytes:
    read = bytearray()
    async for chunk in chunks:
        read += chunk
        if len(read) > LARGEST_TEXT:
            raise EngineRefused(f"{what} is longer than {LARGEST_TEXT} bytes, and none is so long")
    return bytes(read)


def digest_of(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def check_digest(text: bytes, wanted: str, what: str) -> None:
    if wanted.startswith("sha256:") and digest_of(text) != wanted:
        raise EngineRefused(f"{what} is not what {wanted[:19]}… stands for", "Is the registry whole?")


def plain(text: bytes, what: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineRefused(f"{what} is no JSON: {text[:60]!r}") from error
    if not isinstance(told, dict):
        raise EngineRefused(f"{what} is no table: {text[:60]!r}")
    return told
