"""Silence: alerts of which nobody is told for a time. Of a node, and planned ahead, it is a maintenance window."""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from gpufairy.core.alert import Alert
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

ALL = "*"
LONGEST = timedelta(days=90)
LONGEST_PATTERN, LONGEST_WHY = 200, 500


@dataclass(frozen=True, slots=True)
class Silence:
    """Patterns as in a shell: `gpu0*`."""

    id: str
    start: datetime
    end: datetime
    made_by: str
    why: str
    rule: str = ALL
    node: str = ALL
    thing: str = ALL

    def covers(self, alert: Alert, now: datetime) -> bool:
        return self.start <= now < self.end and self.fits(alert)

    def fits(self, alert: Alert) -> bool:
        pairs = ((alert.rule, self.rule), (alert.node, self.node), (alert.thing, self.thing))
        return all(fnmatchcase(name, pattern) for name, pattern in pairs)

    @property
    def words(self) -> str:
        said = (("rule", self.rule), ("node", self.node), ("thing", self.thing))
        return ", ".join(f"{what} {pattern}" for what, pattern in said if pattern != ALL) or "everything"


def silenced_by(alert: Alert, silences: Iterable[Silence], now: datetime) -> Silence | None:
    return next((one for one in silences if one.covers(alert, now)), None)


def checked_silence(silence: Silence, now: datetime) -> Silence:
    """Raises BadInput for what would silence nothing, or for too long."""
    if silence.end <= max(silence.start, now):
        raise BadInput("silence: it would be over before it begins", "Say how long it lasts: --for 2h.")
    if silence.end - now > LONGEST:
        raise BadInput(f"silence: {LONGEST.days} days ahead is the longest", "Make it again then, or switch the rule off in the settings.")
    for what, pattern in (("rule", silence.rule), ("node", silence.node), ("thing", silence.thing)):
        if not pattern or len(pattern) > LONGEST_PATTERN or not pattern.isprintable():
            raise BadInput(f"{what}: {shown(pattern)} is no pattern", "Write a name, or a pattern such as gpu0*.")
    if not silence.why.strip() or len(silence.why) > LONGEST_WHY:
        raise BadInput("why: nothing, or more than anybody reads", "Say in a few words why nobody needs to be told.")
    return silence
