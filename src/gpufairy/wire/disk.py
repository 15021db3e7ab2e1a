"""Settings of disk use: which folders are walked through, and when."""
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.disk_due import LEAST_EVERY, WalkPace
from gpufairy.core.errors import BadInput
from gpufairy.core.selftest_due import parse_nightly
from gpufairy.wire.read import Strict


class DiskConfig(Strict):
    """Whose files take how much of the disk: homes and [folders] are walked through, at the lowest priority."""

    every: str = "1h"  # quickly: what has not changed is not looked at again; "off": nothing is walked through but when an admin asks
    nightly: str = "03:00"  # in full, by the clock of this machine; "off": a day after the last
    folders: Annotated[list[str], Field(max_length=100)] = []  # noqa: RUF012 - more of them, by their paths

    def to_pace(self) -> WalkPace:
        every = None if self.every == "off" else parse_duration(self.every, "disk.every")
        if every is not None and not LEAST_EVERY <= every <= timedelta(days=7):
            raise BadInput(f"disk.every: {self.every} is not between 5m and 7d", "1h is usual.")
        return WalkPace(every, parse_nightly(self.nightly, "disk.nightly"))

    def checked_folders(self) -> list[str]:
        for path in self.folders:
            if not path.startswith("/") or ".." in PurePosixPath(path).parts:
                raise BadInput(f"disk.folders: {shown(path)} is no whole path", "Write it from the root on, such as /data.")
        return [path.rstrip("/") or "/" for path in self.folders]
