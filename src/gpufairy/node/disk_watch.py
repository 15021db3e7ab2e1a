"""DiskWatch: walks through folders of this host, one after the other and never two at once, and keeps what it found for the server."""
import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from gpufairy.core.disk import DiskLook, Owned, Place, Unmeasured
from gpufairy.core.disk_due import WalkPace, is_due, is_full_due, spread
from gpufairy.node.accounts import unnamed
from gpufairy.node.disk_places import HostFolders
from gpufairy.node.disk_untold import Untold, report_of
from gpufairy.node.reporter import Sent

log = logging.getLogger("gpufairy.agent")

TURN_S = 60.0  # how often it is seen whether something is due
SETTLING = timedelta(minutes=2)  # after the start of a host its disks are wanted by others
SPREAD_FIRST = timedelta(minutes=5)  # over which hosts that were started together begin
SPREAD_NIGHT = timedelta(hours=1)
MOST_TOLD = 4  # places between two reports of samples: each may be of 1 MiB
TRY_AGAIN_S = 30.0  # to tell the server, after it could not take it
ROOT_UID = 0


class Walk(Protocol):
    def __call__(self, place: Place, now: datetime, *, full: bool) -> Awaitable[DiskLook | Unmeasured]: ...


Tell = Callable[[str, bytes], Awaitable[Sent]]


@dataclass(frozen=True, slots=True)
class Walked:
    """When a place was last tried, and last walked through in full."""

    tried: datetime
    full: datetime | None


class DiskWatch:
    def __init__(
        self, folders: HostFolders, walk: Walk, untold: Untold, accounts: Callable[[int], str], state: Path, *,
        pace: WalkPace = WalkPace(), clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        """`state`: a file that says when each place was last walked through, so that a restart starts no walk."""
        self._folders, self._walk, self._untold, self._accounts = folders, walk, untold, accounts
        self._state, self._pace, self._clock = state, pace, clock
        self._walked = read_state(state)
        self._wake, self._wish, self._asked = asyncio.Event(), "", False
        self._began = clock()
        self._places = folders.places()
        self._try_again_s = 0.0
        untold.keep_places()

    def ask(self, wish: str) -> None:
        """An admin wants it now. The same wish is told with many answers, and counts once."""
        if wish != self._wish:
            self._wish, self._asked = wish, True
            self._wake.set()

    async def keep_walking(self) -> None:
        """For ever."""
        while True:
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_S):
                    await self._wake.wait()
            self._wake.clear()

    async def look(self) -> None:
        """One turn: every place whose time has come."""
        asked, self._asked = self._asked, False
        settled = self._clock() - self._began >= SETTLING + spread(self._folders.node, SPREAD_FIRST)
        self._places = self._folders.places()
        for place in self._places if asked or settled else ():
            now, last = self._clock(), self._walked.get(place.path)
            full = self._is_full_due(last, now)
            if asked or is_due(None if last is None else last.tried, now, self._pace, full=full):
                await self._walk_through(place, now, full=full)

    async def tell(self, tell: Tell) -> None:
        """Some of what waits, if the server is there: samples are more urgent, and come between."""
        now_s = asyncio.get_running_loop().time()
        paths = [place.path for place in self._places]
        for _ in range(MOST_TOLD if now_s >= self._try_again_s else 0):
            waiting = self._untold.first(paths)
            if waiting is None:
                return
            sent = await tell("disk", report_of(waiting.told, paths, self._clock()))
            if sent is Sent.NOT_NOW:
                self._try_again_s = now_s + TRY_AGAIN_S
                return
            self._untold.taken(waiting)

    def _is_full_due(self, last: Walked | None, now: datetime) -> bool:
        later = spread(self._folders.node, SPREAD_NIGHT)
        full = None if last is None or last.full is None else (last.full - later).astimezone()
        return is_full_due(full, (now - later).astimezone(), self._pace.nightly)

    async def _walk_through(self, place: Place, now: datetime, *, full: bool) -> None:
        there = self._folders.here(place)
        found = await self._walk(there, now, full=full)
        if isinstance(found, Unmeasured):
            words = found.why.replace(there.path, place.path)
            log.warning("disk: %s", words)
            await asyncio.to_thread(self._untold.keep, replace(found, place=place, why=words))
        else:
            log.info("disk: %s walked through in %.1f s, %d folders looked into", place.path, found.took_s, found.listed)
            await asyncio.to_thread(self._keep, replace(found, place=place))
        went_well = isinstance(found, DiskLook)
        before = self._walked.get(place.path)
        self._walked[place.path] = Walked(now, now if full and went_well else None if before is None else before.full)
        write_state(self._state, self._walked)

    def _keep(self, look: DiskLook) -> None:
        """Aside: a directory of accounts may be slow."""
        owners = look.owners if look.place.of_homes else tuple(self._named(one) for one in look.owners)
        self._untold.keep(replace(look, owners=owners))

    def _named(self, owned: Owned) -> Owned:
        """Root's is the host's own, and of no user who happens to be called so."""
        name = "" if owned.uid == ROOT_UID else self._accounts(owned.uid)
        return replace(owned, top="" if name == unnamed(owned.uid) else name)


def read_state(file: Path) -> dict[str, Walked]:
    """Nothing, where it cannot be read: then the next walk is in full."""
    try:
        kept = json.loads(file.read_bytes())
        return {path: Walked(moment(tried), None if full is None else moment(full)) for path, (tried, full) in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return {}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def write_state(file: Path, walked: dict[str, Walked]) -> None:
    kept = {path: [one.tried.timestamp(), None if one.full is None else one.full.timestamp()] for path, one in walked.items()}
    with contextlib.suppress(OSError):  # then a restart walks in full once more
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(kept))
        beside.replace(file)
