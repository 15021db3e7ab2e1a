"""What both clients can do about backups: mixed into `Fairy` and `AsyncFairy`."""
from typing import Any

from gpufairy.client.protocol import Call, path_of
from gpufairy.client.transport import Transport

BACKUP_LIMIT_S = 3600.0  # all of the database is copied, packed and read back


def backups_call() -> Call:
    return Call("GET", path_of("backups"))


def make_call() -> Call:
    return Call("POST", path_of("backups"), {}, limit_s=BACKUP_LIMIT_S)


class BackupMethods:
    _transport: Transport

    def backups(self) -> Any:
        """{"items": […], "folder": …, "next_at": …}, the newest first."""
        return self._transport.ask(backups_call())

    def make_backup(self) -> Any:
        """On the server, in the folder of its settings. Comes back when it was read back and found whole."""
        return self._transport.ask(make_call())


class AsyncBackupMethods:
    async def _ask(self, call: Call) -> Any:
        raise NotImplementedError

    async def backups(self) -> Any:
        return await self._ask(backups_call())

    async def make_backup(self) -> Any:
        return await self._ask(make_call())
