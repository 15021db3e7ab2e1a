"""Admin: settings as they are now, beside their defaults and what they are for. Read-only: they are changed in fairy.toml."""
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from gpufairy.web.admin import show_admin
from gpufairy.web.asked import Language, asked
from gpufairy.web.context import PageContext
from gpufairy.web.speech import _, ngettext
from gpufairy.wire.config import Config

PLACES = (Path(__file__).parent, Path(__file__).parents[3] / "docs")  # of a wheel, of a clone
FILES = {Language.EN: "settings.md", Language.KO: "settings.ko.md"}
SECTION = re.compile(r"^## `\[([a-z_]+)(?:\.NAME)?\]`$")
ROW = re.compile(r"^\| `([a-z_]+)` \| (.*?) \| (.*) \|$")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
BREAK = " | "


@dataclass(frozen=True, slots=True)
class Documented:
    default: str
    what: str
    example: str


@dataclass(frozen=True, slots=True)
class SettingRow:
    name: str
    value: str
    default: str
    what: str
    changed: bool


@dataclass(frozen=True, slots=True)
class SettingsSection:
    name: str
    rows: tuple[SettingRow, ...]


def add_settings(router: APIRouter, context: PageContext) -> None:
    @router.get("/admin/settings")
    async def settings(request: Request) -> Response:
        sections = settings_sections(context.config or Config(), documentation(asked().language))
        return show_admin(request, "settings", answer=answer(sections), settings=sections)


def answer(sections: list[SettingsSection]) -> str:
    changed = sum(row.changed for section in sections for row in section.rows)
    if not changed:
        return _("Every setting is as it comes.")
    return ngettext("{count} setting is not as it comes.", "{count} settings are not as they come.", changed).format(count=changed)


def settings_sections(config: Config, documented: Mapping[tuple[str, str], Documented]) -> list[SettingsSection]:
    usual = Config()
    return [
        SettingsSection(name, tuple(rows_of(name, getattr(config, name), getattr(usual, name), documented))) for name in Config.model_fields
    ]


def rows_of(section: str, now: object, usual: object, documented: Mapping[tuple[str, str], Documented]) -> Iterator[SettingRow]:
    """A section of named things (folders, presets) has a row for each name."""
    if isinstance(now, BaseModel):
        for name in type(now).model_fields:
            value, default = getattr(now, name), getattr(usual, name)
            told = documented.get((section, name), Documented("", "", ""))
            usually = told.default or written(section, name, default)
            yield SettingRow(name, written(section, name, value), usually, told.what, value != default)
    elif isinstance(now, dict):
        for name, value in now.items():
            parts = value.model_dump(exclude_defaults=True).items()
            yield SettingRow(str(name), "; ".join(f"{key} = {written(section, key, part)}" for key, part in parts), "", "", True)


def written(section: str, name: str, value: object) -> str:
    """As it would be written in fairy.toml. A password in a database's address is nobody's to read."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f'"{without_password(value) if (section, name) == ("server", "store") else value}"'
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", '"')


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")))


@cache
def documentation(language: Language = Language.EN) -> Mapping[tuple[str, str], Documented]:
    """By section and field, from the same page that people read."""
    text = next((file.read_text() for place in PLACES if (file := place / FILES[language]).exists()), "")
    found, section = {}, ""
    for line in text.splitlines():
        if heading := SECTION.match(line):
            section = heading[1]
        elif line.startswith("## "):
            section = ""
        elif section and (row := ROW.match(line)):
            what, _bar, example = row[3].rpartition(BREAK)
            found[section, row[1]] = Documented(plain(row[2]), plain(what), plain(example))
    return found


def plain(markdown: str) -> str:
    return LINK.sub(r"\1", markdown).replace("`", "").replace("\\|", "|")
