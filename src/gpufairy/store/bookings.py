"""Bookings. Those that are over stay, as history."""
import json
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.booking import Booking
from gpufairy.core.steps import Event
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.session_writes import write_events
from gpufairy.store.tables import bookings
from gpufairy.store.writer import Writer


class Bookings:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def get(self, booking_id: str) -> Booking | None:
        """Over or not."""
        return next(iter(await self._read(select(bookings).where(bookings.c.id == booking_id))), None)

    async def not_over(self, now: datetime) -> list[Booking]:
        query = select(bookings).where(bookings.c.end > to_micros(now)).order_by(bookings.c.start, bookings.c.id)
        return await self._read(query)

    async def over(self, since: datetime, until: datetime, limit: int) -> list[Booking]:
        """Those that ended in between; the last `limit` of them, oldest first."""
        ended = (bookings.c.end > to_micros(since)) & (bookings.c.end <= to_micros(until))
        return (await self._read(select(bookings).where(ended).order_by(bookings.c.end.desc(), bookings.c.id).limit(limit)))[::-1]

    async def put(self, booking: Booking, event: Event) -> None:
        """Made, or changed."""
        await self._writer.write(lambda connection: _put(connection, booking, event))

    async def remove(self, booking_id: str, event: Event) -> None:
        await self._writer.write(lambda connection: _remove(connection, booking_id, event))

    async def _read(self, query: Any) -> list[Booking]:
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [_booking(row) for row in rows]


def _put(connection: Connection, booking: Booking, event: Event) -> None:
    connection.execute(delete(bookings).where(bookings.c.id == booking.id))
    row = {"id": booking.id, "title": booking.title, "made_by": booking.made_by, "made_at": to_micros(booking.made_at)}
    when = {"start": to_micros(booking.start), "end": to_micros(booking.end)}
    connection.execute(insert(bookings), [{**row, **when, "who": json.dumps(booking.who), "gpus": json.dumps(booking.gpus)}])
    write_events(connection, [event])


def _remove(connection: Connection, booking_id: str, event: Event) -> None:
    connection.execute(delete(bookings).where(bookings.c.id == booking_id))
    write_events(connection, [event])


def _booking(row: dict[str, Any]) -> Booking:
    return Booking(
        row["id"], row["title"], row["made_by"], tuple(json.loads(row["who"])), tuple(json.loads(row["gpus"])),
        from_micros(row["start"]), from_micros(row["end"]), from_micros(row["made_at"]),
    )  # fmt: skip
