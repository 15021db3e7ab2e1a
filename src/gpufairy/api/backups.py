"""Routes of backups: those that there are, and making one now."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.backup import Backups
from gpufairy.core.errors import Conflict
from gpufairy.store.backup import Backup


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["upkeep"])

    @router.get("/backups")
    async def backups() -> dict[str, Any]:
        """Backups on the server, the newest first, and when the next is made."""
        found = backups_of(context)
        return {"items": [backup_shape(one) for one in found.found], "next": None, **settings_shape(found)}

    @router.post("/backups", status_code=201)
    async def make(request: Request) -> dict[str, Any]:
        """Make one now, in the folder of the settings. Answers when it was read back and found whole."""
        user = caller_of(request).user.name
        return backup_shape(await backups_of(context).make(user, f"asked for by {user}"))

    return router


def backups_of(context: Context) -> Backups:
    if context.backups is None:
        raise Conflict("there are no backups on this server", "Start it with `fairy up`.")
    return context.backups


def backup_shape(backup: Backup) -> dict[str, Any]:
    manifest = backup.manifest
    return {
        "name": backup.path.name, "path": str(backup.path), "size_bytes": backup.size_bytes, "made_at": moment(backup.made_at),
        "verified": manifest is not None, "trouble": backup.trouble or None,
        "version": None if manifest is None else manifest.version, "schema": None if manifest is None else manifest.schema,
        "why": None if manifest is None else manifest.why, "history": None if manifest is None else manifest.history,
        "counts": None if manifest is None else dict(manifest.counts),
    }  # fmt: skip


def settings_shape(backups: Backups) -> dict[str, Any]:
    return {
        "folder": str(backups.settings.folder), "next_at": moment(backups.next_at()), "under_way": backups.under_way,
        "trouble": backups.trouble or None,
    }  # fmt: skip
