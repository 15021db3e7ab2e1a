"""What the fairness ledger reads beside the seats that were held: who asked for GPUs, and what befell their sessions."""
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy import func as sql

from gpufairy.core.fair_ledger import Member
from gpufairy.store.reader import Reader
from gpufairy.store.rows import to_micros
from gpufairy.store.tables import events, sessions

WITHOUT_GPUS = '{"share":"0"'  # how the request of a session that wants none begins


class LedgerRows:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def askers(self, since: datetime, until: datetime) -> frozenset[Member]:
        """Whoever had a session in that time that wants GPUs, and for which team."""
        return await self._reader.read(lambda connection: _askers(connection, since, until))

    async def counts(self, what: Sequence[str], since: datetime, until: datetime) -> dict[tuple[Member, str], int]:
        """How often each of these befell whose sessions."""
        return await self._reader.read(lambda connection: _counts(connection, what, since, until))


def _askers(connection: Connection, since: datetime, until: datetime) -> frozenset[Member]:
    there = (sessions.c.submitted_at < to_micros(until)) & (sessions.c.ended_at.is_(None) | (sessions.c.ended_at > to_micros(since)))
    wants_gpus = ~sessions.c.request.startswith(WITHOUT_GPUS, autoescape=True)
    query = select(sessions.c.owner, sessions.c.team).where(there, wants_gpus).distinct()
    return frozenset(Member(row.owner, row.team) for row in connection.execute(query))


def _counts(connection: Connection, what: Sequence[str], since: datetime, until: datetime) -> dict[tuple[Member, str], int]:
    befell = events.c.what.in_(what) & (events.c.at >= to_micros(since)) & (events.c.at < to_micros(until))
    whose = (sessions.c.owner, sessions.c.team, events.c.what)
    query = select(*whose, sql.count()).join(sessions, sessions.c.id == events.c.session_id).where(befell).group_by(*whose)
    return {(Member(owner, team), happening): count for owner, team, happening, count in connection.execute(query)}
