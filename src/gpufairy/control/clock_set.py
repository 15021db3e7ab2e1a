"""At a start: was the machine's clock set since the last server read it? The mark is written once: a server carries it on by itself."""
import json
import logging
from datetime import UTC, datetime

from gpufairy.control.clock import boot_s
from gpufairy.control.house import House
from gpufairy.core.clock_set import ClockMark, moved, set_by
from gpufairy.core.steps import Change

log = logging.getLogger("gpufairy.clock")

MARK = "clock_mark"


async def move_times(house: House, boot_id: str) -> None:
    """Before the loops: else whoever ran when the clock was set on by a day would be over their time at once."""
    now = ClockMark(house.clock(), boot_s(), boot_id)
    by = set_by(read(await house.store.meta.get(MARK)), now)
    if by is not None:
        log.warning("the clock of this machine was set by %s since the last start: the times of what runs are moved by as much", by)
        running = [session for session in house.book.holding() if session.placed_at is not None]
        await house.save([Change(session, moved(session, by), ()) for session in running])
    await house.store.meta.put(MARK, json.dumps({"wall": now.wall.timestamp(), "up_s": now.up_s, "boot_id": now.boot_id}))


def read(kept: str | None) -> ClockMark | None:
    """None: never written, or not by us."""
    try:
        told = json.loads(kept or "")
        return ClockMark(datetime.fromtimestamp(float(told["wall"]), UTC), float(told["up_s"]), str(told["boot_id"]))
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
