"""Manifest: what a backup says of itself, and what it must be to be believed. Only names on the list below are ever taken out of one."""
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

FORMAT = 1
NAME = "manifest.json"
SQLITE, POSTGRESQL = "fairy.db", "database.pgdump"
SETTINGS = "settings/fairy.toml"
# Of the data folder: what cannot be made again. Without the host keys every client warns, without the id no container is found.
KEPT = ("server-id", "apps.json", "ssh/host_ed25519", "ssh/host_rsa")
DATA = "data/"
ALLOWED = frozenset({SQLITE, POSTGRESQL, SETTINGS, *(DATA + name for name in KEPT)})
LARGEST_MANIFEST = 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")
MADE_BY = "Was it made by `fairy backup`? Take another."


@dataclass(frozen=True, slots=True)
class PackedFile:
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    made_at: datetime
    version: str  # of the program that made it
    schema: str  # of its tables: the number of the last migration
    why: str
    history: bool  # the fine readings are in it too
    counts: Mapping[str, int]  # rows, by table
    files: tuple[PackedFile, ...]

    @property
    def database(self) -> str:
        return next(file.name for file in self.files if file.name in (SQLITE, POSTGRESQL))

    def to_text(self) -> str:
        written = {"format": FORMAT, **asdict(self), "made_at": self.made_at.isoformat()}
        return json.dumps(written, indent=1) + "\n"


def manifest_from_text(text: str) -> Manifest:
    try:
        read = json.loads(text)
        if read["format"] != FORMAT:
            raise BadInput(f"this backup has format {shown(str(read['format']))}, not {FORMAT}", "A newer gpufairy made it: use that one.")
        made = Manifest(
            datetime.fromisoformat(read["made_at"]), str(read["version"]), str(read["schema"]), str(read["why"]), bool(read["history"]),
            {str(table): int(rows) for table, rows in read["counts"].items()}, tuple(file_from(one) for one in read["files"]),
        )  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BadInput(f"the backup's manifest cannot be read: {str(error)[:100]}", MADE_BY) from None
    check(made)
    return made


def file_from(read: Mapping[str, Any]) -> PackedFile:
    return PackedFile(str(read["name"]), int(read["size_bytes"]), str(read["sha256"]))


def check(manifest: Manifest) -> None:
    names = [file.name for file in manifest.files]
    strange = next((name for name in names if name not in ALLOWED), None)
    if strange is not None:
        raise BadInput(f"the backup holds {shown(strange)}, which no backup of ours does: nothing was taken out of it", MADE_BY)
    if len(set(names)) != len(names) or sum(name in (SQLITE, POSTGRESQL) for name in names) != 1:
        raise BadInput("the backup's manifest names a file twice, or not exactly one database", MADE_BY)
    if any(file.size_bytes < 0 or not _SHA256.fullmatch(file.sha256) for file in manifest.files):
        raise BadInput("the backup's manifest has a size or a checksum that is none", MADE_BY)
    if manifest.made_at.tzinfo is None:
        raise BadInput("the backup's manifest does not say when it was made", MADE_BY)
