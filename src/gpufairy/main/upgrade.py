"""`fairy upgrade --check`: what this version would do to the database of a server, tried on a copy."""
import asyncio
import os
import tempfile
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from gpufairy import __version__
from gpufairy.cli.options import AsJson, one_command
from gpufairy.cli.words import print_json
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.main.folders import data_folder
from gpufairy.main.say import say_line
from gpufairy.main.upkeep import PROGRAM
from gpufairy.main.upkeep_places import existing_data, found_places, sqlite_url
from gpufairy.store.backup_sqlite import copy_database, meta_in, schema_in
from gpufairy.store.migrate import KNOWN
from gpufairy.store.store import Store


@dataclass(frozen=True, slots=True)
class Checked:
    found: str | None  # the form of its tables
    known: str
    made_by: str | None  # which version wrote it last
    version: str
    steps: int  # migrations to come
    tried: bool  # on a copy, and it went well


def _upgrade(
    check: Annotated[bool, typer.Option("--check", help="Try it on a copy of the database. Changes nothing.")] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder. Else ~/.local/share/gpufairy.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Its fairy.toml. Else that of its last start.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what the first start of this version does to the database, and try it on a copy. The server may run meanwhile."""
    if not check:
        raise BadInput("upgrade: the upgrade itself is done by the first start of the new version", "Try it before with --check.")
    places = found_places(existing_data(data_folder(data, dict(os.environ))), config)
    file = places.sources.sqlite_file
    if file is None:
        raise BadInput("upgrade --check: the database is PostgreSQL, which is not copied", "Make a backup first: fairy backup.")
    if not file.is_file():
        raise NoSuchThing(f"there is no database {file}", "Name the data folder of your server with --data.")
    found = checked(file)
    if as_json:
        print_json(asdict(found))
    else:
        tell(found)


upgrade = one_command(_upgrade, "fairy upgrade --check --data /var/lib/gpufairy")


def checked(file: Path) -> Checked:
    """Raises StoreUnavailable, with the words of a real start, if it would fail."""
    found = schema_in(file)
    steps = 0 if found not in KNOWN else len(KNOWN) - 1 - KNOWN.index(found)
    with tempfile.TemporaryDirectory(prefix="fairy-upgrade-", dir=file.parent) as folder:
        copy = Path(folder)
        copy_database(file, copy / "fairy.db", history=True)
        asyncio.run(try_on(copy))
    return Checked(found, KNOWN[-1], meta_in(file, PROGRAM), __version__, steps, tried=True)


async def try_on(folder: Path) -> None:
    store = await Store.open(sqlite_url(folder), holder="fairy upgrade --check", half_life=timedelta(days=7))
    await store.close()


def tell(found: Checked) -> None:
    before = f"gpufairy {found.made_by}" if found.made_by else "an older gpufairy"
    if not found.steps:
        say_line(f"Nothing to do: the database, last written by {before}, has the form {found.found} that gpufairy {found.version} knows.")
        return
    say_line(f"The first start of gpufairy {found.version} takes the database from form {found.found} (of {before}) to {found.known}.")
    say_line(f"Its {found.steps} steps were tried on a copy, and went well. A backup is made by itself right before it.")
