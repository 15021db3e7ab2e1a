"""Tried: what came of one way to get more than one's share, as the probe inside a session tells it. isolation.py says what it means."""
from dataclasses import dataclass
from typing import Any

from gpufairy.core.errors import BadInput

# Memory is handed out in pages of 2 MiB, MPS counts whole MiB, and drivers round each array and pool up: so much more is no escape.
TOLERANCE_BYTES = 64 * 2**20
# How far beyond its share a way goes on: far enough to be sure, so little that it fills nobody else's memory.
ENOUGH_OVER_BYTES = 2 * TOLERANCE_BYTES
LONGEST_WORDS = 300  # of what a session says: it is shown, and kept


@dataclass(frozen=True, slots=True)
class Tried:
    """One of the figures is there, or the words why it could not be tried."""

    way: str
    of: str  # MEMORY, SM, DEVICES or EVASION of sharing.py
    got_bytes: int | None = None  # memory that was had, all processes together
    shown_bytes: int | None = None  # memory that it is told to have
    sms: int | None = None  # multiprocessors
    reached: tuple[str, ...] | None = None  # what it should not have reached
    words: str = ""  # beside a figure: how it ended
    error: str = ""  # it could not be tried


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """What the probe found out about the GPU itself."""

    driver: str | None = None
    whole_sms: int | None = None  # multiprocessors of the whole GPU
    instance_sms: int | None = None  # of the MIG instance, as the driver has cut it


def tried_to_plain(tried: Tried) -> dict[str, Any]:
    named = {name: getattr(tried, name) for name in Tried.__dataclass_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items() if value not in (None, "")}


def tried_from_plain(plain: dict[str, Any]) -> Tried:
    """Of what comes out of a session nothing is believed but its shape. Raises BadInput."""
    reached = plain.get("reached")
    if reached is not None and not isinstance(reached, list):
        raise BadInput(f"the probe told of {str(reached)[:80]!r} as a list of what it reached")
    return Tried(
        _text(plain, "way"), _text(plain, "of"), _count(plain, "got_bytes"), _count(plain, "shown_bytes"), _count(plain, "sms"),
        None if reached is None else tuple(_printable(str(one)) for one in reached[:20]), _text(plain, "words"), _text(plain, "error"),
    )  # fmt: skip


def facts_from_plain(plain: dict[str, Any]) -> ProbeFacts:
    return ProbeFacts(_text(plain, "driver") or None, _count(plain, "whole_sms"), _count(plain, "instance_sms"))


def _text(plain: dict[str, Any], name: str) -> str:
    value = plain.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"the probe told of {str(value)[:80]!r} as its {name}")
    return _printable(value)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:LONGEST_WORDS])


def _count(plain: dict[str, Any], name: str) -> int | None:
    value = plain.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise BadInput(f"the probe told of {str(value)[:80]!r} as its {name}")
    return value
