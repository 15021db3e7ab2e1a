"""Classes and who is in them, as admins said it; and the links that let students in, by their hashes alone."""
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.classes import Bounds, Homes, Member, SchoolClass, Standing
from gpufairy.store.class_tables import class_links, class_members, classes
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, from_micros_or_none, to_micros, to_micros_or_none
from gpufairy.store.writer import Writer


@dataclass(frozen=True, slots=True)
class ClassLink:
    hash: str
    of: str
    user: str
    made_at: datetime
    until: datetime


class Classes:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def all(self) -> list[SchoolClass]:
        rows = await self._reader.read(lambda connection: connection.execute(select(classes).order_by(classes.c.name)).mappings().all())
        return [_class(dict(row)) for row in rows]

    async def members(self) -> list[Member]:
        query = select(class_members).order_by(class_members.c.of, class_members.c.user)
        rows = await self._reader.read(lambda connection: connection.execute(query).mappings().all())
        return [_member(dict(row)) for row in rows]

    async def put(self, found: SchoolClass, members: Sequence[Member] = ()) -> None:
        """The class as it is now, and these of its members: all of it, or nothing."""
        await self._writer.write(lambda connection: _put(connection, found, members))

    async def put_members(self, members: Sequence[Member]) -> None:
        await self._writer.write(lambda connection: _put_members(connection, members))

    async def remove(self, name: str) -> None:
        await self._writer.write(lambda connection: _remove(connection, name))

    async def put_links(self, links: Sequence[ClassLink]) -> None:
        """Each takes the place of whatever link that student had."""
        await self._writer.write(lambda connection: _put_links(connection, links))

    async def link(self, hashed: str) -> ClassLink | None:
        row = await self._reader.read(
            lambda connection: connection.execute(select(class_links).where(class_links.c.hash == hashed)).first()
        )
        return None if row is None else ClassLink(row.hash, row.of, row.user, from_micros(row.made_at), from_micros(row.until))

    async def use_link(self, hashed: str) -> bool:
        """Whether it was there: of two who come at once, one is let in."""
        gone = delete(class_links).where(class_links.c.hash == hashed)
        return await self._writer.write(lambda connection: connection.execute(gone).rowcount == 1)

    async def linked(self) -> set[str]:
        """Students who have a link that was not used yet."""
        return await self._reader.read(lambda connection: set(connection.execute(select(class_links.c.user)).scalars()))

    async def drop_links(self, name: str) -> None:
        gone = delete(class_links).where(class_links.c.of == name)
        await self._writer.write(lambda connection: connection.execute(gone) and None)


def _put(connection: Connection, found: SchoolClass, members: Sequence[Member]) -> None:
    connection.execute(delete(classes).where(classes.c.name == found.name))
    connection.execute(insert(classes), [_class_row(found)])
    _put_members(connection, members)


def _put_members(connection: Connection, members: Sequence[Member]) -> None:
    for member in members:
        connection.execute(delete(class_members).where(class_members.c.of == member.of, class_members.c.user == member.user))
    if members:
        connection.execute(insert(class_members), [_member_row(member) for member in members])


def _remove(connection: Connection, name: str) -> None:
    connection.execute(delete(classes).where(classes.c.name == name))
    for table in (class_members, class_links):
        connection.execute(delete(table).where(table.c.of == name))


def _put_links(connection: Connection, links: Sequence[ClassLink]) -> None:
    for link in links:
        connection.execute(delete(class_links).where(class_links.c.user == link.user))
    if links:
        rows = [{**asdict(link), "made_at": to_micros(link.made_at), "until": to_micros(link.until)} for link in links]
        connection.execute(insert(class_links), rows)


MOMENTS = ("due", "closing_at", "archived_at")


def _class_row(found: SchoolClass) -> dict[str, Any]:
    times = {name: to_micros(getattr(found, name)) for name in ("start", "end", "made_at")}
    plain = {"quota": json.dumps(asdict(found.quota)), "each": json.dumps(asdict(found.each)), "teachers": json.dumps(found.teachers)}
    moments = {name: to_micros_or_none(getattr(found, name)) for name in MOMENTS}
    return {**asdict(found), **times, **moments, **plain, "homes": found.homes.value}


def _class(row: dict[str, Any]) -> SchoolClass:
    times = {name: from_micros(row[name]) for name in ("start", "end", "made_at")}
    quota, each = (Bounds(**json.loads(row[name])) for name in ("quota", "each"))
    moments = {name: from_micros_or_none(row[name]) for name in MOMENTS}
    teachers = tuple(json.loads(row["teachers"]))
    return SchoolClass(**{**row, **times, **moments, "quota": quota, "each": each, "teachers": teachers, "homes": Homes(row["homes"])})


def _member_row(member: Member) -> dict[str, Any]:
    return {**asdict(member), "standing": member.standing.value, "reset_at": to_micros_or_none(member.reset_at)}


def _member(row: dict[str, Any]) -> Member:
    return Member(**{**row, "standing": Standing(row["standing"]), "reset_at": from_micros_or_none(row["reset_at"])})
