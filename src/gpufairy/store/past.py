"""Pasts: what is left of sessions that are over, read out and put in whole, to move them between servers. Called by sessions.py."""
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import BindParameter, Connection, bindparam, select

from gpufairy.core.ledger import Hold
from gpufairy.core.lifecycle import Phase
from gpufairy.core.past import Past
from gpufairy.store import tables
from gpufairy.store.rows import chunks, event_from_row, from_micros, seat_from_text, session_from_row

table = tables.sessions


def read_pasts(connection: Connection, after: int, limit: int) -> list[Past]:
    """The next so many, in the order in which they were asked for."""
    found = [session_from_row(row) for row in connection.execute(ENDED, {"after": after, "most": limit})]
    of = {"wanted_ids": [session.id for session in found]}
    events, holds = [dict(row) for row in connection.execute(EVENTS, of).mappings()], connection.execute(HOLDS, of).all()
    return [
        Past(
            session,
            tuple(event_from_row(row) for row in events if row["session_id"] == session.id),
            tuple(
                Hold(replace(session, attempt=row.attempt), seat_from_text(row.seat), from_micros(row.since), from_micros(row.until))
                for row in holds
                if row.session_id == session.id
            ),
        )
        for session in found
    ]


def unknown(connection: Connection, pasts: Sequence[Past]) -> list[Past]:
    """Those whose sessions are not here, each once."""
    ids = [past.session.id for past in pasts]
    there = {row.id for some in chunks(ids) for row in connection.execute(IDS, {"wanted_ids": some})}
    return list({past.session.id: past for past in pasts if past.session.id not in there}.values())


ENDED = (
    select(table)
    .where(table.c.phase == Phase.ENDED.value, table.c.number > bindparam("after"))
    .order_by(table.c.number)
    .limit(bindparam("most"))
)
AMONG: BindParameter[str] = bindparam("wanted_ids", expanding=True)
EVENTS = select(tables.events).where(tables.events.c.session_id.in_(AMONG)).order_by(tables.events.c.number)
HOLDS = select(tables.holds).where(tables.holds.c.session_id.in_(AMONG)).order_by(tables.holds.c.number)
IDS = select(table.c.id).where(table.c.id.in_(AMONG))
