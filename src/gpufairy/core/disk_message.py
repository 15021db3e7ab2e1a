"""When users are told that they near their disk limit or are over it: once when they near it, once a day while they are over it."""
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gpufairy.core.alert_tell import stamp
from gpufairy.core.disk import DiskUser
from gpufairy.core.disk_limit import FAR, NEAR, DiskLimit, most_used, near_words
from gpufairy.core.letter import Item
from gpufairy.core.user_channel import Tells
from gpufairy.core.user_message import UserMessage

AGAIN_AFTER = timedelta(days=1)
TODO = "See what could go: fairy disk."


class Standing(StrEnum):
    NEAR = "near"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class ToldDisk:
    """What a user was last told."""

    standing: Standing
    at: datetime


def disk_message(user: DiskUser, limit: DiskLimit, before: ToldDisk | None, now: datetime) -> tuple[ToldDisk | None, UserMessage | None]:
    """What they were told from now on, and what to tell them now, if anything. None: they are far from their limit."""
    node, used = most_used(user)
    if limit.limit_bytes is None or used < FAR * limit.limit_bytes:
        return None, None
    if used < NEAR * limit.limit_bytes:
        return before, None
    over = used > limit.limit_bytes
    if before is not None and not is_news(before, over=over, now=now):
        return before, None
    told = ToldDisk(Standing.OVER if over else Standing.NEAR, now)
    sentence = near_words(used, limit, node)
    item = Item(f"disk_{told.standing}", "told", "warning" if over else "note", sentence, TODO, since=stamp(now))
    return told, UserMessage(user.user, Tells.QUOTA, f"disk:{user.user}:{told.standing}:{stamp(now)}", item)


def is_news(before: ToldDisk, *, over: bool, now: datetime) -> bool:
    """Of a clock that was set back: yes, once."""
    if not over:
        return False
    return before.standing is Standing.NEAR or now - before.at >= AGAIN_AFTER or before.at > now


def to_text(told: Mapping[str, ToldDisk]) -> str:
    return json.dumps({user: [one.standing, one.at.timestamp()] for user, one in sorted(told.items())})


def from_text(text: str | None) -> dict[str, ToldDisk]:
    found = json.loads(text or "{}")
    return {user: ToldDisk(Standing(standing), datetime.fromtimestamp(at, UTC)) for user, (standing, at) in found.items()}
