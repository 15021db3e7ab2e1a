"""The watchdog of shares: tells a session that takes more of a GPU than it was given, then stops it, and tells its neighbours why."""
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from gpufairy.control.house import House
from gpufairy.core.amounts import show_duration
from gpufairy.core.lifecycle import Phase
from gpufairy.core.over_share import Excess, Key, Over, excesses, judge
from gpufairy.core.session import Outcome, Session, Wanted
from gpufairy.core.sharing import MEMORY
from gpufairy.core.steps import Change, noted, want_stopped

log = logging.getLogger("gpufairy.shares")

Making = tuple[str, Callable[[Session], Change]]  # of the session with this id, as it is then


class ShareWatch:
    def __init__(self, house: House, grace: timedelta | None) -> None:
        """`grace`: between being told and being stopped; None: nobody is stopped."""
        self._house, self._grace = house, grace
        self._over: Mapping[Key, Over] = {}
        self._looked_at: dict[str, datetime] = {}  # by host, the time of the sample

    async def look(self) -> None:
        """A loop's turn. A sample that was looked at before says nothing new: what it shows may long be over."""
        running = self._running()
        found: list[Excess] = []
        fresh: set[str] = set()  # ids
        for node in self._house.nodes:
            seen = self._house.watch.host(node.name)
            if seen is None or seen.sample is None or seen.silent or self._looked_at.get(node.name) == seen.sample.at:
                continue
            self._looked_at[node.name] = seen.sample.at
            here = [session for session in running.values() if session.seat is not None and session.seat.node == node.name]
            found += excesses(seen.sample, here)
            fresh |= {session.id for session in here}
        waits = {key: over for key, over in self._over.items() if key[0] in running and key[0] not in fresh}
        judged = judge(found, {key: over for key, over in self._over.items() if key not in waits}, self._house.clock(), self._grace)
        self._over = {**waits, **judged.over}
        for session_id, making in [*map(self._told, judged.told), *(one for excess in judged.stopped for one in self._stopped(excess))]:
            if (live := self._running().get(session_id)) is not None:  # as it is now: it may be in several
                await self._house.save([making(live)])

    def _running(self) -> dict[str, Session]:
        holding = self._house.book.holding()
        return {one.id: one for one in holding if one.phase is Phase.RUNNING and one.wanted is Wanted.RUN}

    def _told(self, one: Excess) -> Making:
        then = ""
        if one.what == MEMORY:
            then = " Free some of it" + (f", or it is stopped in {show_duration(self._grace)}." if self._grace is not None else ".")
        log.warning("session %s is over its share: %s", one.session_id, one.words)
        return one.session_id, partial(noted, what="over_share", now=self._house.clock(), why=f"{one.words}.{then}")

    def _stopped(self, one: Excess) -> list[Making]:
        now, why = self._house.clock(), f"took more of its GPU than its share: {one.words}"
        log.warning("session %s is stopped: %s", one.session_id, why)
        told = f"a neighbour on your GPU took more than its share and is stopped: {one.words.removeprefix('it ')}"
        return [
            (one.session_id, partial(want_stopped, now=now, outcome=Outcome.EVICTED, why=why)),
            *((other, partial(noted, what="neighbour_over_share", now=now, why=told)) for other in one.neighbours),
        ]
