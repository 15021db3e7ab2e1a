"""The body that plans a maintenance window."""
from datetime import datetime
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput
from gpufairy.wire.alerts import moment
from gpufairy.wire.read import Strict

ShortText = Annotated[str, Field(max_length=500)]


class WindowBody(Strict):
    why: ShortText
    start: ShortText | None = None  # a time of ISO 8601; None: now
    end: ShortText | None = None  # the same; or
    time: ShortText | None = None  # how long

    def to_times(self, now: datetime) -> tuple[datetime, datetime]:
        start = now if self.start is None else moment(self.start, "start")
        if (self.end is None) == (self.time is None):
            raise BadInput("maintenance: found no end, or two", "Say either until when (--until) or for how long (--for 2h).")
        end = start + parse_duration(self.time, "time") if self.time is not None else moment(self.end or "", "end")
        return start, end
