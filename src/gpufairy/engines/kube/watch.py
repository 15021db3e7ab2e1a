"""What there is of a kind, kept up to date by a watch: resumed where it broke off, listed anew where the server forgot that place."""
import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from gpufairy.core.errors import FairyError
from gpufairy.engines.kube.api import GONE, KubeApi, light, selected
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.http import Call, growing_s
from gpufairy.engines.kube.words import refusal

log = logging.getLogger(__name__)
SILENCE_S = 75.0  # the server says something about once a minute, if only how far it is; asking again where we were costs little
WATCH_S = (240, 480)  # by chance, so that not all watches of a server end at once
LIST_S = 60.0  # for a list by watch; ten thousand pods take three
LASTED_S = 5.0  # one that ended sooner is begun again more and more slowly
LONGEST_WAIT_S = 10.0  # so that all is known again soon after the server is back
LARGEST_EVENT = 32 * 2**20  # bytes; etcd holds 1.5 MiB of an object
UNKNOWN_TO_IT = (400, 422)  # said to sendInitialEvents by servers before 1.32, or by those told to
WITH_LIST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
INITIAL_END = "k8s.io/initial-events-end"
PAGE = 500
T = TypeVar("T")
Fresh = dict[str, tuple[str, T]]  # by key: uid and what is kept


