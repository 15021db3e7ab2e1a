"""`fairy restore`: puts a backup back in place, on this machine and with no server running on it."""
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, one_command
from gpufairy.cli.words import print_json
from gpufairy.client.local_server import find_running
from gpufairy.core.amounts import show_count
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.main.folders import data_folder
from gpufairy.main.say import say_line
from gpufairy.main.upkeep_places import found_places
from gpufairy.store.restore import Restored, check_backup, restore_backup

File = Annotated[Path, typer.Argument(metavar="FILE", help="A backup: fairy-….tar.gz")]
Check = Annotated[bool, typer.Option("--check", help="Only read all of it, and say whether it is good. Changes nothing.")]


def _restore(
    file: File,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder. Else ~/.local/share/gpufairy.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's fairy.toml, for PostgreSQL.")] = None,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup back in place. What was there is kept aside; homes and running sessions are not touched."""
    if not file.is_file():
        raise BadInput(f"there is no backup {file}", "See `fairy backup list`.")
    folder = data_folder(data, dict(os.environ))
    if check:
        done = check_backup(file, folder)
    else:
        refuse_while_running(folder)
        done = restore_backup(file, found_places(folder, config).sources, datetime.now(UTC))
    if as_json:
        print_json(shape(done, folder, checked_only=check))
        return
    tell(done, file, folder, checked_only=check)


restore = one_command(_restore, "fairy restore --check fairy-20261116T023000Z.tar.gz\nfairy restore fairy-20261116T023000Z.tar.gz")


def refuse_while_running(folder: Path) -> None:
    server = find_running(os.environ, folder)
    if server is not None:
        raise Conflict(f"a server runs on {folder} (process {server.pid})", "Stop it first: fairy down. Sessions run on.")


def shape(done: Restored, folder: Path, *, checked_only: bool) -> dict[str, object]:
    manifest = done.manifest
    return {
        "restored": not checked_only, "data": str(folder), "made_at": manifest.made_at.isoformat(), "version": manifest.version,
        "schema": manifest.schema, "counts": dict(manifest.counts), "aside": None if done.aside is None else str(done.aside),
        "settings": None if done.settings is None else str(done.settings), "waiting": done.waiting,
    }  # fmt: skip


def tell(done: Restored, file: Path, folder: Path, *, checked_only: bool) -> None:
    made, counts = done.manifest.made_at.astimezone(), done.manifest.counts
    people, sessions = show_count(counts.get("users", 0), "user"), show_count(counts.get("sessions", 0), "session")
    holds = f"{people}, {sessions}, {show_count(counts.get('holds', 0), 'seat')} of the ledger"
    if checked_only:
        say_line(f"{file.name} is good: made {made:%Y-%m-%d %H:%M} by gpufairy {done.manifest.version}, with {holds}. Nothing was changed.")
        return
    say_line(f"Restored to {made:%Y-%m-%d %H:%M}: {holds}. Start the server: fairy up")
    if done.aside is not None:
        say_line(f"What was there is in {done.aside}; remove it when all is well.")
    if done.settings is not None:
        say_line(f"The settings of then are in {done.settings}; those in force were left as they are.")
    if done.waiting:
        waited = show_count(done.waiting, "session")
        say_line(f"{waited} waited then, so they wait again, even those that have run since: fairy queue")
