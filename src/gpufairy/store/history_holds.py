"""Seats that were held, as the ledger wrote them down. Written by sessions.py, with the change that ended them."""
from datetime import datetime

from sqlalchemy import Connection, select

from gpufairy.core.usage import HeldSeat
from gpufairy.store.rows import from_micros, seat_from_text, to_micros
from gpufairy.store.tables import holds


def holds_within(connection: Connection, since: datetime, until: datetime, owner: str | None) -> list[HeldSeat]:
    """Those that touch that stretch, whole."""
    query = select(holds).where(holds.c.until > to_micros(since), holds.c.since < to_micros(until))
    if owner is not None:
        query = query.where(holds.c.owner == owner)
    rows = connection.execute(query.order_by(holds.c.number)).all()
    return [
        HeldSeat(row.session_id, row.owner, seat_from_text(row.seat), from_micros(row.since), from_micros(row.until), row.team)
        for row in rows
    ]
