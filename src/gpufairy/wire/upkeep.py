"""Settings of upkeep: when backups are made and how many stay, how long what is over is kept, when the doctor looks."""
from datetime import time, timedelta

from gpufairy.core.amounts import parse_duration, parse_size
from gpufairy.core.backup_keep import KeepRule
from gpufairy.core.errors import BadInput
from gpufairy.core.selftest_due import parse_nightly
from gpufairy.core.upkeep import Keeps, parse_keep
from gpufairy.wire.read import Strict

SHORTEST = timedelta(minutes=10)


class BackupConfig(Strict):
    """Backups that the server makes by itself."""

    every: str = "1d"  # "off": none but those that are asked for
    at: str = "02:30"  # by the clock of this machine; where `every` is less than a day, it does not count
    to: str | None = None  # a folder, best on another disk; None: `backups` in the data folder
    daily: int = 7  # of so many days the newest is kept
    weekly: int = 4
    monthly: int = 6
    history: bool = False  # the fine readings too; those by the hour are always in it

    @property
    def period(self) -> timedelta | None:
        if self.every == "off":
            return None
        period = parse_duration(self.every, "backup.every")
        if period < SHORTEST:
            raise BadInput(f"backup.every: {self.every} is less than 10m", "1d is usual.")
        return period

    @property
    def hour(self) -> time:
        hour = parse_nightly(self.at, "backup.at")
        if hour is None:
            raise BadInput("backup.at: off is no time of day", 'Write it as 02:30; every = "off" switches backups off.')
        return hour

    def to_rule(self) -> KeepRule:
        if min(self.daily, self.weekly, self.monthly) < 0 or max(self.daily, self.weekly, self.monthly) > 1000:
            raise BadInput("backup: daily, weekly and monthly are numbers from 0 to 1000", "7, 4 and 6 are usual.")
        return KeepRule(self.daily, self.weekly, self.monthly)


class KeepConfig(Strict):
    """How long what is over is kept. What was held stays for ever: the accounts are made of it."""

    sessions: str = "400d"  # that have ended; "forever" here and below: nothing is removed
    events: str = "400d"
    audit: str = "2y"  # of the events, what a person did
    bookings: str = "400d"  # that are over; silences and uses of images too
    tokens: str = "90d"  # that ran out or were revoked, and links of classes
    at: str = "04:00"  # when it is removed each night, by the clock of this machine; "off": never
    log_size: str = "16MiB"  # server.log and the gateway's: a longer one is begun anew, and three old ones stay

    def to_keeps(self) -> Keeps:
        return Keeps(
            parse_keep(self.sessions, "keep.sessions"), parse_keep(self.events, "keep.events"), parse_keep(self.audit, "keep.audit"),
            parse_keep(self.bookings, "keep.bookings"), parse_keep(self.tokens, "keep.tokens"),
        )  # fmt: skip

    @property
    def hour(self) -> time | None:
        return parse_nightly(self.at, "keep.at")

    @property
    def log_bytes(self) -> int:
        return parse_size(self.log_size, "keep.log_size")


class DoctorConfig(Strict):
    """The doctor, who looks at the server's own host and mends nothing unasked."""

    nightly: str = "04:00"  # when it looks each night, by the clock of this machine; "off": only when asked

    @property
    def hour(self) -> time | None:
        return parse_nightly(self.nightly, "doctor.nightly")
