"""Bodies about teams and quotas."""
import math
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_size, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.quota_rules import ANY_KIND, Quota
from gpufairy.core.share import PARTS
from gpufairy.wire.read import Strict

Short = Annotated[str, Field(max_length=255)]
Bound = float | int | Short | None
NONE = "none"  # takes a bound away
MOST = 1_000_000  # GPUs, hours or sessions: more is a slip of the keyboard


class TeamBody(Strict):
    name: Short
    share: float | int = 1


class TeamChangeBody(Strict):
    share: float | int


class QuotaBody(Strict):
    of: Short
    gpu_kind: Short = ANY_KIND
    gpus: Bound = None
    gpu_hours: Bound = None  # in seven days
    sessions: Bound = None
    disk: Annotated[str, Field(max_length=40)] | int | None = None  # such as 100GiB

    def changed(self, before: Quota) -> Quota:
        """What is not said stays as it was; `none` takes a bound away."""
        was = None if before.gpu_parts is None else before.gpu_parts / PARTS
        gpus = read_bound(self.gpus, was, "gpus")
        sessions = read_bound(self.sessions, before.sessions, "sessions")
        if sessions is not None and sessions != int(sessions):
            raise BadInput(f"sessions: {sessions:g} is no whole number", "Write how many may run at once, such as 5.")
        return replace(
            before,
            gpu_parts=None if gpus is None else round(gpus * PARTS),
            gpu_hours_week=read_bound(self.gpu_hours, before.gpu_hours_week, "gpu_hours"),
            sessions=None if sessions is None else int(sessions),
            disk_bytes=before.disk_bytes if self.disk is None else None if self.disk == NONE else parse_size(str(self.disk), "disk"),
        )


def read_bound(given: Bound, before: float | None, what: str) -> float | None:
    if given is None:
        return before
    if given == NONE:
        return None
    try:
        amount = float(given)
    except ValueError:
        amount = math.nan
    if not 0 <= amount <= MOST:  # also not for NaN
        raise BadInput(f"{what}: {shown(str(given))} is not between 0 and {MOST:,}", f"Write a number such as 4, or {NONE} for no bound.")
    return amount
