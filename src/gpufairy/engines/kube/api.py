"""What can be asked of the API server of Kubernetes: paths in, plain dicts out."""
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import quote

from gpufairy.engines.kube.access import Access
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.http import Call, Http

Object = dict[str, Any]
PATCHES = {kind: f"application/{kind}-patch+json" for kind in ("merge", "json")} | {"strategic": "application/strategic-merge-patch+json"}
APPLY = "application/apply-patch+yaml"  # JSON is YAML too
GONE, NOT_FOUND, CONFLICT = 410, 404, 409
STRICT = {"fieldValidation": "Strict"}  # a field that nobody knows is refused, not dropped
DRY = {"dryRun": "All"}


class KubeApi:
    """Open it before use, close it after."""

    def __init__(self, access: Access, program: str = "gpufairy") -> None:
        self.access = access
        self.http = Http(access, program)
        self._kept: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self.http.open()

    async def close(self) -> None:
        for task in list(self._kept):
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)
        await self.http.close()

    def keep(self, carried: Coroutine[Any, Any, None], end: Callable[[], None]) -> None:
        """Until it is done or we close: what carries the bytes of a connection that somebody has. `end` comes also if it never began."""
        task = asyncio.create_task(carried)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        task.add_done_callback(lambda _: end())

    async def __aenter__(self) -> "KubeApi":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def version(self) -> tuple[int, int]:
        told = await self.get("/version")
        try:
            return int(str(told["major"]).rstrip("+")), int(str(told["minor"]).rstrip("+"))
        except (LookupError, ValueError, TypeError) as error:
            raise KubeSilent(
                f"{self.http.where} tells no version that is known.", "Is that address an API server of Kubernetes?",
                reason="nonsense", what="get /version",
            ) from error  # fmt: skip

    async def get(self, path: str, **query: str) -> Object:
        return _object(await self.http.whole(Call("GET", path, query, repeatable=True)))

    async def list(self, path: str, *, labels: str = "", fields: str = "", limit: int = 500) -> AsyncIterator[Object]:
        """One after the other, `limit` asked for at a time."""
        async for page in self.pages(path, labels=labels, fields=fields, limit=limit):
            items = page["items"]
            items.reverse()
            while items:  # each goes as soon as the caller has done with it
                yield items.pop()

    async def pages(
        self, path: str, *, labels: str = "", fields: str = "", limit: int = 500, consistent: bool = False
    ) -> AsyncIterator[Object]:
        """`consistent`: all as at one moment, or KubeRefused 410 if that is too long ago before the last page was read."""
        query = {**selected(labels, fields), "limit": str(limit)}
        following = ""
        while True:
            place = {"continue": following} if following else {}
            try:
                page = _object(await self.http.whole(Call("GET", path, {**query, **place}, repeatable=True)))
            except KubeRefused as error:
                if error.status != GONE or not error.resume or consistent:
                    raise
                following = error.resume
                continue
            metadata = page.setdefault("metadata", {})
            following = str(metadata.get("continue") or "")
            page["items"] = [light(one) for one in page.get("items") or ()]
            yield page
            if not following:
                return

    async def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Never asked twice once it was sent: if the answer is lost, KubeSilent. Subresources too: .../eviction, .../binding, .../token."""
        name = str((body.get("metadata") or {}).get("name") or "")
        return light(await self.http.whole(Call("POST", path, {**STRICT, **(DRY if dry_run else {})}, _text(body), name=name)))

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = True, dry_run: bool = False) -> Object:
        """Made or brought to this (server-side apply)."""
        query = {**STRICT, "fieldManager": manager, "force": str(force).lower(), **(DRY if dry_run else {})}
        return light(await self.http.whole(Call("PATCH", path, query, _text(body), APPLY, repeatable=True)))

    async def patch(self, path: str, body: Any, *, kind: str = "merge", dry_run: bool = False) -> Object:
        """`kind`: merge, json or strategic."""
        query = {**STRICT, **(DRY if dry_run else {})}
        return light(await self.http.whole(Call("PATCH", path, query, _text(body), PATCHES[kind])))

    async def delete(self, path: str, *, grace_s: int | None = None, uid: str | None = None, dry_run: bool = False) -> None:
        """Absent: fine, and so is another of the same name where `uid` says which is meant."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if dry_run:
            options["dryRun"] = ["All"]
        try:
            # Without a uid, the second time could meet a new one of the same name.
            await self.http.whole(Call("DELETE", path, body=_text(options), repeatable=uid is not None))
        except KubeRefused as error:
            other = uid is not None and error.status == CONFLICT and "precondition" in error.message.lower()
            if error.status != NOT_FOUND and not other:
                raise


def pod_path(namespace: str, pod: str, part: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/{part}"


def selected(labels: str, fields: str) -> dict[str, str]:
    return {**({"labelSelector": labels} if labels else {}), **({"fieldSelector": fields} if fields else {})}


def light(one: Any) -> Object:
    """Without who set which field: half of its size, and nobody's concern here."""
    told = _object(one)
    metadata = told.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return told


def _object(told: Any) -> Object:
    return told if isinstance(told, dict) else {}


def _text(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
