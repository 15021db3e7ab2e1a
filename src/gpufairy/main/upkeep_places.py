"""Where a server keeps its database, its settings file and its backups: found again by commands that speak to no server."""
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.store.backup import Sources
from gpufairy.wire.config import Config, load_config

SETTINGS_NOTE = "settings-file"  # in the data folder: which fairy.toml the server was last started with
BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class Places:
    data: Path
    config: Config
    settings_file: Path | None

    @property
    def sources(self) -> Sources:
        return Sources(self.config.server.store or sqlite_url(self.data), self.data, self.settings_file)

    @property
    def backups(self) -> Path:
        return backups_folder(self.data, self.config)


def sqlite_url(data: Path) -> str:
    return f"sqlite:///{data / 'fairy.db'}"


def backups_folder(data: Path, config: Config) -> Path:
    return Path(config.backup.to) if config.backup.to else data / BACKUPS


def note_settings(data: Path, settings_file: Path | None) -> None:
    (data / SETTINGS_NOTE).write_text("" if settings_file is None else f"{settings_file.resolve()}\n")


def noted_settings(data: Path) -> Path | None:
    try:
        found = (data / SETTINGS_NOTE).read_text().strip()
    except OSError:
        return None
    return Path(found) if found else None


def found_places(data: Path, config: Path | None) -> Places:
    """`config`: named now; None: the one of the last start."""
    settings_file = config or noted_settings(data)
    if config is None and settings_file is not None and not settings_file.is_file():
        settings_file = None
    return Places(data, load_config(settings_file), settings_file)


def existing_data(data: Path) -> Path:
    """A folder that a server has used. Raises NoSuchThing: there is none."""
    if not data.is_dir():
        raise NoSuchThing(f"there is no data folder {data}", "Name the one of your server with --data.")
    try:
        next(data.iterdir(), None)
    except PermissionError:
        raise BadInput(f"the data folder {data} is not yours to read", "Run it as the user who runs the server, such as root.") from None
    return data
