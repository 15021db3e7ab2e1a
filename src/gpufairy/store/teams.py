"""Teams with their shares, and quotas: what admins said of them. Who is in a team is in users."""
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gpufairy.core.quota_rules import Quota
from gpufairy.core.team import Team
from gpufairy.core.usage import HeldSeat
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, request_from_text, seat_from_text, to_micros
from gpufairy.store.tables import holds, quotas, sessions, teams
from gpufairy.store.writer import Writer


class Teams:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def teams(self) -> list[Team]:
        rows = await self._reader.read(lambda connection: connection.execute(select(teams).order_by(teams.c.name)).all())
        return [Team(row.name, row.share, from_micros(row.created_at)) for row in rows]

    async def put(self, name: str, share: float, at: datetime) -> None:
        """`at`: when it is made, if it is not there yet."""
        await self._writer.write(lambda connection: _put(connection, name, share, at))

    async def remove(self, name: str) -> None:
        """With its quotas."""
        await self._writer.write(lambda connection: _remove(connection, name))

    async def quotas(self) -> list[Quota]:
        rows = await self._reader.read(lambda connection: connection.execute(select(quotas).order_by(quotas.c.of, quotas.c.gpu_kind)).all())
        return [Quota(row.of, row.gpu_kind, row.gpu_parts, row.gpu_hours_week, row.sessions, row.disk_bytes) for row in rows]

    async def counted_holds(self, since: datetime) -> list[HeldSeat]:
        """Seats given back since then, for quotas: without those of preemptible sessions, which are under none."""
        return await self._reader.read(lambda connection: _counted_holds(connection, since))

    async def set_quota(self, quota: Quota) -> None:
        await self._writer.write(lambda connection: _set_quota(connection, quota))

    async def remove_quota(self, of: str, gpu_kind: str) -> None:
        await self._writer.write(lambda connection: _remove_quota(connection, of, gpu_kind))


def _put(connection: Connection, name: str, share: float, at: datetime) -> None:
    if connection.execute(update(teams).where(teams.c.name == name).values(share=share)).rowcount == 0:
        connection.execute(insert(teams), [{"name": name, "share": share, "created_at": to_micros(at)}])


def _remove(connection: Connection, name: str) -> None:
    connection.execute(delete(teams).where(teams.c.name == name))
    connection.execute(delete(quotas).where(quotas.c.of == f"team:{name}"))


def _counted_holds(connection: Connection, since: datetime) -> list[HeldSeat]:
    found = select(holds, sessions.c.request).select_from(holds.outerjoin(sessions, holds.c.session_id == sessions.c.id))
    rows = connection.execute(found.where(holds.c.until > to_micros(since)).order_by(holds.c.number)).all()
    return [
        HeldSeat(row.session_id, row.owner, seat_from_text(row.seat), from_micros(row.since), from_micros(row.until), row.team)
        for row in rows
        if row.request is None or not request_from_text(row.request).preemptible
    ]


def _set_quota(connection: Connection, quota: Quota) -> None:
    _remove_quota(connection, quota.of, quota.gpu_kind)
    row: dict[str, Any] = {"of": quota.of, "gpu_kind": quota.gpu_kind, "gpu_parts": quota.gpu_parts}
    bounds = {"gpu_hours_week": quota.gpu_hours_week, "sessions": quota.sessions, "disk_bytes": quota.disk_bytes}
    connection.execute(insert(quotas), [{**row, **bounds}])


def _remove_quota(connection: Connection, of: str, gpu_kind: str) -> None:
    connection.execute(delete(quotas).where((quotas.c.of == of) & (quotas.c.gpu_kind == gpu_kind)))
