"""What a walk through a folder found, and what of it is whose. Sizes are what files take on the disk; None is not known.

What lies in a home is its owner's, whatever uid is on it; elsewhere the uid says whose it is, on hosts that agents watch the account
that has it there.
"""
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import nsmallest

MOST_NAMED = 20  # files and folders of one owner
NOBODY = ""  # whose no user's is
EARLIEST_S, LATEST_S = 0, 4102444800  # 1970 to 2100: what files say of their time may be anything


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is walked through."""

    name: str  # homes, a shared folder's name, or the path; of another host `gpu07:/home`
    path: str
    of_homes: bool = False  # each folder in it is a user's home
    node: str = ""  # the host whose agent walks through it; empty: the server itself does


@dataclass(frozen=True, slots=True)
class Thing:
    """A file or a folder, by its path in its place."""

    path: str
    bytes: int
    inodes: int  # in a folder and below; 0: of a file
    used_s: int  # when a file was last read or written, since 1970; of a folder: when anything below was last written
    uid: int = 0


@dataclass(frozen=True, slots=True)
class Sort:
    """What could be removed without much regret, of one sort. Files with other names elsewhere are not in it: that would free nothing."""

    name: str
    bytes: int
    inodes: int


@dataclass(frozen=True, slots=True)
class Owned:
    top: str  # in a folder of homes: which; elsewhere on another host the account's name there; else empty
    uid: int
    bytes: int
    inodes: int
    old_bytes: int
    sorts: tuple[Sort, ...] = ()
    largest: tuple[Thing, ...] = ()
    oldest: tuple[Thing, ...] = ()  # the largest of those that nobody used for long
    folders: tuple[Thing, ...] = ()


@dataclass(frozen=True, slots=True)
class DiskLook:
    place: Place
    at: datetime
    took_s: float
    full: bool  # nothing was trusted that was kept
    bytes: int
    inodes: int
    listed: int  # folders whose files were looked at
    trusted: int  # folders that had not changed: what was kept of them counts
    unread: int  # folders that could not be read: what is in them is not known
    vanished: int = 0
    mounts: int = 0  # other file systems on the way, which were not entered
    too_deep: int = 0
    owners: tuple[Owned, ...] = ()
    folders: tuple[Thing, ...] = ()
    troubles: tuple[str, ...] = ()  # of the first that could not be read
    named: int | None = None  # files and folders that are named of each owner, where not all found a place in a report; None: all
    left_out: int = 0  # owners that found none at all: the smallest


@dataclass(frozen=True, slots=True)
class Unmeasured:
    place: Place
    at: datetime
    why: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class DiskUser:
    """What is a user's, in all places together."""

    user: str
    bytes: int
    inodes: int
    old_bytes: int
    places: tuple[tuple[str, int], ...]  # by name, the bytes there
    sorts: tuple[Sort, ...]
    largest: tuple[Thing, ...]
    oldest: tuple[Thing, ...]
    folders: tuple[Thing, ...]
    by_node: tuple[tuple[str, int], ...] = ()  # bytes on each machine; the server itself is ""


PathOf = Callable[[Place, str], str]  # how whoever reads it finds what lies there


def owner_name(owned: Owned, place: Place, users: Mapping[str, int]) -> str:
    """`users`: their uids, 0 where they have none. NOBODY: no user of ours. A uid means nothing on another host, a name does."""
    if place.of_homes or place.node:
        return owned.top if owned.top in users else NOBODY
    return next((name for name, uid in users.items() if uid and uid == owned.uid), NOBODY)


def disk_users(looks: Iterable[DiskLook], users: Mapping[str, int]) -> dict[str, DiskUser]:
    """By name, in sums; what of it is largest is told by disk_user. Who has nothing anywhere is not in it."""
    parts: dict[str, list[tuple[Place, Owned]]] = defaultdict(list)
    by_uid = {uid: name for name, uid in users.items() if uid}
    for look in looks:
        by_name = look.place.of_homes or look.place.node
        for owned in look.owners:
            name = owner_name(owned, look.place, users) if by_name else by_uid.get(owned.uid, NOBODY)
            if name != NOBODY:
                parts[name].append((look.place, owned))
    return {name: summed(name, of_user) for name, of_user in parts.items()}


