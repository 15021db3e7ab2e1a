"""Backups: made when they are due or asked for, kept by the rule, and told: in the events, to the alerts, on the page."""
import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from pathlib import Path

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.backup_keep import KeepRule, next_backup, to_keep
from gpufairy.core.errors import FairyError
from gpufairy.store.backup import BEFORE_UPGRADE, PREFIX, Backup, Sources, backup_name, list_backups, make_backup, remove_backup

log = logging.getLogger("gpufairy.backup")

SINCE = "backups_since"  # in the meta table: when the server began to make them. Until one went well, its age counts from here
AGAIN_AFTER = timedelta(hours=1)  # one that failed
UPGRADES_KEPT = 3  # backups from before an upgrade


@dataclass(frozen=True, slots=True)
class BackupSettings:
    folder: Path
    every: timedelta | None = timedelta(days=1)  # None: only when asked
    at: time = time(2, 30)
    rule: KeepRule = field(default_factory=KeepRule)
    history: bool = False


class Backups:
    def __init__(self, house: House, sources: Sources, settings: BackupSettings) -> None:
        self._house, self._sources, self.settings = house, sources, settings
        self._started = house.clock()
        self._since: datetime | None = None
        self._tried_at: datetime | None = None
        self._one_at_a_time = asyncio.Lock()
        self._begun: asyncio.Task[None] | None = None
        self.found: Sequence[Backup] = ()  # the newest first
        self.trouble = ""  # of the last try; empty: it went well
        self.under_way = False

    async def load(self) -> None:
        """A folder that cannot be read keeps nobody from starting: it is told when the next backup is due."""
        if self.settings.every is not None:
            self._since = datetime.fromisoformat(await self._house.store.meta.put_once(SINCE, self._house.clock().isoformat()))
        try:
            self.found = await asyncio.to_thread(list_backups, self.settings.folder)
        except FairyError as error:
            self.trouble = error.detail
            log.warning("%s", error.detail)

    @property
    def last(self) -> Backup | None:
        """The newest that can be read."""
        return next((one for one in self.found if one.manifest is not None), None)

    def last_good_at(self) -> datetime | None:
        """For the alerts: where none went well yet, since when that is so. None: nobody wants any here."""
        made_at = None if self.last is None else self.last.made_at
        return made_at if made_at is not None else self._since

    def next_at(self) -> datetime | None:
        if self.settings.every is None:
            return None
        last = None if self.last is None else self.last.made_at
        due = next_backup(here(last), self._started.astimezone(), self.settings.every, self.settings.at)
        again = None if self._tried_at is None or not self.trouble else (self._tried_at + AGAIN_AFTER).astimezone()
        return due if again is None else max(due, again)

    async def look(self) -> None:
        """A loop's turn."""
        due = self.next_at()
        if due is None or self._house.clock() < due or self.under_way:
            return
        before = self.trouble
        try:
            await self.make("", "scheduled")
        except FairyError as error:
            # Not left to the loop, which would try again within seconds: a full disk is not emptied so soon.
            log.warning("the backup failed: %s; again in an hour", error)
            if error.detail != before:  # once, however often it is tried
                await note(self._house, "", "backup:scheduled", "backup_failed", error.detail)
            return
        await self._remove_old()

    def begin(self, actor: str) -> None:
        """For a page, which does not wait: how it went stands there afterwards."""
        if not self.under_way:
            self.under_way = True
            self._begun = asyncio.create_task(self._made_for(actor))

    async def _made_for(self, actor: str) -> None:
        try:
            await self.make(actor, f"asked for by {actor}")
        except FairyError as error:
            log.warning("the backup that %s asked for failed: %s", actor, error)

    async def make(self, actor: str, why: str) -> Backup:
        """In a thread; one at a time."""
        async with self._one_at_a_time:
            now = self._house.clock()
            self._tried_at, self.under_way = now, True
            try:
                made = await self._made(backup_name(now), why, now)
            except FairyError as error:
                self.trouble = error.detail
                raise
            finally:
                self.under_way = False
                self._house.bells.sessions_changed([])
            self.trouble, self.found = "", (made, *self.found)
        words = f"{show_size(made.size_bytes)}, read back and found whole"
        await note(self._house, actor, f"backup:{made.path.name}", "backup_made", words)
        return made

    async def _made(self, name: str, why: str, now: datetime) -> Backup:
        settings = self.settings
        return await asyncio.to_thread(
            lambda: make_backup(self._sources, settings.folder, name=name, why=why, now=now, history=settings.history)
        )

    async def _remove_old(self) -> None:
        """Of those of the server's own making, by the rule; of those from before an upgrade the newest few."""
        own = [one for one in self.found if one.made_at is not None and one.path.name.startswith(PREFIX)]
        kept = to_keep([at for one in own if (at := here(one.made_at)) is not None], self.settings.rule)
        upgrades = [one for one in self.found if one.made_at is not None and one.path.name.startswith(BEFORE_UPGRADE)]
        gone = [*(one for one in own if here(one.made_at) not in kept), *upgrades[UPGRADES_KEPT:]]
        for one in gone:
            await asyncio.to_thread(remove_backup, one)
            log.info("backup %s was removed: newer ones are kept", one.path.name)
        self.found = [one for one in self.found if one not in gone]


def here(at: datetime | None) -> datetime | None:
    """In the zone of this machine: days and hours are those of the people who keep it."""
    return None if at is None else at.astimezone()

