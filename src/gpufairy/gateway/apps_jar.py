"""Which browsers are signed in to which app. A file keeps hashes alone, so that a restart signs nobody out and the file lets nobody in."""
import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.apps import OUR_COOKIES, Stall
from gpufairy.engines.run_folder import write_private

GOOD_FOR_S = 12 * 3600  # a day's work
MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Kept:
    stall_id: str  # which names one attempt of one session of one user
    until: float  # seconds since 1970
    token_id: str | None = None  # of the token that the ticket was asked for with: it ends with that one


class CookieJar:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._gone_tokens: frozenset[str] = frozenset()
        self._kept = {key: kept for key, kept in read_jar(path).items() if kept.until > time.time()}

    def sign_in(self, stall: Stall, token_id: str | None, *, secure: bool) -> bytes:
        """The value of Set-Cookie. Its name carries the app: cookies go to every port of a host."""
        text, now = secrets.token_urlsafe(32), time.time()
        self._kept = {key: kept for key, kept in list(self._kept.items())[-MOST_KEPT:] if kept.until > now}
        self._kept[hashed(text)] = Kept(stall.id, now + GOOD_FOR_S, token_id)
        self._write()
        ending = "; Secure" if secure else ""
        return f"{cookie_name(stall)}={text}; Path=/; Max-Age={GOOD_FOR_S}; HttpOnly; SameSite=Lax{ending}".encode()

    def forget(self, gone_tokens: frozenset[str]) -> None:
        """Cookies that came by these, now and later: a ticket may have been used at the same moment."""
        self._gone_tokens = gone_tokens
        if any(kept.token_id in gone_tokens for kept in self._kept.values()):
            self._kept = {key: kept for key, kept in self._kept.items() if kept.token_id not in gone_tokens}
            self._write()

    def knows(self, stall: Stall, cookies: dict[bytes, bytes]) -> Kept | None:
        """The one of these cookies that was given for that very app."""
        kept = self._kept.get(hashed(cookies.get(cookie_name(stall).encode(), b"").decode("latin-1")))
        if kept is None or kept.stall_id != stall.id or kept.until <= time.time() or kept.token_id in self._gone_tokens:
            return None
        return kept

    def _write(self) -> None:
        write_private(self._path, json.dumps({key: [kept.stall_id, kept.until, kept.token_id] for key, kept in self._kept.items()}))


def cookie_name(stall: Stall) -> str:
    return f"{OUR_COOKIES}app_{stall.id}"


def hashed(text: str) -> str:
    """They are long and random, so a plain hash is enough: there is nothing to guess."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_jar(path: Path) -> dict[str, Kept]:
    """Nothing, if it was never written or cannot be read: then browsers need a new ticket."""
    try:
        return {str(key): kept_from(*fields) for key, fields in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def kept_from(stall_id: str, until: float, token_id: str | None = None) -> Kept:
    return Kept(str(stall_id), float(until), None if token_id is None else str(token_id))
