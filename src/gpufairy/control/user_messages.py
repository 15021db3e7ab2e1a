"""UserMessages: tells users of their own sessions where they want to be told. Read from the events in order, so that none is missed.

How far they were read is written with what is to be sent: a server that dies in between tells again, never less.
"""
from collections.abc import Callable, Iterable
from datetime import datetime

from gpufairy.control.house import House
from gpufairy.core.alert_tell import Post
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.steps import Event
from gpufairy.core.user_channel import UserChannel
from gpufairy.core.user_message import UserMessage, ends_soon, message_of, over_quota
from gpufairy.couriers.contract import Courier

MARK = "messages_read_to"  # in the store's meta table
AT_ONCE = 500  # events
SWEEP_S = 5.0
MOST_SWEPT = 2000  # sessions in the queue that are looked at for quotas

MakeCourier = Callable[[str, str], Courier]  # of a kind and an address


class UserMessages:
    def __init__(self, house: House, kinds: tuple[str, ...], make: MakeCourier) -> None:
        """`kinds`: by what users may be told here."""
        self._house, self.kinds, self._make = house, kinds, make
        self._channels: dict[str, dict[str, UserChannel]] = {}  # by user and kind
        self._read_to: int | None = None
        self._swept_at: datetime | None = None
        self._told: set[str] = set()  # keys of what was found by looking: asked of the store once

    async def load(self) -> None:
        for channel in await self._house.store.alerts.user_channels():
            self._channels.setdefault(channel.user, {})[channel.kind] = channel
        found = await self._house.store.meta.get(MARK)
        # Without a mark nothing was ever told: what happened before is nobody's news.
        self._read_to = int(found) if found is not None else await self._house.store.events.last_number()

    def of(self, user: str) -> list[UserChannel]:
        return sorted(self._channels.get(user, {}).values(), key=lambda one: one.kind)

    async def put(self, channel: UserChannel) -> None:
        if channel.kind not in self.kinds:
            offered = ", ".join(self.kinds) or "nothing: users are told on the page and in the terminal alone"
            raise BadInput(f"kind: users are not told by {channel.kind} here", f"What is offered: {offered}.")
        self._make(channel.kind, channel.address)  # refuses what nobody here could send
        await self._house.store.alerts.put_user_channel(channel)
        self._channels.setdefault(channel.user, {})[channel.kind] = channel

    async def remove(self, user: str, kind: str) -> None:
        if kind not in self._channels.get(user, {}):
            raise NoSuchThing(f"{user} is not told by {kind[:40]!r}", "See `fairy messages`.")
        await self._house.store.alerts.remove_user_channel(user, kind)
        self._channels[user].pop(kind, None)

    def courier_of(self, name: str) -> Courier | None:
        """For the outbox: of a channel called user:NAME:KIND."""
        _, _, rest = name.partition("user:")
        user, _, kind = rest.rpartition(":")
        channel = self._channels.get(user, {}).get(kind)
        return None if channel is None or kind not in self.kinds else self._make(channel.kind, channel.address)

    async def look(self) -> None:
        """A loop's turn."""
        if self._read_to is None:
            await self.load()
        events = await self._house.store.events.page(after=self._read_to or 0, limit=AT_ONCE)
        messages = [message for event in events if (message := await self._message(event)) is not None]
        messages += self._swept()
        posts = [post for message in messages for post in self.posts(message)]
        if events or posts:
            read_to = events[-1].number if events else self._read_to or 0
            await self._house.store.outbox.add(posts, self._house.clock(), (MARK, str(read_to)) if events else None)
            self._read_to = read_to
        self._told |= {message.key for message in messages if not message.key.startswith("event:")}

    async def _message(self, event: Event) -> UserMessage | None:
        if not event.owner or event.owner not in self._channels:
            return None
        session = self._house.book.get(event.session_id) or await self._house.store.sessions.get(event.session_id)
        return None if session is None else message_of(event, session)

    def _swept(self) -> list[UserMessage]:
        now = self._house.clock()
        if self._swept_at is not None and (now - self._swept_at).total_seconds() < SWEEP_S:
            return []
        self._swept_at = now
        found = [ends_soon(session, now) for session in self._house.book.active.values() if session.owner in self._channels]
        found += self._over_quotas(now)
        return [message for message in found if message is not None and message.key not in self._told]

    def _over_quotas(self, now: datetime) -> Iterable[UserMessage | None]:
        if not self._house.quotas.all():
            return
        for place, session in enumerate(self._house.book):
            if place >= MOST_SWEPT:
                return
            if session.owner in self._channels and session.phase is Phase.QUEUED:
                refusals = self._house.plan.refusals_of(session)
                yield over_quota(session, refusals[0].why if refusals else "", now)

    def posts(self, message: UserMessage) -> list[Post]:
        """To those of their channels that want to hear of it."""
        wanted = [one for one in self.of(message.owner) if message.about in one.about]
        return [Post(one.name, message.key, message.item) for one in wanted]
