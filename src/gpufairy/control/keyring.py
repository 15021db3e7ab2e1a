"""Keyring: whose SSH key is whose. Kept in memory as the store has it; a change is in force at once."""
from collections.abc import Callable

from gpufairy.core.errors import NoSuchThing
from gpufairy.core.people import Key
from gpufairy.store.people import People


class Keyring:
    def __init__(self, people: People) -> None:
        self._people = people
        self._keys: dict[str, Key] = {}  # by fingerprint: a key names one user
        self.on_change: Callable[[], None] = lambda: None

    async def load(self) -> None:
        self._keys = {key.fingerprint: key for key in await self._people.all_keys()}

    def of(self, user: str) -> list[Key]:
        return [key for key in self._keys.values() if key.user == user]

    async def add(self, key: Key) -> bool:
        """Whether it is new: theirs already is fine."""
        there = self._keys.get(key.fingerprint)
        if there is not None and there.user == key.user:
            return False
        await self._people.add_key(key)
        self._keys[key.fingerprint] = key
        self.on_change()
        return True

    async def remove(self, user: str, fingerprint: str) -> Key:
        there = {key.fingerprint: key for key in self.of(user)}
        if fingerprint not in there:
            raise NoSuchThing(f"{user} has no key {fingerprint[:80]!r}", "See `fairy key list`.")
        await self._people.remove_key(user, fingerprint)
        self._keys.pop(fingerprint, None)
        self.on_change()
        return there[fingerprint]
