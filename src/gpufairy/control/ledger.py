"""The fairness ledger of a stretch of time: seats by the holds, use by the readings, rights by the weights."""
from datetime import datetime

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.errors import BadInput
from gpufairy.core.fair_ledger import COUNTED, Ledger, LedgerBy, Past, Use, fair_ledger
from gpufairy.core.usage import By, HeldSeat


async def ledger_of(house: House, by: LedgerBy, since: datetime, until: datetime | None = None) -> Ledger:
    """Of a stretch that was over before now use is not told: readings are added up to now."""
    now = house.clock()
    end = now if until is None else min(until, now)
    if end <= since:
        raise BadInput(f"since: {since:%Y-%m-%d %H:%M:%S} is not before {end:%Y-%m-%d %H:%M:%S}", "Ask for a time that has passed.")
    chronicle, rows = Chronicle(house), house.store.ledger
    seats = await seats_held(house, chronicle, since, now)
    uses = await uses_of(chronicle, since) if end == now else {}
    past = Past(seats, await rows.askers(since, end), uses, await rows.counts(COUNTED, since, end))
    return fair_ledger(past, house.teams.weights(), by, since, end)


async def seats_held(house: House, chronicle: Chronicle, since: datetime, now: datetime) -> list[HeldSeat]:
    """Those held now first: whichever is given back while the others are read is then met twice, and counted once."""
    live = {(seat.session_id, seat.since): seat for seat in chronicle.live(now)}
    ended = await house.store.history.held(since, now)
    return [*live.values(), *(seat for seat in ended if (seat.session_id, seat.since) not in live)]


async def uses_of(chronicle: Chronicle, since: datetime) -> dict[str, Use]:
    report = await chronicle.usage(By.USER, since)
    return {row.name: Use(row.used_s, row.unknown_s) for row in report.rows}
