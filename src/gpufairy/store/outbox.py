"""The outbox: what is to be told to whom, written before it is sent. What was sent or given up is kept for a while."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy import func as sql

from gpufairy.core.alert_tell import Post
from gpufairy.core.letter import Item, item_of
from gpufairy.store.alert_tables import outbox
from gpufairy.store.meta import put
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, from_micros_or_none, to_micros
from gpufairy.store.writer import Writer

WAITING, SENT, GIVEN_UP = "waiting", "sent", "given up"
MOST_TAKEN = 2000  # items of one letter


@dataclass(frozen=True, slots=True)
class WaitingItem:
    number: int
    item: Item
    at: datetime


@dataclass(frozen=True, slots=True)
class ChannelPost:
    """What lies in the outbox for one channel."""

    channel: str
    waiting: int
    oldest_at: datetime | None
    sent_at: datetime | None = None


class OutboxRows:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def add(self, posts: Sequence[Post], now: datetime, mark: tuple[str, str] | None = None) -> None:
        """`mark`: a value of the meta table that is written with them, such as how far events were read."""
        await self._writer.write(lambda connection: _add(connection, posts, now, mark))

    async def waiting(self) -> list[ChannelPost]:
        found = select(outbox.c.channel, sql.count(), sql.min(outbox.c.at)).where(outbox.c.state == WAITING).group_by(outbox.c.channel)
        rows = await self._reader.read(lambda connection: connection.execute(found).all())
        return [ChannelPost(channel, count, from_micros(oldest)) for channel, count, oldest in rows]

    async def last_sent(self) -> dict[str, datetime]:
        """By channel."""
        found = select(outbox.c.channel, sql.max(outbox.c.done_at)).where(outbox.c.state == SENT).group_by(outbox.c.channel)
        rows = await self._reader.read(lambda connection: connection.execute(found).all())
        return {channel: at for channel, micros in rows if (at := from_micros_or_none(micros)) is not None}

    async def of(self, channel: str) -> list[WaitingItem]:
        """The oldest first."""
        own = (outbox.c.channel == channel) & (outbox.c.state == WAITING)
        found = select(outbox).where(own).order_by(outbox.c.number).limit(MOST_TAKEN)
        rows = await self._reader.read(lambda connection: connection.execute(found).all())
        return [WaitingItem(row.number, item_of(row.body), from_micros(row.at)) for row in rows]

    async def sent(self, channel: str, up_to: int, now: datetime) -> None:
        await self._close(channel, up_to, SENT, "", now)

    async def give_up(self, channel: str, up_to: int, why: str, now: datetime) -> None:
        await self._close(channel, up_to, GIVEN_UP, why, now)

    async def forget(self, before: datetime) -> None:
        gone = delete(outbox).where((outbox.c.at < to_micros(before)) & (outbox.c.state != WAITING))
        await self._writer.write(lambda connection: connection.execute(gone))

    async def _close(self, channel: str, up_to: int, state: str, why: str, now: datetime) -> None:
        own = (outbox.c.channel == channel) & (outbox.c.number <= up_to) & (outbox.c.state == WAITING)
        done = update(outbox).where(own).values(state=state, why=why, done_at=to_micros(now))
        await self._writer.write(lambda connection: connection.execute(done))


def write_posts(connection: Connection, posts: Sequence[Post], now: datetime) -> None:
    """One writer writes, so what is not there now is not there when it is added."""
    if not posts:
        return
    known = select(outbox.c.channel, outbox.c.key).where(outbox.c.key.in_({post.key for post in posts}))
    there = {(row.channel, row.key) for row in connection.execute(known)}
    new = {(post.channel, post.key): post for post in posts if (post.channel, post.key) not in there}
    if new:
        row = {"at": to_micros(now), "state": WAITING, "done_at": None, "why": ""}
        rows = [{"channel": post.channel, "key": post.key, "body": post.item.to_text(), **row} for post in new.values()]
        connection.execute(insert(outbox), rows)


def _add(connection: Connection, posts: Sequence[Post], now: datetime, mark: tuple[str, str] | None) -> None:
    write_posts(connection, posts, now)
    if mark is not None:
        put(connection, *mark)
