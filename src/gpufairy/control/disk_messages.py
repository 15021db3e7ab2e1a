"""DiskMessages: tells users that they near their disk limit or are over it, where they want to be told.

What somebody was told is written with what is to be sent: a server that dies in between tells again, never less.
"""
from gpufairy.control.house import House
from gpufairy.control.user_messages import UserMessages
from gpufairy.core.alert_tell import Post
from gpufairy.core.disk_message import ToldDisk, disk_message, from_text, to_text

MARK = "disk_told"  # in the store's meta table


class DiskMessages:
    def __init__(self, house: House, messages: UserMessages) -> None:
        self._house, self._messages = house, messages
        self._told: dict[str, ToldDisk] | None = None  # by user; None: not read yet

    async def look(self) -> None:
        """A loop's turn."""
        if self._told is None:
            self._told = from_text(await self._house.store.meta.get(MARK))
        told, posts = self._found(self._told)
        if told != self._told:
            await self._house.store.outbox.add(posts, self._house.clock(), (MARK, to_text(told)))
            self._told = told

    def _found(self, before: dict[str, ToldDisk]) -> tuple[dict[str, ToldDisk], list[Post]]:
        """Who wants to hear of it nowhere was told nothing: they are when they do."""
        disk, now = self._house.disk, self._house.clock()
        after, posts = dict[str, ToldDisk](), list[Post]()
        for user in disk.users().values():
            if not self._messages.of(user.user):
                continue
            told, message = disk_message(user, disk.limit(user.user), before.get(user.user), now)
            if told is not None:
                after[user.user] = told
            if message is not None:
                posts += self._messages.posts(message)
        return after, posts
