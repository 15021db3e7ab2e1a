"""Run time: how long a session is likely to run, from its owner's and its image's past; and how sure that is."""
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.core.session import Session


@dataclass(frozen=True, slots=True)
class RunTime:
    """Of all runs like it a tenth took less than `low`, half less than `typical`, a twentieth more than `high`."""

    low: timedelta
    typical: timedelta
    high: timedelta
    runs: int  # it was read from so many
    of: str  # whose, in words


class RunTimes:
    """What past runs tell. Empty, it tells of nobody."""

    def of(self, owner: str, image: str | None) -> RunTime | None:
        """None: too few have run to tell."""
        return None


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a session would sit in its seat. `time=None`: nobody can tell."""

    time: timedelta | None
    sure: bool  # it is a limit, and not an estimate


def stay_of(session: Session, run_times: RunTimes) -> Stay:
    limit = session.request.time_limit
    if limit is not None:
        return Stay(limit, sure=True)
    found = run_times.of(session.owner, session.request.image)
    return Stay(None if found is None else found.high, sure=False)
