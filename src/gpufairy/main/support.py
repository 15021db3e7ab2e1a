"""`fairy support-bundle`: one file for whoever helps, without secrets, and without people's names unless you say so."""
import io
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, one_command
from gpufairy.cli.table import COMMANDS
from gpufairy.cli.words import print_json
from gpufairy.client.local_server import find_running
from gpufairy.core.errors import BadInput
from gpufairy.core.mask import Mask
from gpufairy.main import support_parts as parts
from gpufairy.main.folders import data_folder
from gpufairy.main.say import say_line
from gpufairy.main.upkeep_places import Places, existing_data, found_places, sqlite_url
from gpufairy.store.backup import Sources
from gpufairy.wire.config import Config

READ_ME = """Made by `fairy support-bundle`. Secrets, addresses of people and webhooks are masked{names}. Read it before you send it.
"""


def _support_bundle(
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Else fairy-support-DATE.tar.gz here.")] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder. Else ~/.local/share/gpufairy.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Leave the names of users as they are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Gather versions, settings, states, counts and the last logs for whoever helps you. Secrets are masked."""
    folder = existing_data(data_folder(data, dict(os.environ)))
    target = to or Path(f"fairy-support-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    places, trouble = readable_places(folder)
    written = write_bundle(target, places, trouble, with_names=names)
    if as_json:
        print_json({"path": str(target.resolve()), "files": written, "names": names})
        return
    say_line(f"{target}: {', '.join(written)}")
    say_line("Secrets are masked. Read it before you send it: tar xzf, then any editor.")


support_bundle = one_command(_support_bundle, "fairy support-bundle --to /tmp/for-support.tar.gz")


def readable_places(folder: Path) -> tuple[Places, str]:
    """Settings that cannot be read are just what somebody may need help with; what they say is not told then."""
    try:
        return found_places(folder, None), ""
    except BadInput:
        return Places(folder, Config(), None), "the settings file cannot be read: see what `fairy up` says of it"


def write_bundle(target: Path, places: Places, trouble: str, *, with_names: bool) -> list[str]:
    found = gathered(places, trouble)
    mask = mask_for(places, with_names=with_names)
    found["README"] = READ_ME.format(names="" if with_names else "; users are numbered")
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
            for name, text in found.items():
                body = mask.text(text).encode(errors="replace")
                member = tarfile.TarInfo(f"fairy-support/{name}")
                member.size, member.mode = len(body), 0o600
                tar.addfile(member, io.BytesIO(body))
    except OSError as error:
        raise BadInput(f"the bundle could not be written to {target}: {error.strerror}", "Name another file with --to.") from None
    return list(found)


def gathered(places: Places, trouble: str) -> dict[str, str]:
    server = find_running(os.environ, places.data)
    states = {"running": server is not None, "pid": None if server is None else server.pid, "settings": trouble or "read"}
    told = {
        "about.json": parts.about(), "settings.json": parts.settings(places.config), "server.json": states,
        "database.json": parts.database(places.sources.sqlite_file), "disk.json": parts.disk(places.data, places.backups),
    }  # fmt: skip
    found = {name: json.dumps(value, indent=1, default=str) for name, value in told.items()}
    if "doctor" in COMMANDS:
        found["doctor.json"] = parts.doctor()
    return {**found, **{f"logs/{name}": text for name, text in parts.logs(places.data)}}


def mask_for(places: Places, *, with_names: bool) -> Mask:
    sources, default = places.sources, Sources(sqlite_url(places.data), places.data)  # which the settings may no longer name
    secrets = {*parts.secrets_of(places.data, places.config, sources), *parts.secrets_of(places.data, Config(), default)}
    people = [] if with_names else sorted({*parts.people_of(sources), *parts.people_of(default)})
    return Mask(tuple(secrets), {name: f"user-{number}" for number, name in enumerate(people, 1)})
