"""Asked: what is known of whoever asks for a page, while it is made: their language, zone and look; whether the live part is enough."""
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import HTTPConnection

LANGUAGE_COOKIE, THEME_COOKIE, ZONE_COOKIE, NEXT_COOKIE = "fairy_language", "fairy_theme", "fairy_zone", "fairy_next"
LONGEST_ZONE = 64


class Language(StrEnum):
    EN = "en"
    KO = "ko"


class Theme(StrEnum):
    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Asked:
    language: Language = Language.EN
    theme: Theme = Theme.AUTO
    zone: tzinfo | None = None  # None: that of the server
    live_only: bool = False  # a page that is open asks for what may have changed of it
    path: str = "/"
    packs: bool = False  # the browser takes what is packed by gzip
    changes: int = 0  # how often anything had changed when it was asked


NOBODY = Asked()
_asked: ContextVar[Asked] = ContextVar("asked", default=NOBODY)


def asked() -> Asked:
    return _asked.get()


@contextmanager
def asking(request: HTTPConnection, changes: int = 0) -> Iterator[None]:
    token = _asked.set(replace(asked_of(request), changes=changes))
    try:
        yield
    finally:
        _asked.reset(token)


def asked_of(request: HTTPConnection) -> Asked:
    cookies = request.cookies
    theme = cookies.get(THEME_COOKIE, "")
    return Asked(
        language_of(request), Theme(theme) if theme in set(Theme) else Theme.AUTO, zone_named(cookies.get(ZONE_COOKIE, "")),
        request.headers.get("hx-request") == "true", request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "gzip" in request.headers.get("accept-encoding", ""),
    )  # fmt: skip


def language_of(request: HTTPConnection) -> Language:
    """As they chose; else the first of ours that their browser names."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in set(Language):
        return Language(chosen)
    for word in request.headers.get("accept-language", "")[:200].split(","):
        named = word.split(";")[0].strip().lower().split("-")[0]
        if named in set(Language):
            return Language(named)
    return Language.EN


def zone_named(name: str) -> tzinfo | None:
    """What a cookie says is what a stranger says: a name that is no zone's counts for nothing."""
    if not name or len(name) > LONGEST_ZONE or not name.isascii():
        return None
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
