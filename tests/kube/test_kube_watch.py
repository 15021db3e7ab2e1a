"""What is kept by a watch, told by a server that ends, forgets, stalls and stammers when it is told to."""
import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.kube import watch
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.kube.watch import Watched, lines
from kube.fake_api import FakeApi, Says, asking, fake_api, no
from kube.soon import SOON_S, soon

pytestmark = pytest.mark.slow
PODS = "/api/v1/pods"


def pod(name: str, version: int, *, uid: str = "", phase: str = "Running", **annotations: str) -> dict[str, Any]:
    metadata = {"namespace": "ml", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "annotations": annotations, "managedFields": ["long"]}
    return {"metadata": metadata, "status": {"phase": phase}}


def event(kind: str, one: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": one}


def bookmark(version: int, *, end: bool = False) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"} if end else {}}})


def whole(*pods: dict[str, Any], version: int = 10, then: tuple[Any, ...] = (), stays: bool = False) -> Says:
    """A list by watch, and what comes after it."""
    return Says(lines=(*(event("ADDED", one) for one in pods), bookmark(version, end=True), *then), stays=stays)


GONE = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"})
QUIET = Says(lines=(), stays=True)


def slim(one: dict[str, Any]) -> tuple[str, str] | None:
    assert "managedFields" not in one["metadata"]
    phase = one["status"]["phase"]
    return None if phase == "Unwanted" else (one["metadata"]["name"], phase)


class Seen:
    def __init__(self) -> None:
        self.changes: list[tuple[Any, Any]] = []

    def note(self, old: Any, new: Any) -> None:
        self.changes.append((old, new))


@asynccontextmanager
async def watching(folder: Path, *answers: Says) -> AsyncIterator[tuple[Watched[tuple[str, str]], Seen, FakeApi]]:
    seen = Seen()
    async with fake_api(*answers) as fake, asking(fake, folder) as api:
        watched = Watched(api, PODS, labels="a=b", slim=slim, on_change=seen.note)
        running = asyncio.create_task(watched.run())
        try:
            yield watched, seen, fake
        finally:
            assert not running.done(), running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_it_begins_with_all_there_is_and_says_when_it_is_whole(tmp_path):
    async with watching(tmp_path, whole(pod("a", 1), pod("b", 2), stays=True)) as (watched, seen, fake):
        await watched.ready.wait()
        assert dict(watched.items) == {"ml/a": ("a", "Running"), "ml/b": ("b", "Running")}
        assert (watched.stale_since, watched.trouble) == (None, None)
        assert seen.changes == [(None, ("a", "Running")), (None, ("b", "Running"))]
    asked = fake.asked[0].query
    assert (asked["sendInitialEvents"], asked["resourceVersionMatch"], asked["allowWatchBookmarks"], asked["labelSelector"]) == ("true", "NotOlderThan", "true", "a=b")


async def test_changes_are_told_with_what_was_and_those_that_change_nothing_kept_are_not(tmp_path):
    then = (event("MODIFIED", pod("a", 11, note="new")), event("MODIFIED", pod("a", 12, phase="Failed")), event("DELETED", pod("a", 13, phase="Failed")), event("ADDED", pod("c", 14)))
    async with watching(tmp_path, whole(pod("a", 1), then=then, stays=True)) as (watched, seen, _):
        await soon(lambda: "ml/c" in watched.items, "c")
        assert seen.changes[1:] == [(("a", "Running"), ("a", "Failed")), (("a", "Failed"), None), (None, ("c", "Running"))]


async def test_what_is_not_wanted_is_as_if_it_were_not_there(tmp_path):
    then = (event("MODIFIED", pod("a", 11, phase="Unwanted")), event("ADDED", pod("x", 12, phase="Unwanted")), event("DELETED", pod("x", 13, phase="Unwanted")), event("ADDED", pod("z", 14)))
    async with watching(tmp_path, whole(pod("a", 1), then=then, stays=True)) as (watched, seen, _):
        await soon(lambda: "ml/z" in watched.items, "z")
        assert seen.changes == [(None, ("a", "Running")), (("a", "Running"), None), (None, ("z", "Running"))]


async def test_a_watch_that_ends_silently_goes_on_where_it_was(tmp_path):
    ends = whole(pod("a", 1), then=(event("MODIFIED", pod("a", 15, phase="Pending")),))
    async with watching(tmp_path, ends, Says(lines=(bookmark(20),)), Says(lines=(event("ADDED", pod("b", 21)),), stays=True)) as (watched, seen, fake):
        await soon(lambda: "ml/b" in watched.items, "b")
        assert [asked.query.get("resourceVersion") for asked in fake.asked] == [None, "15", "20"]
        assert watched.stale_since is None
        assert len(seen.changes) == 3


async def test_the_bookmark_of_the_list_is_the_place_to_go_on_from(tmp_path):
    """And not the newest of the list's own objects: those are older."""
    async with watching(tmp_path, whole(pod("a", 3), version=10), QUIET) as (_, _, fake):
        await soon(lambda: len(fake.asked) == 2, "the second")
        assert fake.asked[1].query["resourceVersion"] == "10"


@pytest.mark.parametrize("gone", [Says(lines=(GONE,)), no(410, "Expired", "too old")], ids=["as an event", "at once"])
async def test_a_forgotten_place_means_all_anew_with_deletions_found_by_difference(tmp_path, gone):
    again = whole(pod("b", 30, phase="Failed"), pod("c", 31), pod("d", 32, uid="uid-new"), version=40, stays=True)
    async with watching(tmp_path, whole(pod("a", 1), pod("b", 2), pod("d", 3)), gone, again) as (watched, seen, fake):
        await soon(lambda: "ml/c" in watched.items, "c")
        assert set(watched.items) == {"ml/b", "ml/c", "ml/d"}
        assert seen.changes[3:] == [
            (("a", "Running"), None), (("b", "Running"), ("b", "Failed")), (None, ("c", "Running")), (("d", "Running"), None), (None, ("d", "Running")),
        ]  # fmt: skip
        assert "sendInitialEvents" in fake.asked[2].query


async def test_another_of_the_same_name_is_the_end_of_the_first(tmp_path):
    then = (event("ADDED", pod("a", 11, uid="uid-2")),)
    async with watching(tmp_path, whole(pod("a", 1), then=then, stays=True)) as (watched, seen, _):
        await soon(lambda: len(seen.changes) == 3, "both")
        assert seen.changes[1:] == [(("a", "Running"), None), (None, ("a", "Running"))]
        assert set(watched.items) == {"ml/a"}


async def test_a_list_that_breaks_off_is_not_believed(tmp_path):
    broken = Says(lines=(event("ADDED", pod("b", 5)),))
    async with watching(tmp_path, whole(pod("a", 1)), no(410), broken, whole(pod("a", 1), version=50, stays=True)) as (watched, seen, fake):
        await soon(lambda: len(fake.asked) == 4 and watched.stale_since is None, "the second list")
        assert seen.changes == [(None, ("a", "Running"))]
        assert set(watched.items) == {"ml/a"}


@pytest.mark.parametrize("refusal", [no(422, "Invalid", "sendInitialEvents: Forbidden"), no(400, "BadRequest", "unknown")], ids=["422", "400"])
async def test_a_server_without_lists_by_watch_is_listed_in_pages_first(tmp_path, refusal):
    first = Says(200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a", 1)]})
    last = Says(200, {"metadata": {"resourceVersion": "7"}, "items": [pod("b", 2)]})
    async with watching(tmp_path, refusal, first, last, Says(lines=(event("DELETED", pod("a", 8)),))) as (watched, seen, fake):
        await soon(lambda: len(fake.asked) > 4, "the watch")
        assert (fake.asked[1].query.get("limit"), fake.asked[2].query.get("continue"), fake.asked[3].query.get("resourceVersion"), fake.asked[4].query.get("resourceVersion")) == ("500", "more", "7", "8")
        assert set(watched.items) == {"ml/b"}
        assert watched.trouble is None
        assert len(seen.changes) == 3


async def test_a_list_in_pages_that_the_server_forgets_is_asked_for_at_once(tmp_path):
    first = Says(200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a", 1)]})
    at_once = Says(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("b", 2)]})
    async with watching(tmp_path, no(422), first, no(410, "Expired", metadata={"continue": "x"}), at_once, QUIET) as (watched, _, fake):
        await watched.ready.wait()
        await soon(lambda: watched.stale_since is None, "the watch")
        assert fake.asked[3].query["limit"] == "0"
        assert set(watched.items) == {"ml/b"}


async def test_a_list_by_watch_that_never_ends_is_given_up_for_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LIST_S", 0.2)
    stuck = Says(lines=(event("ADDED", pod("a", 1)),), stays=True)
    async with watching(tmp_path, stuck, Says(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("b", 2)]}), QUIET) as (watched, _, _fake):
        await watched.ready.wait()
        assert set(watched.items) == {"ml/b"}


