"""Bodies about classes: a roster with what goes for its students, changes of it, and what is done to all of them at once."""
import base64
import binascii
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import shown
from gpufairy.core.classes import Bounds, Homes, SchoolClass, class_name
from gpufairy.core.errors import BadInput
from gpufairy.core.image import image_name
from gpufairy.core.names import label, user_name
from gpufairy.core.roster_file import LARGEST_FILE
from gpufairy.core.share import parse_share
from gpufairy.wire.read import Strict
from gpufairy.wire.teams import Bound, read_bound

Short = Annotated[str, Field(max_length=255)]
Roster = Annotated[str, Field(max_length=LARGEST_FILE * 4 // 3 + 8)]  # a file as base64: its encoding is found out here
LONGEST = timedelta(days=366)
DAY_ALONE = 10  # letters of 2027-03-02


class BoundsBody(Strict):
    gpus: Bound = None
    gpu_hours: Bound = None
    sessions: Bound = None

    def to_bounds(self) -> Bounds:
        sessions = read_bound(self.sessions, None, "sessions")
        if sessions is not None and sessions != int(sessions):
            raise BadInput(f"sessions: {sessions:g} is no whole number", "Write how many may run at once, such as 5.")
        gpus, hours = read_bound(self.gpus, None, "gpus"), read_bound(self.gpu_hours, None, "gpu_hours")
        return Bounds(gpus, hours, None if sessions is None else int(sessions))


class ClassBody(Strict):
    name: Short
    roster: Roster
    start: Short | None = None  # None: now
    end: Short
    due: Short | None = None
    team: Short | None = None  # None: called as the class
    preset: Short | None = None
    gpus: Short | None = None
    image: Short | None = None
    quota: BoundsBody = BoundsBody()
    each: BoundsBody = BoundsBody()
    teachers: Annotated[list[Short], Field(max_length=50)] = []  # noqa: RUF012 - frozen with the model
    homes: Short = Homes.TAR.value
    take_users: bool = False
    dry_run: bool = False

    def to_class(self, made_by: str, now: datetime, zone: tzinfo = UTC) -> SchoolClass:
        start = now if self.start is None else moment_of(self.start, "start", zone)
        found = SchoolClass(
            class_name(self.name), label(self.team or self.name, "team"), start, end_of(self.end, "end", zone), now, made_by,
            due=None if self.due is None else end_of(self.due, "due", zone), preset=self.preset, gpus=share_text(self.gpus),
            image=None if self.image is None else image_name(self.image), quota=self.quota.to_bounds(), each=self.each.to_bounds(),
            teachers=read_teachers(self.teachers), homes=read_homes(self.homes),
        )  # fmt: skip
        check_dates(found, now)
        return found


class ClassChangeBody(Strict):
    """What is left out stays as it is."""

    start: Short | None = None
    end: Short | None = None
    due: Short | None = None  # an empty one: at the end
    preset: Short | None = None
    gpus: Short | None = None
    image: Short | None = None
    teachers: Annotated[list[Short], Field(max_length=50)] | None = None
    homes: Short | None = None

    def changed(self, before: SchoolClass, now: datetime, zone: tzinfo = UTC) -> SchoolClass:
        """Defaults that are empty are none."""
        changed = replace(
            before,
            start=before.start if self.start is None else moment_of(self.start, "start", zone),
            end=before.end if self.end is None else end_of(self.end, "end", zone),
            due=before.due if self.due is None else end_of(self.due, "due", zone) if self.due else None,
            preset=before.preset if self.preset is None else self.preset or None,
            gpus=before.gpus if self.gpus is None else share_text(self.gpus or None),
            image=before.image if self.image is None else image_name(self.image) if self.image else None,
            teachers=before.teachers if self.teachers is None else read_teachers(self.teachers),
            homes=before.homes if self.homes is None else read_homes(self.homes),
        )
        if (self.start, self.end, self.due) != (None, None, None):
            check_dates(changed, now)
        return changed


class RosterBody(Strict):
    roster: Roster
    missing: Short = "keep"  # "disable": who is no longer in the roster is shut out
    take_users: bool = False
    dry_run: bool = False

    @property
    def disables(self) -> bool:
        if self.missing not in ("keep", "disable"):
            raise BadInput(f"missing: found {shown(self.missing)}", "Write keep or disable.")
        return self.missing == "disable"


class ResetBody(Strict):
    homes: Short = "keep"  # "aside": set aside, and empty ones in their place
    users: Annotated[list[Short], Field(max_length=2000)] | None = None  # None: all of the class
    confirm: Short = ""  # the name of the class once more, where homes are set aside

    @property
    def sets_aside(self) -> bool:
        if self.homes not in ("keep", "aside"):
            raise BadInput(f"homes: found {shown(self.homes)}", "Write keep or aside.")
        return self.homes == "aside"


class LinksBody(Strict):
    users: Annotated[list[Short], Field(max_length=2000)] | None = None  # None: those who have never come in
    all: bool = False


def roster_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("roster: this is no file in base64", "Send the bytes of the file, as base64.") from None


def read_teachers(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(user_name(name, "teacher") for name in names))


def read_homes(text: str) -> Homes:
    if text not in set(Homes):
        raise BadInput(f"homes: found {shown(text)}", f"Write one of {', '.join(Homes)}.")
    return Homes(text)


def share_text(text: str | None) -> str | None:
    return None if text is None else str(parse_share(text))


def moment_of(text: str, what: str, zone: tzinfo = UTC) -> datetime:
    """A day, which is its beginning, or a time. Without a zone of its own it is in that one."""
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{what}: {shown(text)} is no day or time", "Write it like 2027-03-02 or 2027-03-02T09:00.") from None


def end_of(text: str, what: str, zone: tzinfo = UTC) -> datetime:
    """Of a day alone, its end: a class that ends on a day has that day."""
    is_day = len(text.strip()) == DAY_ALONE
    try:
        return moment_of(text, what, zone) + timedelta(days=1 if is_day else 0)
    except OverflowError:
        raise BadInput(f"{what}: {shown(text)} is too far off", "Write a day within a year.") from None


def check_dates(found: SchoolClass, now: datetime) -> None:
    if found.end <= found.start:
        raise BadInput(f"end: {found.end:%Y-%m-%d %H:%M} UTC is not after the start, {found.start:%Y-%m-%d %H:%M} UTC", "Mend one of them.")
    if found.end <= now:
        raise BadInput(f"end: {found.end:%Y-%m-%d %H:%M} UTC has passed", "Write a day to come.")
    if found.end - found.start > LONGEST:
        raise BadInput(f"a class of {(found.end - found.start).days} days is longer than a year", "Make one for each term.")
    if found.due is not None and not found.start < found.due <= found.end:
        raise BadInput(f"due: {found.due:%Y-%m-%d %H:%M} UTC is not within the class", "Write a time between its start and its end.")
