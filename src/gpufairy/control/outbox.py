"""The outbox's loop: what waits for a channel goes out as one letter, is tried again when it fails, and never goes faster than it may."""
import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.core import failpoints
from gpufairy.core.delivery import GIVE_UP_AFTER, Pace, delivered, failed, may_send
from gpufairy.core.errors import FairyError, NoSuchThing, NotDelivered
from gpufairy.core.letter import Item, Letter, letter_of
from gpufairy.core.names import nearest
from gpufairy.couriers.contract import Courier
from gpufairy.store.outbox import ChannelPost, OutboxRows

log = logging.getLogger("gpufairy.outbox")

NO_CHANNEL = "there is no such channel any more"


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    link: str = ""  # the page that tells more
    gather: timedelta = timedelta(seconds=5)
    most_an_hour: int = 30


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    name: str
    place: str
    waiting: int
    sent_at: datetime | None
    trouble: str
    next_try: datetime | None


class Outbox:
    def __init__(
        self, rows: OutboxRows, clock: Clock, couriers: Mapping[str, Courier], settings: OutboxSettings, *,
        of_user: Callable[[str], Courier | None] = lambda channel: None, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        """`couriers`: of the settings, by name. `of_user`: of a channel called user:…"""
        self._rows, self._clock, self._couriers, self._settings = rows, clock, couriers, settings
        self._of_user, self._chance = of_user, chance
        self._paces: dict[str, Pace] = {}
        self._troubles: dict[str, str] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self.news = asyncio.Event()

    async def look(self) -> None:
        """A loop's turn. A channel that hangs holds up no other: each is sent to by a task of its own."""
        now = self._clock()
        for post in await self._rows.waiting():
            if post.channel in self._sending or not self._is_due(post, now):
                continue
            task = asyncio.create_task(self._deliver(post.channel), name=f"send {post.channel}")
            self._sending[post.channel] = task
            task.add_done_callback(lambda _, channel=post.channel: self._sending.pop(channel, None))  # type: ignore[misc]

    async def settled(self) -> None:
        """Whatever is being sent was sent, or failed."""
        while self._sending:
            await asyncio.wait(list(self._sending.values()))

    async def close(self) -> None:
        """What is under way is given up: it is written down, and goes out at the next start."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def status(self) -> list[ChannelStatus]:
        """Of the channels of the settings."""
        waiting = {post.channel: post.waiting for post in await self._rows.waiting()}
        sent = await self._rows.last_sent()
        return [self._status_of(name, courier, waiting.get(name, 0), sent.get(name)) for name, courier in self._couriers.items()]

    async def test(self, channel: str, by: str) -> str:
        """Sends a letter at once; returns where it went. Raises NotDelivered."""
        courier = self._couriers.get(channel) or self._of_user(channel)
        if courier is None:
            known = ", ".join(self._couriers) or "none: they are set as [[channels]] in fairy.toml"
            raise NoSuchThing(f"no channel {channel[:60]!r}{nearest(channel, self._couriers)}", f"Channels here: {known}.")
        item = Item("test", "told", "note", f"This is a test of this channel, asked for by {by}. All is well")
        await courier.send(Letter((item,), link=self._settings.link))
        self._troubles.pop(channel, None)
        self._paces.pop(channel, None)  # it works again: what waits goes out now
        self.news.set()
        return courier.place

    def _status_of(self, name: str, courier: Courier, waiting: int, sent_at: datetime | None) -> ChannelStatus:
        pace = self._paces.get(name, Pace())
        next_try = pace.not_before if pace.failures and waiting else None
        return ChannelStatus(name, courier.place, waiting, sent_at, self._troubles.get(name, ""), next_try)

    def _is_due(self, post: ChannelPost, now: datetime) -> bool:
        gathered = post.oldest_at is None or now - post.oldest_at >= self._settings.gather
        return gathered and may_send(self._paces.get(post.channel, Pace()), now, self._settings.most_an_hour)

    async def _deliver(self, channel: str) -> None:
        pace = self._paces.get(channel, Pace())
        try:
            await self._send(channel)
        except FairyError as error:
            if self._troubles.get(channel) != error.detail:
                log.warning("channel %s: %s", channel, error.detail)
            self._troubles[channel], self._paces[channel] = error.detail, failed(pace, self._clock(), self._chance())
        else:
            self._troubles.pop(channel, None)
            self._paces[channel] = delivered(pace, self._clock(), self._settings.gather)

    async def _send(self, channel: str) -> None:
        waiting = await self._rows.of(channel)
        old = [one for one in waiting if self._clock() - one.at > GIVE_UP_AFTER]
        if old:
            await self._rows.give_up(channel, old[-1].number, self._troubles.get(channel) or "it waited for too long", self._clock())
        courier = self._couriers.get(channel) or self._of_user(channel)
        fresh = waiting[len(old) :]
        if not fresh:
            return
        if courier is None:
            await self._rows.give_up(channel, fresh[-1].number, NO_CHANNEL, self._clock())
            raise NotDelivered(f"{channel}: {NO_CHANNEL}", "Set it again in fairy.toml.")
        fresh = fresh[: max(courier.most_items, 1)] if courier.most_items > 100 else fresh
        failpoints.passing("before_letter_sent")
        await courier.send(letter_of([one.item for one in fresh], self._settings.link, most=courier.most_items))
        failpoints.passing("after_letter_sent_before_noted")
        await self._rows.sent(channel, fresh[-1].number, self._clock())