async def test_the_limit_for_a_list_is_none_for_the_watch_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LIST_S", 0.2)
    began = time.monotonic()
    async with watching(tmp_path, whole(pod("a", 1), stays=True)) as (watched, _, fake):
        await soon(lambda: time.monotonic() - began > 0.6, "three times the limit")
        assert (watched.stale_since, len(fake.asked)) == (None, 1)


async def test_one_that_stalls_is_begun_again_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "SILENCE_S", 0.2)
    async with watching(tmp_path, whole(pod("a", 1), stays=True), Says(lines=(event("ADDED", pod("b", 21)),), stays=True)) as (watched, _, fake):
        await soon(lambda: "ml/b" in watched.items, "b")
        assert fake.asked[1].query["resourceVersion"] == "10"


async def test_signs_within_lines_that_others_take_for_ends_of_lines_do_no_harm(tmp_path):
    odd = "a\u0085b\u2028c\x0bd\x0ce\x1cf"
    then = (event("ADDED", pod("b", 11, note=odd)), event("ADDED", pod("c", 12)))
    async with watching(tmp_path, whole(pod("a", 1, note=odd), then=then, stays=True)) as (watched, _, fake):
        await soon(lambda: "ml/c" in watched.items, "c")
        assert len(fake.asked) == 1