class Watched(Generic[T]):
    """Run it in a task. `slim` makes of an object what is kept, None for what is not wanted; `on_change` gets what was and what is."""

    def __init__(
        self, api: KubeApi, path: str, *, labels: str = "", fields: str = "",
        slim: Callable[[dict[str, Any]], T | None], on_change: Callable[[T | None, T | None], None] = lambda old, new: None,
    ) -> None:  # fmt: skip
        self._api, self._path, self._labels, self._fields = api, path, labels, fields
        self._slim, self._on_change = slim, on_change
        self._kept: dict[str, T] = {}
        self._uids: dict[str, str] = {}
        self._version = ""  # up to which all is known; empty: list anew
        self._by_list = False  # this server has no list by watch
        self._page = PAGE
        self.items: Mapping[str, T] = MappingProxyType(self._kept)  # by "namespace/name", or "name" of what is in no namespace
        self.ready = asyncio.Event()  # all has been seen once
        self.stale_since: float | None = time.monotonic()  # in seconds of that clock; None: each change is told as it happens
        self.trouble: FairyError | None = None  # why it is stale, if somebody said no or nothing

    async def run(self) -> None:
        """For ever."""
        short = 0
        while True:
            began = time.monotonic()
            try:
                await self._connected()
            except KubeRefused as error:
                self._told_no(error)
            except FairyError as error:
                self._say(error)
            self._gone_stale()
            short = 0 if time.monotonic() - began > LASTED_S else short + 1
            if short:
                await asyncio.sleep(growing_s(short, LONGEST_WAIT_S))

    async def _connected(self) -> None:
        """One watch, from its beginning to its end."""
        if not self._version and self._by_list:
            await self._list()
        fresh: Fresh[T] | None = None if self._version else {}
        async with self._limited(fresh is not None) as limit, self._api.http.going_on(self._call()) as chunks:
            if fresh is None:
                self._live()
            async for line in lines(chunks, self._path):
                fresh = self._heard(line, fresh)
                if fresh is None and limit.when() is not None:
                    limit.reschedule(None)

    @asynccontextmanager
    async def _limited(self, with_list: bool) -> AsyncIterator[asyncio.Timeout]:
        """A server whose database cannot say how far it is begins a list by watch, and never ends it."""
        try:
            async with asyncio.timeout(LIST_S if with_list else None) as limit:
                yield limit
        except TimeoutError as error:
            self._by_list = True
            said = f"The list of {self._path} was not whole after {LIST_S:g} s."
            raise KubeSilent(said, reason="timeout", what=f"list {self._path}") from error

    def _call(self) -> Call:
        query = {**selected(self._labels, self._fields), "watch": "1", "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(random.randint(*WATCH_S))
        query |= {"resourceVersion": self._version} if self._version else WITH_LIST
        return Call("GET", self._path, query, silence_s=SILENCE_S)

    def _heard(self, line: bytes, fresh: "Fresh[T] | None") -> "Fresh[T] | None":
        """`fresh`: what has come of the list so far; None: the list is done."""
        kind, one = read_event(line, self._path)
        if kind == "ERROR":
            what, code, told = f"watch {self._path}", int(one.get("code") or 500), json.dumps(one).encode()
            raise refusal(code, told, what=what, where=self._api.http.where, who=self._api.access.words)
        metadata = one["metadata"]
        if kind != "BOOKMARK":
            self._take(kind, one, fresh)
        elif fresh is not None and (metadata.get("annotations") or {}).get(INITIAL_END) == "true":
            self._settle(fresh)
            fresh = None
            self._version = str(metadata["resourceVersion"])
            self._live()
        if fresh is None:
            self._version = str(metadata["resourceVersion"])
        return fresh

    def _take(self, kind: str, one: dict[str, Any], fresh: "Fresh[T] | None") -> None:
        key, uid = key_of(one), str(one["metadata"].get("uid"))
        new = None if kind == "DELETED" else self._slim(light(one))
        if fresh is None:
            self._change(key, uid, new)
        elif new is None:
            fresh.pop(key, None)
        else:
            fresh[key] = uid, new

    async def _list(self) -> None:
        fresh: Fresh[T] = {}
        version = ""
        try:
            async for page in self._api.pages(self._path, labels=self._labels, fields=self._fields, limit=self._page, consistent=True):
                version = str(page["metadata"].get("resourceVersion") or "")
                for one in page["items"]:
                    self._take("ADDED", one, fresh)
        except KubeRefused as error:
            if error.status == GONE:  # slower than the server forgets: all at once, then
                self._page = 0
            raise
        self._settle(fresh)
        self._version = version

    def _settle(self, fresh: "Fresh[T]") -> None:
        """What is no longer there was deleted while nobody looked."""
        for key in [key for key in self._kept if key not in fresh]:
            self._change(key, self._uids[key], None)
        for key, (uid, new) in fresh.items():
            self._change(key, uid, new)
        self.ready.set()

    def _change(self, key: str, uid: str, new: T | None) -> None:
        old = self._kept.get(key)
        if old is not None and self._uids[key] != uid:  # another of the same name
            del self._kept[key], self._uids[key]
            self._on_change(old, None)
            old = None
        if new is None:
            self._kept.pop(key, None)
            self._uids.pop(key, None)
        elif old != new:
            self._kept[key], self._uids[key] = new, uid
        if old != new:
            self._on_change(old, new)

    def _live(self) -> None:
        if self.trouble is not None:
            log.info("%s is watched again.", self._path)
        self.stale_since = self.trouble = None

    def _gone_stale(self) -> None:
        if self.stale_since is None:
            self.stale_since = time.monotonic()

    def _told_no(self, error: KubeRefused) -> None:
        if error.status == GONE:
            log.info("The API server has forgotten where the watch of %s was: all is listed anew.", self._path)
            self._version = ""
        elif not self._version and not self._by_list and error.status in UNKNOWN_TO_IT:
            self._by_list = True
        else:
            self._say(error)

    def _say(self, error: FairyError) -> None:
        """Once, and not each time that it is asked again."""
        if self.trouble is None or str(self.trouble) != str(error):
            log.warning("%s %s", error, error.next_step)
        self.trouble = error


def key_of(one: Mapping[str, Any]) -> str:
    metadata = one["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def read_event(line: bytes, path: str) -> tuple[str, dict[str, Any]]:
    try:
        told = json.loads(line)
        kind, one = str(told["type"]), told["object"]
        if kind != "ERROR":
            str(one["metadata"]["resourceVersion"])  # what has none is no event
        return kind, one
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise KubeSilent(f"The watch of {path} said what is no event: {line[:100]!r}.", reason="nonsense", what=f"watch {path}") from error


async def lines(chunks: AsyncIterator[bytes], path: str) -> AsyncIterator[bytes]:
    """Cut at line feeds alone: U+0085 and its like, which Python too takes for ends of lines, may stand in any annotation."""
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        for following in others:
            if size:
                yield b"".join(begun)
            begun, size = [following], len(following)
        if size > LARGEST_EVENT:
            said = f"The watch of {path} has an event of more than {LARGEST_EVENT} bytes."
            raise KubeSilent(said, reason="nonsense", what=f"watch {path}")
        await asyncio.sleep(0)  # a list of thousands must not hold up everybody else
