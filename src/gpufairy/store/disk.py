"""Disk use: the last look at each place, and one sum a day of everybody there, from which growth is told."""
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing
from gpufairy.core.disk_growth import KEPT_DAYS, DaySum
from gpufairy.store.disk_tables import disk_days, disk_looks
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.writer import Writer


class Disk:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def looks(self) -> list[tuple[DiskLook, datetime | None]]:
        """Each with when that place was last walked through in full."""
        rows = await self._reader.read(lambda connection: connection.execute(select(disk_looks).order_by(disk_looks.c.place)).all())
        return [(_look(json.loads(row.body), row.at), None if row.full_at is None else from_micros(row.full_at)) for row in rows]

    async def put(self, look: DiskLook, full_at: datetime | None, days: Sequence[DaySum]) -> None:
        """In place of the last one; and the sums of this day anew."""
        await self._writer.write(lambda connection: _put(connection, look, full_at, days))

    async def forget(self, place: str) -> None:
        """One that is walked through no more. Its days stay."""
        await self._writer.write(lambda connection: connection.execute(delete(disk_looks).where(disk_looks.c.place == place)).rowcount)

    async def days(self, since: date) -> list[DaySum]:
        found = select(disk_days).where(disk_days.c.day >= since.toordinal()).order_by(disk_days.c.day, disk_days.c.place, disk_days.c.who)
        rows = await self._reader.read(lambda connection: connection.execute(found).all())
        return [DaySum(date.fromordinal(row.day), row.place, row.who, row.bytes, row.inodes) for row in rows]


def _put(connection: Connection, look: DiskLook, full_at: datetime | None, days: Sequence[DaySum]) -> None:
    connection.execute(delete(disk_looks).where(disk_looks.c.place == look.place.name))
    body = json.dumps({**asdict(look), "at": None})
    full = None if full_at is None else to_micros(full_at)
    connection.execute(insert(disk_looks), [{"place": look.place.name, "at": to_micros(look.at), "full_at": full, "body": body}])
    for day in {one.day for one in days}:
        there = (disk_days.c.day == day.toordinal()) & (disk_days.c.place == look.place.name)
        connection.execute(delete(disk_days).where(there))
        connection.execute(delete(disk_days).where(disk_days.c.day < day.toordinal() - KEPT_DAYS))
    if days:
        connection.execute(insert(disk_days), [{**asdict(one), "day": one.day.toordinal()} for one in days])


def _look(plain: dict[str, Any], at: int) -> DiskLook:
    read = {
        "place": Place(**plain["place"]), "at": from_micros(at), "owners": tuple(map(_owned, plain["owners"])),
        "folders": _things(plain["folders"]), "troubles": tuple(plain["troubles"]),
    }  # fmt: skip
    return DiskLook(**{**plain, **read})


def _owned(plain: dict[str, Any]) -> Owned:
    named = {name: _things(plain[name]) for name in ("largest", "oldest", "folders")}
    return Owned(**{**plain, **named, "sorts": tuple(Sort(**one) for one in plain["sorts"])})


def _things(plain: list[dict[str, Any]]) -> tuple[Thing, ...]:
    return tuple(Thing(**one) for one in plain)