def disk_user(looks: Iterable[DiskLook], user: str, uid: int, path_of: PathOf | None = None) -> DiskUser | None:
    """One user with all that is known of theirs; None: they have nothing. `path_of`: how whoever reads it finds things."""
    alone = {user: uid}
    parts = [(look.place, owned) for look in looks for owned in look.owners if owner_name(owned, look.place, alone) == user]
    if not parts:
        return None
    named = ([owned.largest for _, owned in parts], [owned.oldest for _, owned in parts], [owned.folders for _, owned in parts])
    largest, oldest, folders = (largest_of(parts, things, path_of or as_owner) for things in named)
    return replace(summed(user, parts), largest=largest, oldest=oldest, folders=folders)


def summed(user: str, parts: Sequence[tuple[Place, Owned]]) -> DiskUser:
    sorts: dict[str, Sort] = {}
    places, nodes = defaultdict[str, int](int), defaultdict[str, int](int)
    for place, owned in parts:
        places[place.name] += owned.bytes
        nodes[place.node] += owned.bytes
        for one in owned.sorts:
            before = sorts.get(one.name, Sort(one.name, 0, 0))
            sorts[one.name] = Sort(one.name, before.bytes + one.bytes, before.inodes + one.inodes)
    return DiskUser(
        user, sum(owned.bytes for _, owned in parts), sum(owned.inodes for _, owned in parts), sum(owned.old_bytes for _, owned in parts),
        tuple(places.items()), tuple(sorted(sorts.values(), key=lambda one: -one.bytes)), (), (), (), tuple(nodes.items()),
    )  # fmt: skip


def largest_of(parts: Sequence[tuple[Place, Owned]], things: Sequence[tuple[Thing, ...]], path_of: PathOf) -> tuple[Thing, ...]:
    found = [(place, thing) for (place, _), some in zip(parts, things, strict=True) for thing in some]
    most = nsmallest(MOST_NAMED, found, key=lambda pair: (-pair[1].bytes, pair[0].name, pair[1].path))  # of many hosts few are shown
    whole = [replace(thing, path=path_of(place, thing.path)) for place, thing in most]
    return tuple(sorted(whole, key=lambda thing: (-thing.bytes, thing.path)))


def as_owner(place: Place, path: str) -> str:
    """As whoever owns it finds it: `~/data`, where homes lie is nobody's affair; elsewhere under the name of its place."""
    if not place.of_homes:
        return f"{place.name.rstrip('/')}/{path}"
    _, below, rest = path.partition("/")
    return f"{place.node}:~{below}{rest}" if place.node else f"~{below}{rest}"


def as_admin(place: Place, path: str) -> str:
    """On another host by its whole path there: `gpu07:/home/kim/data`."""
    return f"{place.name.rstrip('/')}/{path}" if place.node else as_owner(place, path)


def is_home(path: str) -> bool:
    """As its owner finds it: the home itself, here or on another host."""
    return path == "~" or (path.endswith(":~") and "/" not in path)


def folders_within(look: DiskLook, below: str = "") -> tuple[Thing, ...]:
    """Those of the whole place, the largest first; or those in one of its folders."""
    prefix = f"{below}/" if below else ""
    found = [thing for thing in look.folders if thing.path.startswith(prefix)]
    return tuple(sorted(found, key=lambda thing: (-thing.bytes, thing.path)))


def used_at(thing: Thing) -> datetime | None:
    """None: what it says of itself can hardly be."""
    return datetime.fromtimestamp(thing.used_s, UTC) if EARLIEST_S < thing.used_s < LATEST_S else None


def outermost(places: Sequence[Place]) -> tuple[Place, ...]:
    """Without those that lie in another: they are walked through with it. Of two with the same path the first."""
    kept: list[Place] = []
    for place in places:
        others = [other for other in places if other is not place]
        inside = any(is_within(place.path, other.path) and place.path != other.path for other in others)
        if not inside and all(place.path != one.path for one in kept):
            kept.append(place)
    return tuple(kept)


def is_within(path: str, folder: str) -> bool:
    """Compared part by part: /data2 is not in /data."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
