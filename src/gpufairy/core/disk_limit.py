"""Disk limits: how much a user may have on one machine, whether the kernel holds them to it, and how near they are."""
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpufairy.core.amounts import show_size
from gpufairy.core.disk import DiskUser
from gpufairy.core.quota_rules import ANY_KIND, EACH_USER, Quota

NEAR = 0.9  # of the limit: from here on it is told
FAR = 0.85  # below, somebody who was near is not any more: a file more or less is no news


@dataclass(frozen=True, slots=True)
class DiskLimit:
    limit_bytes: int | None  # None: no limit
    enforced: bool
    why_not: str = ""  # in words, where it is only accounted
    next_step: str = ""
    used_bytes: int | None = None  # as the kernel counts it; None: it does not


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A user who has more on a machine than they may, and nothing there stops them."""

    user: str
    node: str  # empty: the server's own machine
    used_bytes: int
    limit_bytes: int

    @property
    def sentence(self) -> str:
        return f"{self.user} has {show_size(self.used_bytes)} on disk{on_words(self.node)}, and may have {show_size(self.limit_bytes)}"


def limit_of(user: str, quotas: Iterable[Quota]) -> int | None:
    """Their own; where they have none, the one for each."""
    found = {quota.of: quota.disk_bytes for quota in quotas if quota.gpu_kind == ANY_KIND and quota.disk_bytes is not None}
    return found.get(f"user:{user}", found.get(EACH_USER))


def most_used(user: DiskUser) -> tuple[str, int]:
    """The machine on which they have most, and how much: every machine has its own disks, so a limit counts on each by itself."""
    return max(user.by_node, key=lambda one: one[1], default=("", user.bytes))


def over_limits(users: Iterable[DiskUser], limit: Callable[[str], DiskLimit]) -> list[OverLimit]:
    found = []
    for user in users:
        their = limit(user.user)
        if their.limit_bytes is None:
            continue
        held = [(node, used) for node, used in user.by_node if node or not their.enforced]  # the kernel speaks for the server's own
        found += [OverLimit(user.user, node, used, their.limit_bytes) for node, used in held if used > their.limit_bytes]
    return found


def near_words(used_bytes: int, limit: DiskLimit, node: str = "") -> str:
    """Empty: there is no limit, or it is far away."""
    if limit.limit_bytes is None or used_bytes < NEAR * limit.limit_bytes:
        return ""
    of = f"{show_size(used_bytes)} of {show_size(limit.limit_bytes)} on disk{on_words(node)}"
    if limit.enforced and not node:
        return f"{of}: at the limit, writing fails"
    return f"{of}: nothing stops you there, but others need room too" if used_bytes > limit.limit_bytes else f"{of} are used"


def on_words(node: str) -> str:
    return f" on {node}" if node else ""
