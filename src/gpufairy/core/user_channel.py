"""Where a user wants to be told of their own sessions, and of what. Without a word: nowhere but in the terminal and on the page."""
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlsplit

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import nearest

LONGEST = 500
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
TOPIC = re.compile(r"[A-Za-z0-9_-]{6,64}")  # a short one is guessed, and whoever knows it reads along


class UserKind(StrEnum):
    EMAIL = "email"
    NTFY = "ntfy"
    SLACK = "slack"
    WEBHOOK = "webhook"


class Tells(StrEnum):
    """What users may be told of."""

    STARTED = "started"  # only of those that had to wait
    ENDING = "ending"
    ENDED = "ended"
    FAILED = "failed"
    IDLE = "idle"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class UserChannel:
    user: str
    kind: str
    address: str
    about: tuple[str, ...]
    changed_at: datetime

    @property
    def name(self) -> str:
        """Of its place in the outbox."""
        return f"user:{self.user}:{self.kind}"

    @property
    def shown(self) -> str:
        """A webhook's address is a secret: whoever knows it may write there."""
        if self.kind in (UserKind.EMAIL, UserKind.NTFY):
            return self.address
        return f"{urlsplit(self.address).scheme}://{urlsplit(self.address).hostname}/…"


def checked_address(kind: str, address: str) -> str:
    address = address.strip()
    if kind not in set(UserKind):
        raise BadInput(f"kind: found {shown(kind)}{nearest(kind, UserKind)}", f"Write one of {', '.join(UserKind)}.")
    if len(address) > LONGEST or not address.isprintable():
        raise BadInput("address: too long, or not plain text", "Write an e-mail address, a topic or a URL.")
    if kind == UserKind.EMAIL and (not ADDRESS.fullmatch(address) or ".." in address):
        raise BadInput(f"address: {shown(address)} is no e-mail address", "Write it like kim@lab.example.")
    if kind == UserKind.NTFY and not TOPIC.fullmatch(address):
        raise BadInput(f"address: {shown(address)} is no topic", "Choose 6 to 64 letters, figures, - and _ that nobody guesses.")
    if kind in (UserKind.SLACK, UserKind.WEBHOOK):
        checked_url(address)
    return address


def checked_url(address: str, what: str = "address") -> str:
    """Never shown: it may be as good as a password."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        usable = False
    if not usable or not address.isprintable() or " " in address:
        raise BadInput(f"{what}: that is no URL of a webhook", "Write it like https://hooks.lab.example/abc, without a user name in it.")
    return address


def checked_about(about: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [one for one in about if one not in set(Tells)]
    if unknown:
        raise BadInput(f"about: found {shown(unknown[0])}{nearest(unknown[0], Tells)}", f"Choose of {', '.join(Tells)}.")
    return tuple(one for one in Tells if one in about) or tuple(Tells)