async def test_lines_may_be_cut_anywhere_by_the_network():
    async def chunks() -> AsyncIterator[bytes]:
        for one in (b"a", b"b\nc", b"\n", b"\n\n", b"dd\nee\nf", b"f\ng"):
            yield one

    assert [line async for line in lines(chunks(), PODS)] == [b"ab", b"c", b"dd", b"ee", b"ff"]


async def test_while_it_is_refused_what_was_known_stays_and_it_is_said_once_why(tmp_path, caplog):
    forbidden = no(403, "Forbidden", 'pods is forbidden: User "x" cannot watch resource "pods"')
    async with watching(tmp_path, whole(pod("a", 1)), forbidden, forbidden, forbidden, QUIET) as (watched, _, fake):
        began = time.monotonic()
        with caplog.at_level(logging.INFO):
            await soon(lambda: isinstance(watched.trouble, KubeRefused), "the refusal")
            assert watched.stale_since is not None
            assert abs(watched.stale_since - began) < SOON_S
            assert set(watched.items) == {"ml/a"}
            await soon(lambda: watched.stale_since is None, "the last watch")
        assert caplog.text.count("cannot watch resource") == 1
        assert f"{PODS} is watched again" in caplog.text
        assert watched.trouble is None
        assert len(fake.asked) == 5


@pytest.mark.parametrize("odd", [b"nonsense\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": {"metadata": {}}}\n', b"\xff\n"])
async def test_an_event_that_is_none_breaks_the_watch_and_nothing_else(tmp_path, odd):
    async with watching(tmp_path, whole(pod("a", 1), then=(odd,)), Says(lines=(event("ADDED", pod("b", 21)),), stays=True)) as (watched, _, fake):
        await soon(lambda: "ml/b" in watched.items, "b")
        assert fake.asked[1].query["resourceVersion"] == "10"


async def test_a_server_that_ends_every_watch_at_once_is_asked_more_and_more_slowly(tmp_path):
    async with watching(tmp_path, whole(pod("a", 1)), Says(lines=())) as (watched, _, fake):
        await watched.ready.wait()
        began = time.monotonic()
        await soon(lambda: len(fake.asked) == 6, "the sixth")
        assert time.monotonic() - began > 0.75 * (0.1 + 0.2 + 0.4 + 0.8)


async def test_what_is_in_no_namespace_goes_by_its_name(tmp_path):
    node = {"metadata": {"name": "gpu01", "uid": "u", "resourceVersion": "1"}, "status": {"phase": "Ready"}}
    async with watching(tmp_path, whole(node, stays=True)) as (watched, _, _fake):
        await watched.ready.wait()
        assert set(watched.items) == {"gpu01"}
