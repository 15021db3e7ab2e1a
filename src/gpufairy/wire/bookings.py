"""The body of a booking."""
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.booking_choice import BookingAsk
from gpufairy.core.errors import BadInput
from gpufairy.wire.read import Strict

Text = Annotated[str, Field(max_length=255)]


class BookingBody(Strict):
    gpus: int
    title: Text
    from_: Annotated[str, Field(max_length=60, alias="from")]
    until: Annotated[str, Field(max_length=60)] | None = None
    time: Annotated[str, Field(max_length=40)] | None = None  # in the place of `until`
    gpu_kind: Text | None = None
    pool: Text | None = None
    node: Text | None = None
    team: Text | None = None
    users: Annotated[list[Text], Field(max_length=1000)] = []  # noqa: RUF012 - frozen with the model

    def to_ask(self, made_by: str, who: tuple[str, ...], *, by_admin: bool) -> BookingAsk:
        start = moment_of(self.from_, "from")
        if (self.until is None) == (self.time is None):
            found = "neither until nor time" if self.until is None else "both until and time"
            raise BadInput(f"a booking ends: found {found}", 'Send one: "until" (2026-11-20T16:00:00Z) or "time" (2h).')
        return BookingAsk(
            self.title.strip(), made_by, who, self.gpus, start, self._end(start), self.gpu_kind, self.pool, self.node, by_admin
        )  # fmt: skip

    def _end(self, start: datetime) -> datetime:
        if self.until is not None:
            return moment_of(self.until, "until")
        try:
            return start + parse_duration(self.time or "", "time")
        except OverflowError:
            raise BadInput(f"time: {shown(self.time or '')} after {start:%Y-%m-%d} is no time that there is", "Book less.") from None


def moment_of(text: str, what: str) -> datetime:
    """An ISO time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{what}: {shown(text)} is no time", "Write it like 2026-11-20T14:00:00Z.") from None
