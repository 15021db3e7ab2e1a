"""The watchdog of shares: tells a session that takes more of a GPU than it was given, then stops it, and tells its neighbours why."""
import logging
from collections.abc import Mapping
from datetime import timedelta

from gpufairy.control.house import House
from gpufairy.core.amounts import show_duration
from gpufairy.core.lifecycle import Phase
from gpufairy.core.over_share import Excess, Over, excesses, judge
from gpufairy.core.session import Outcome, Session, Wanted
from gpufairy.core.sharing import MEMORY
from gpufairy.core.steps import Change, noted, want_stopped

log = logging.getLogger("gpufairy.shares")


class ShareWatch:
    def __init__(self, house: House, grace: timedelta | None) -> None:
        """`grace`: between being told and being stopped; None: nobody is stopped."""
        self._house, self._grace = house, grace
        self._over: Mapping[tuple[str, str, str], Over] = {}

    async def look(self) -> None:
        """A loop's turn."""
        house = self._house
        running = [session for session in house.book.holding() if session.phase is Phase.RUNNING and session.wanted is Wanted.RUN]
        found: list[Excess] = []
        for node in house.nodes:
            seen = house.watch.host(node.name)
            if seen is not None and seen.sample is not None and not seen.silent:
                found += excesses(seen.sample, [session for session in running if session.seat and session.seat.node == node.name])
        judged = judge(found, self._over, house.clock(), self._grace)
        self._over = judged.over
        by_id = {session.id: session for session in running}
        changes = [change for one in judged.told for change in self._told(one, by_id)]
        changes += [change for one in judged.stopped for change in self._stopped(one, by_id)]
        for change in changes:  # one by one: a session may be in several
            await self._write(change)

    async def _write(self, change: Change) -> None:
        if (live := self._house.book.get(change.before.id)) is not None and live.revision != change.before.revision:
            return  # something befell it meanwhile: the next look sees whether this is still true
        await self._house.save([change])

    def _told(self, one: Excess, sessions: Mapping[str, Session]) -> list[Change]:
        session = sessions[one.session_id]
        then = ""
        if one.what == MEMORY:
            then = " Free some of it" + (f", or it is stopped in {show_duration(self._grace)}." if self._grace is not None else ".")
        log.warning("session %s of %s is over its share: %s", session.name, session.owner, one.words)
        return [noted(session, "over_share", self._house.clock(), f"{one.words}.{then}")]

    def _stopped(self, one: Excess, sessions: Mapping[str, Session]) -> list[Change]:
        session, now = sessions[one.session_id], self._house.clock()
        why = f"took more of its GPU than its share: {one.words}"
        log.warning("session %s of %s is stopped: %s", session.name, session.owner, why)
        told = f"a neighbour on your GPU took more than its share and is stopped: {one.words.removeprefix('it ')}"
        neighbours = [sessions[other] for other in one.neighbours if other in sessions]
        return [
            want_stopped(session, now, outcome=Outcome.EVICTED, why=why),
            *(noted(other, "neighbour_over_share", now, told) for other in neighbours),
        ]
