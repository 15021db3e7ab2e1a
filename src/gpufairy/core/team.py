"""Team: people who share one part of the GPUs. What part, its share says, against those of the other teams."""
import math
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.errors import BadInput

LEAST_SHARE, MOST_SHARE = 0.001, 1_000_000.0  # wide enough for any lab, and far from where floats go wrong
TWICE_AS_MUCH = "Write a number such as 2: twice as much as one with a share of 1."


@dataclass(frozen=True, slots=True)
class Team:
    name: str
    share: float = 1.0
    created_at: datetime | None = None  # None: nobody made it; it is there since somebody is in it


def checked_share(share: float, what: str = "share") -> float:
    if not math.isfinite(share) or not LEAST_SHARE <= share <= MOST_SHARE:
        raise BadInput(f"{what}: {share:g} is not between {LEAST_SHARE:g} and {MOST_SHARE:,.0f}", TWICE_AS_MUCH)
    return float(share)
