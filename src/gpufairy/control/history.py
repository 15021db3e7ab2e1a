"""Chronicle: what hosts report, written down with who held what; and read again by those who look back."""
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.believe import Heard
from gpufairy.core.errors import BadInput
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.points import HeldPart, points_of
from gpufairy.core.series import RAW, Kind, Series, floor_to, nearest_step, step_for
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS
from gpufairy.core.usage import By, HeldSeat, UsageRow, source_of, usage_of, within
from gpufairy.store.history_arrival import Arrival

LATE = timedelta(seconds=30)  # a report older than this tells of a time at which others may have held the GPUs
SEEN_FOR = timedelta(seconds=1)  # for so long who holds what is not looked up again: reports come in hundreds a second
MOST_ASKED = 50_000  # points of one answer: thirty days in steps of a minute, some years in steps of an hour
FINE_USAGE = timedelta(days=2)  # up to here use is added up by the minute, beyond by the hour
MOST_SESSIONS = 1000  # rows of one answer


@dataclass(slots=True)
class OnNode:
    """Who holds what on one node."""

    held: dict[str, list[HeldPart]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def add(self, seat: HeldSeat) -> None:
        self.owners[seat.session_id] = seat.owner
        for gpu in seat.seat.gpus:
            self.held.setdefault(gpu.device, []).append(HeldPart(seat.session_id, seat.owner, gpu.parts / PARTS))


@dataclass(frozen=True, slots=True)
class UsageReport:
    by: By
    since: datetime
    until: datetime
    rows: Sequence[UsageRow]
    left_off: int = 0  # rows that are not shown: those with the least held


class Chronicle:
    def __init__(self, house: House) -> None:
        self._house = house
        self._before: dict[tuple[str, bool], NodeSample] = {}  # of each node, of now and late: rates are told from two counters
        self._holders: dict[str, OnNode] = {}
        self._looked_at: datetime | None = None

    async def take(self, sample: NodeSample) -> None:
        """It is on the disk when this returns. The same report twice counts once."""
        await self.take_all([Heard(sample, sample.at)])

    async def take_all(self, heard: Sequence[Heard]) -> None:
        """Samples of one node, oldest first, in one go: all of them are on the disk when this returns."""
        now, history = self._house.clock(), self._house.store.history
        if len(heard) > 1:  # what a lost answer made the agent send again need not be reckoned again
            known = await history.sent_before(heard[0].sample.node, [one.sent_at for one in heard])
            heard = [one for one in heard if one.sent_at not in known]
        late = await self._held_over([one.sample.at for one in heard if now - one.sample.at > LATE])
        arrivals = []
        for one in heard:
            sample, is_late = one.sample, now - one.sample.at > LATE
            holders = self._holders_then(sample, late, now) if is_late else self._holders_now(sample, now)
            points = points_of(sample, self._before.get((sample.node, is_late)), holders.held, holders.owners)
            arrivals.append(Arrival(sample.node, sample.at, one.sent_at, now, sample.seconds, points))
            self._before[sample.node, is_late] = sample
        await history.append_all(arrivals)

    async def roll_up(self) -> None:
        """A loop's turn."""
        await self._house.store.history.roll_up(self._house.clock())

    async def series(
        self, kind: Kind, name: str, since: datetime, until: datetime | None = None, *, step: timedelta | None = None
    ) -> Series:
        """`step`: the coarsest that is kept and no coarser than this; 0: as it was reported. None: what suits the range."""
        now, history = self._house.clock(), self._house.store.history
        until = now if until is None else min(until, now)
        if until <= since:
            raise BadInput(f"since: {since:%Y-%m-%d %H:%M:%S} is not before the end that is asked for", "Ask for a time that has passed.")
        chosen = step_for(since, until, now, history.keeps)
        if step is not None:
            chosen = RAW if not step else nearest_step(step.total_seconds(), since, now, history.keeps)
        if chosen != RAW and (until - since).total_seconds() / chosen > MOST_ASKED:
            raise BadInput(f"step: {chosen} s for so long is more than {MOST_ASKED} points", "Ask for less, or leave out the step.")
        return await history.read(kind, name, since, until, now=now, step=chosen)

    async def usage(self, by: By, since: datetime, owner: str | None = None) -> UsageReport:
        """Held by the ledger, used by the readings, over the same stretch. `owner`: of theirs alone."""
        now, history = self._house.clock(), self._house.store.history
        step = 60 if now - since <= FINE_USAGE else 3600
        since = floor_to(since, step)
        live = [seat for seat in self.live(now) if owner in (None, seat.owner)]
        seats = within([*await history.held(since, now, owner), *live], since, now)
        names = None if owner is None else [owner]
        if by is By.SESSION:
            names = [row.name for row in usage_of(by, seats, {})][:MOST_SESSIONS]
        rows = usage_of(by, seats, await history.totals(source_of(by), since, now, step=step, names=names))
        return UsageReport(by, since, now, rows[:MOST_SESSIONS], max(0, len(rows) - MOST_SESSIONS))

    async def usage_of_session(self, session: Session) -> UsageRow | None:
        """Over its whole life. None: it never had a seat."""
        now, history = self._house.clock(), self._house.store.history
        until = session.ended_at or now
        step = 60 if now - session.submitted_at <= FINE_USAGE else 3600
        since = floor_to(session.submitted_at, step)
        held = [*await history.held(since, now, session.owner), *self.live(now)]
        own = [seat for seat in held if seat.session_id == session.id]
        totals = await history.totals(source_of(By.SESSION), since, until + timedelta(seconds=step), step=step, names=[session.id])
        return next(iter(usage_of(By.SESSION, own, totals)), None)

    def live(self, now: datetime) -> list[HeldSeat]:
        """Seats that are held now, as far as they have been."""
        return [
            HeldSeat(session.id, session.owner, session.seat, session.placed_at, now, session.team)
            for session in self._house.book.holding()
            if session.seat is not None and session.placed_at is not None
        ]

    def _holders_now(self, sample: NodeSample, now: datetime) -> OnNode:
        fresh = self._looked_at is not None and timedelta() <= now - self._looked_at < SEEN_FOR
        if not fresh or self._has_newcomer(sample):
            self._looked_at, self._holders = now, {}
            for seat in self.live(now):
                self._holders.setdefault(seat.seat.node, OnNode()).add(seat)
        return self._holders.get(sample.node, OnNode())

    def _has_newcomer(self, sample: NodeSample) -> bool:
        """One that got its seat since it was looked up who holds what: it would be written down as holding nothing."""
        known = self._holders.get(sample.node, OnNode()).owners
        told = {one.session_id for one in sample.sessions} | {process.owner.session_id for process in sample.processes}
        return any(one in self._house.book.active for one in told.difference(known) if one is not None)

    async def _held_over(self, ats: Sequence[datetime]) -> Sequence[HeldSeat]:
        """Seats given back since, that were held at one of these times or in between."""
        return await self._house.store.history.held(min(ats), max(ats) + timedelta(microseconds=1)) if ats else ()

    def _holders_then(self, sample: NodeSample, ended: Sequence[HeldSeat], now: datetime) -> OnNode:
        found = OnNode()
        for seat in (*ended, *self.live(now)):
            if seat.seat.node == sample.node and seat.since <= sample.at <= seat.until:
                found.add(seat)
        return found
