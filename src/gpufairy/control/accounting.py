"""A month's accounts: seats by the holds, use and energy by the readings, prices by the tariff that was in force."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.control.ledger import seats_held
from gpufairy.core.accounting import (
    AccountBy,
    AccountRow,
    Amount,
    Key,
    Period,
    Read,
    Stretch,
    accounts_of,
    months_of,
    period_of,
    rows_by,
    total_of,
)  # fmt: skip
from gpufairy.core.series import Kind, Total, floor_to
from gpufairy.core.usage import HeldSeat, within

STEP_S = 3600  # readings are kept by the hour for ever
NOTHING = Total()


@dataclass(frozen=True, slots=True)
class Account:
    """`owner`: of theirs alone; None: of all."""

    period: Period
    until: datetime  # up to where it is told: the end of the period, or now
    owner: str | None
    cells: dict[Key, Amount]

    def rows(self, by: AccountBy) -> list[AccountRow]:
        return rows_by(self.cells, by)

    @property
    def total(self) -> Amount:
        return total_of(self.cells)

    @property
    def is_over(self) -> bool:
        return self.until == self.period.until


async def account_of(house: House, month: str, owner: str | None = None) -> Account:
    now, zone = house.clock(), house.tariff.zone
    period = period_of(month, now, zone)
    until = min(period.until, now)
    seats = within(await seats_held(house, Chronicle(house), period.since, now), period.since, until)
    seats = [seat for seat in seats if seat.seat.gpus and owner in (None, seat.owner)]
    stretches = [
        await stretch_of(house, one, begin, end, seats)
        for one in months_of(period, zone)
        for begin, end, _ in house.tariff.stretches(one.since, min(one.until, until))
    ]
    return Account(period, until, owner, accounts_of(stretches, await images_of(house, seats)))


async def stretch_of(house: House, month: Period, since: datetime, until: datetime, seats: Sequence[HeldSeat]) -> Stretch:
    """Readings are added up by whole hours: of one in which a rate changes, all of it is after."""
    theirs = within(seats, since, until)
    names = sorted({seat.session_id for seat in theirs})
    if not names:
        return Stretch(month.name, house.tariff.at(since), ())
    goes_on = until == month.until or any(rate.since == until for rate in house.tariff.rates)
    begin, end = floor_to(since, STEP_S), floor_to(until, STEP_S) if goes_on else until
    reads: dict[str, Read] = {}
    if end > begin:
        for subject, columns in (await house.store.history.totals(Kind.SESSION, begin, end, step=STEP_S, names=names)).items():
            reads[subject.name] = added(reads.get(subject.name, Read()), columns)
    return Stretch(month.name, house.tariff.at(since), theirs, reads)


def added(read: Read, columns: dict[str, Total]) -> Read:
    """A session may have been on several nodes, one after the other."""
    used, drawn = columns["gpus_used"], columns.get("drawn_w", NOTHING)
    known_held_s = columns["gpus_held"].value_s - columns["gpus_unknown"].value_s
    return Read(
        (read.used_s or 0.0) + used.value_s if used.known_s else read.used_s, read.known_held_s + known_held_s,
        (read.energy_j or 0.0) + drawn.value_s if drawn.known_s else read.energy_j, read.energy_known_s + drawn.known_s,
    )  # fmt: skip


async def images_of(house: House, seats: Sequence[HeldSeat]) -> dict[str, str | None]:
    """As it was last: a session that was swapped is told by the image it ended with."""
    ids = list({seat.session_id for seat in seats})
    sessions = {**await house.store.sessions.ended(ids), **{session.id: session for session in house.book if session.id in set(ids)}}
    gone = await house.store.upkeep.images_of([session_id for session_id in ids if session_id not in sessions])
    return {**gone, **{session_id: session.request.image for session_id, session in sessions.items()}}
