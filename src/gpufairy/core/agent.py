"""Agent: what speaks for a host that is watched. It is known by a key of its own, and signs every report with it."""
import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Agent:
    name: str  # of the host
    key: bytes  # the public half of an Ed25519 key
    accepted_at: datetime
    accepted_by: str


@dataclass(frozen=True, slots=True)
class AgentWaiting:
    """One that asks to be let in. Anybody may ask; an admin compares the fingerprint with what the agent printed."""

    name: str
    key: bytes
    address: str
    asked_at: datetime
    replaces: bool  # the host is known already, by another key


def fingerprint(key: bytes) -> str:
    """As OpenSSH writes them: short enough to compare by eye."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def signed_bytes(name: str, epoch: str, sequence: int, body: bytes) -> bytes:
    """What an agent signs: a report altered, sent again or under another name does not fit its signature."""
    return f"fairy report 1\n{name}\n{epoch}\n{sequence}\n{hashlib.sha256(body).hexdigest()}\n".encode()
