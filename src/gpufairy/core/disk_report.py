"""What an agent tells of one place on its host's disks: made to fit into a report, and checked before it is believed. Pure."""
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing, Unmeasured
from gpufairy.core.sample_check import FROM_THE_FUTURE, LARGEST, OLDEST
from gpufairy.core.sample_plain import to_plain

MOST_BYTES = 1_000_000  # of a look as JSON: a report may have 1 MiB
FEWER = (20, 10, 5, 3, 1, 0)  # named of each owner: the most that fits
LEAST_THING_BYTES = 42  # of a thing as JSON, without its path
FOLDERS_KEPT = 200  # of the whole place, when it is too much
MOST_PLACES = 100  # of one host
MOST_OWNERS = 20_000
MOST_THINGS = 1000  # of one owner, or folders of a place
MOST_SORTS = 100
MOST_TROUBLES = 100
LONGEST_PLACE = 4096  # of a path, as the kernel has it
LONGEST_WALK_S = 86_400.0
HOMES = ("home", "homes")  # a folder of that name has a home for each user


@dataclass(frozen=True, slots=True)
class DiskTold:
    """What the server was told, and believes."""

    node: str
    places: tuple[Place, ...]  # all that its agent walks through: what is kept of others is over
    look: DiskLook | None = None
    failed: Unmeasured | None = None


def place_on(node: str, path: str) -> Place:
    return Place(f"{node}:{path}", path, path.rstrip("/").rpartition("/")[2] in HOMES, node)


def told_of(look: DiskLook, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """As plain values for JSON. What is named of each owner is trimmed until it fits, then the smallest owners; and it says so."""
    shorter = replace(look, folders=look.folders[:FOLDERS_KEPT])
    for count in (None, *FEWER):
        tried = look if count is None else replace(shorter, owners=tuple(fewer(one, count) for one in look.owners), named=count)
        if least_size(tried) <= most_bytes and size_of(found := plain_look(tried)) <= most_bytes:
            return found
    return plain_look(with_largest(replace(shorter, folders=()), most_bytes))


def least_size(look: DiskLook) -> int:
    """Of it as JSON, at the least: what is far too large is not even written."""
    named = [thing for one in look.owners for some in (one.largest, one.oldest, one.folders) for thing in some]
    return sum(LEAST_THING_BYTES + len(thing.path) for thing in named)


def with_largest(look: DiskLook, most_bytes: int) -> DiskLook:
    owners = sorted((fewer(one, 0) for one in look.owners), key=lambda one: -one.bytes)
    room = most_bytes - size_of(plain_look(replace(look, owners=(), named=0, left_out=len(owners))))
    kept: list[Owned] = []
    for one in owners:
        room -= size_of(to_plain(one)) + 1
        if room < 0:
            break
        kept.append(one)
    return replace(look, owners=tuple(kept), named=0, left_out=len(owners) - len(kept))


def fewer(one: Owned, count: int) -> Owned:
    return replace(one, largest=one.largest[:count], oldest=one.oldest[:count], folders=one.folders[:count])


def plain_look(look: DiskLook) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(replace(look, place=bare(look.place)))
    return plain


def plain_failure(failed: Unmeasured) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(replace(failed, place=bare(failed.place)))
    return plain


def bare(place: Place) -> Place:
    """Whose host it is on, the server knows by the signature alone."""
    return Place(place.path, place.path)


def size_of(plain: object) -> int:
    return len(json.dumps(plain, separators=(",", ":")))


def place_fault(path: str) -> str | None:
    """In words; None: nothing is wrong with it."""
    if not path.startswith("/") or len(path) > LONGEST_PLACE or ".." in path.split("/") or not path.isprintable():
        return f"place: {path[:60]!r} is no whole path"
    return None


def look_fault(look: DiskLook, now: datetime) -> str | None:
    """The first thing that cannot be, in words; None: nothing. `look.at` is put right by the clock of its host before."""
    return next(_faults(look, now), None)


def time_fault(at: datetime, now: datetime) -> str | None:
    if at - now > FROM_THE_FUTURE:
        return f"at: {at:%Y-%m-%d %H:%M:%S} is still to come"
    return f"at: {at:%Y-%m-%d %H:%M:%S} is more than {OLDEST.days} days ago" if now - at > OLDEST else None


def _faults(look: DiskLook, now: datetime) -> Iterator[str]:
    if (words := time_fault(look.at, now)) is not None:
        yield words
    if not 0 <= look.took_s <= LONGEST_WALK_S:
        yield f"took_s: {str(look.took_s)[:40]} is out of range"
    yield from _too_many("owners", look.owners, MOST_OWNERS)
    yield from _too_many("folders", look.folders, MOST_THINGS)
    yield from _too_many("troubles", look.troubles, MOST_TROUBLES)
    yield from _figures(look, "of the place")
    yield from _things(look.folders)
    for one in look.owners:
        yield from _figures(one, f"of {(one.top or str(one.uid))[:60]}")
        yield from _too_many("sorts", one.sorts, MOST_SORTS)
        for sort in one.sorts:
            yield from _figures(sort, f"of {sort.name[:60]}")
        for named in (one.largest, one.oldest, one.folders):
            yield from _too_many("things of one owner", named, MOST_THINGS)
            yield from _things(named)
    if sum(one.bytes for one in look.owners) > LARGEST:
        yield "owners: together they have more than any disk"


def _things(found: Sequence[Thing]) -> Iterator[str]:
    """Their times are what files say of themselves, which may be anything; see used_at."""
    for thing in found:
        if min(thing.bytes, thing.inodes, thing.uid) < 0 or max(thing.bytes, thing.inodes, thing.uid, abs(thing.used_s)) > LARGEST:
            yield f"a figure is out of range of {thing.path[:60]!r}"


def _too_many(what: str, found: Sequence[object], most: int) -> Iterator[str]:
    if len(found) > most:
        yield f"{what}: more than {most}"


def _figures(part: DiskLook | Owned | Thing | Sort, where: str) -> Iterator[str]:
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= LARGEST:
            yield f"{field.name}: {str(value)[:40]} is out of range {where}"  # it may have thousands of figures
