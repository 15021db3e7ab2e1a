"""Upkeep, built as the settings ask for it: backups, also the one before an upgrade; what is over removed; logs begun anew."""
import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from gpufairy import __version__
from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.backup import Backups, BackupSettings
from gpufairy.control.house import House
from gpufairy.control.loop import Loop
from gpufairy.control.upkeep import Upkeep, UpkeepSettings
from gpufairy.core.errors import BadInput
from gpufairy.engines.old_files import OldFiles
from gpufairy.main.upkeep_places import Places, note_settings
from gpufairy.store.backup import BEFORE_UPGRADE, STAMP, make_backup
from gpufairy.store.backup_sqlite import meta_in
from gpufairy.wire.config import Config

log = logging.getLogger("gpufairy.upkeep")

PROGRAM = "program_version"  # in the meta table: who wrote this database last
LOGS = ("server.log", "ssh/gateway.log")


class Upkeeping:
    def __init__(self, data: Path, config: Config, settings_file: Path | None) -> None:
        self._places, self._config = Places(data, config, settings_file), config

    @property
    def store_url(self) -> str:
        return self._places.sources.store_url

    def before_upgrade(self, found: str) -> str:
        """In a thread. Where what was there is kept, in words."""
        sources, now = self._places.sources, datetime.now(UTC)
        made_by = (sources.sqlite_file and meta_in(sources.sqlite_file, PROGRAM)) or f"form-{found}"
        name = f"{BEFORE_UPGRADE}{made_by}-{now:{STAMP}}"
        why = f"before the upgrade from form {found} to gpufairy {__version__}"
        log.info("the database is of an older version: a backup is made before it is upgraded")
        try:
            made = make_backup(sources, self._places.backups, name=name, why=why, now=now, history=True)
        except BadInput as error:  # PostgreSQL without its programs: its own backups must do
            log.warning("no backup was made before this upgrade: %s. %s", error.detail, error.next_step)
            return "No backup was made of it"
        log.info("before the upgrade, the database was kept as %s", made.path)
        return f"What was there is also kept as {made.path}"

    async def backups(self, house: House, desk: AlertDesk) -> Backups:
        note_settings(self._places.data, self._places.settings_file)
        await house.store.meta.put(PROGRAM, __version__)
        wanted = self._config.backup
        settings = BackupSettings(self._places.backups, wanted.period, wanted.hour, wanted.to_rule(), wanted.history)
        backups = Backups(house, self._places.sources, settings)
        await backups.load()
        desk.watch.sources.last_backup = backups.last_good_at
        return backups

    def loops(self, house: House, backups: Backups) -> list[Loop]:
        keep, data = self._config.keep, self._places.data
        files = OldFiles(data / "tools", tuple(data / name for name in LOGS), keep.log_bytes)
        upkeep = Upkeep(house, UpkeepSettings(keep.to_keeps(), keep.hour), files)
        return [
            Loop("backup", backups.look, asyncio.Event(), every_s=60),
            Loop("upkeep", upkeep.look, asyncio.Event(), every_s=60),
        ]
