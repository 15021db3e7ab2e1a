"""`fairy backup`: asks the server for one; or makes it here, from the data folder, with a server or without."""
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_size
from gpufairy.main.folders import data_folder
from gpufairy.main.say import say_line
from gpufairy.main.upkeep_places import existing_data, found_places
from gpufairy.store.backup import Backup, backup_name, list_backups, make_backup

app = group(
    "Back up users, sessions, the ledger, settings and keys, while the server runs; read back before it counts.",
    "fairy backup\nfairy backup --to /mnt/backups\nfairy backup list", means_something_alone=True,
)  # fmt: skip

To = Annotated[Path | None, typer.Option("--to", metavar="FOLDER", help="Write it here, from this machine's data folder.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder. Without --to and --data the server makes it.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's fairy.toml. Else that of its last start.")]
History = Annotated[bool, typer.Option("--history", help="With --to or --data: fine readings too, not only those by the hour.")]
COLUMNS = ["MADE", "NAME", "SIZE", "VERSION", "WHY"]


@app.callback(invoke_without_command=True)
def backup(
    ctx: typer.Context, *, to: To = None, data: Data = None, config: ConfigFile = None, history: History = False, as_json: AsJson = False
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    if to is None and data is None:
        with connect(ctx) as fairy:
            made = fairy.make_backup()
    else:
        made = shape(made_here(to, data, config, history=history))
    if as_json:
        print_json(made)
        return
    say_line(f"{safe(made['path'])}: {show_size(int(made['size_bytes']))}, read back and found whole")
    counts = made["counts"]
    whose = f"{show_count(counts.get('users', 0), 'user')} and {show_count(counts.get('sessions', 0), 'session')}"
    say_line(f"{show_count(sum(counts.values()), 'row')}, of {whose}")


@app.command("list", epilog=example_text("fairy backup list"))
def list_(ctx: typer.Context, to: To = None, as_json: AsJson = False) -> None:
    """Show the backups there are, the newest first."""
    if to is None:
        with connect(ctx) as fairy:
            answer = fairy.backups()
    else:
        answer = {"items": [shape(one) for one in list_backups(to)], "folder": str(to), "next_at": None, "trouble": None}
    if as_json:
        print_json(answer)
        return
    if answer["items"]:
        print_table(COLUMNS, [row(one) for one in answer["items"]])
    else:
        say_line(f"No backups in {safe(answer['folder'])}. Make one: fairy backup")
    if answer["trouble"]:
        say_line(f"The last try failed: {safe(answer['trouble'])}")
    if answer["next_at"]:
        say_line(f"The next is made {clock_of(answer['next_at'])}.")


def made_here(to: Path | None, data: Path | None, config: Path | None, *, history: bool) -> Backup:
    folder = existing_data(data_folder(data, dict(os.environ)))
    places, now = found_places(folder, config), datetime.now(UTC)
    why = "asked for on the command line"
    target = places.backups if to is None else to.resolve()
    return make_backup(places.sources, target, name=backup_name(now), why=why, now=now, history=history)


def shape(backup: Backup) -> Record:
    """As the API tells it."""
    manifest = backup.manifest
    told: Record = {"name": backup.path.name, "path": str(backup.path), "size_bytes": backup.size_bytes, "trouble": backup.trouble or None}
    if manifest is None:
        return {**told, "made_at": None, "verified": False, "version": None, "schema": None, "why": None, "history": None, "counts": None}
    made_at = manifest.made_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        **told, "made_at": made_at, "verified": True, "version": manifest.version, "schema": manifest.schema, "why": manifest.why,
        "history": manifest.history, "counts": dict(manifest.counts),
    }  # fmt: skip


def row(backup: Record) -> list[str]:
    why = safe(backup["why"]) if backup["why"] else f"cannot be read: {safe(backup['trouble'])}"
    made = clock_of(backup["made_at"]) if backup["made_at"] else "?"
    return [made, safe(backup["name"]), show_size(int(backup["size_bytes"])), safe(backup["version"] or ""), why]
