"""What an agent tells of its host's disks: one place in a report, read and checked before anything of it is kept."""
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpufairy.core.believe import clock_wrong_by
from gpufairy.core.disk import DiskLook, Place, Unmeasured
from gpufairy.core.disk_report import MOST_PLACES, DiskTold, look_fault, place_fault, place_on, time_fault
from gpufairy.core.errors import BadInput
from gpufairy.wire.read import sentence

LONGEST_WORDS = 500  # of why a place could not be walked through
SAME_VERSION = "Is the agent of the same version as the server?"


class DiskReportBody(BaseModel):
    """Unknown fields are left alone: an agent may be newer than its server."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, str_max_length=5000)

    sent_at: datetime
    places: tuple[str, ...] = Field(max_length=MOST_PLACES)
    look: DiskLook | None = None
    failed: Unmeasured | None = None


def read_disk_report(body: bytes, node: str, now: datetime, clock_wrong_before: timedelta) -> DiskTold:
    """Raises BadInput, in words, for what cannot be. Times are put right by as much as the host's clock is wrong."""
    try:
        told = DiskReportBody.model_validate_json(body)
    except ValidationError as error:
        raise BadInput(f"disk report of {node}: {sentence(DiskReportBody, error)}", SAME_VERSION) from None
    for part in (told.sent_at, *(one.at for one in (told.look, told.failed) if one is not None)):
        if part.utcoffset() is None:
            raise refused(node, "at: the time says no zone")
    wrong = clock_wrong_by(told.sent_at, now, clock_wrong_before)
    places = tuple(checked_place(node, path) for path in told.places)
    look = None if told.look is None else believed(told.look, node, now, wrong)
    return DiskTold(node, places, look, None if told.failed is None else failure(told.failed, node, now, wrong))


def believed(look: DiskLook, node: str, now: datetime, wrong: timedelta) -> DiskLook:
    here = replace(look, place=checked_place(node, look.place.path), at=right(node, look.at, wrong))
    fault = look_fault(here, now)
    if fault is not None:
        raise refused(node, fault)
    return here


def failure(failed: Unmeasured, node: str, now: datetime, wrong: timedelta) -> Unmeasured:
    at = right(node, failed.at, wrong)
    fault = time_fault(at, now)
    if fault is not None:
        raise refused(node, fault)
    return Unmeasured(checked_place(node, failed.place.path), at, failed.why[:LONGEST_WORDS], failed.next_step[:LONGEST_WORDS])


def right(node: str, at: datetime, wrong: timedelta) -> datetime:
    try:
        return at + wrong
    except OverflowError:
        raise refused(node, "at: the times lie thousands of years apart") from None


def checked_place(node: str, path: str) -> Place:
    fault = place_fault(path)
    if fault is not None:
        raise refused(node, fault)
    return place_on(node, path)


def refused(node: str, fault: str) -> BadInput:
    return BadInput(f"disk report of {node}: {fault}", SAME_VERSION)
