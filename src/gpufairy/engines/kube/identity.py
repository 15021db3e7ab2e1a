"""Who we are to the API server: what each request is proved by. Files are read anew when they change, for they are rotated under us."""
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.kubeconfig import read_bounded
from gpufairy.engines.kube.tls import prove, trusting, trusting_anybody

log = logging.getLogger(__name__)
Stamps = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    tls: ssl.SSLContext | None  # None: the server is spoken to without TLS
    headers: Mapping[str, str] = field(repr=False)


class Identity(Protocol):
    async def proof(self, refused: Proof | None = None) -> Proof:
        """`refused`: the server answered 401 to this one, so another is wanted if there can be one. Raises BadInput."""


@dataclass(frozen=True, slots=True)
class Pem:
    """Written out, or in a file."""

    content: bytes | None = field(default=None, repr=False)
    path: Path | None = None

    def read(self, what: str) -> bytes | None:
        if self.content is not None:
            return self.content
        return None if self.path is None else read_bounded(self.path, what)


@dataclass(frozen=True, slots=True)
class Trust:
    """How the server proves itself."""

    is_tls: bool
    authority: Pem
    anybody: bool = False

    def tls(self, what: str) -> ssl.SSLContext | None:
        if not self.is_tls:
            return None
        return trusting_anybody() if self.anybody else trusting(self.authority.read(what), what)


@dataclass(frozen=True, slots=True)
class Credentials:
    token: str = field(default="", repr=False)
    token_path: Path | None = None
    certificate: Pem = Pem()
    key: Pem = Pem()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class KnownIdentity:
    """By what lies in files or in the kubeconfig itself."""

    def __init__(self, what: str, trust: Trust, credentials: Credentials) -> None:
        self._what, self._trust, self._credentials = what, trust, credentials
        sources = (trust.authority.path, credentials.token_path, credentials.certificate.path, credentials.key.path)
        self._paths = [path for path in sources if path is not None]
        self._stamps = stamps_of(self._paths)
        self._proof = self._made()

    async def proof(self, refused: Proof | None = None) -> Proof:
        if self._paths and (stamps := stamps_of(self._paths)) != self._stamps:
            self._stamps = stamps
            try:
                self._proof = self._made()
            except BadInput as error:  # in the middle of being replaced, maybe: the old is good until the server says otherwise
                log.warning("%s; the one read before is used on.", error)
                self._stamps = ()
        return self._proof

    def _made(self) -> Proof:
        tls, own = self._trust.tls(self._what), self._credentials
        if tls is not None and (certificate := own.certificate.read(self._what)) is not None:
            prove(tls, certificate, own.key.read(self._what) or b"", self._what)
        token = own.token.encode() if own.token_path is None else read_bounded(own.token_path, self._what)
        proved = {"Authorization": f"Bearer {one_word(token, self._what)}"} if token or own.token_path else {}
        return Proof(tls, {**own.headers, **proved})


def stamps_of(paths: list[Path]) -> Stamps:
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino, seen.st_size


def one_word(text: bytes, what: str, next_step: str = "Is the file that of a token, and whole?") -> str:
    token = text.decode("ascii", "replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"{what}: its token is empty or no single word.", next_step)
    return token
