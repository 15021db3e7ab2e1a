"""Uids: the number that is a user's on folders and in containers. Theirs alone, on every image, and never given to anybody else."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpufairy.core.people import User

FIRST_UID = 20_000  # above what distributions and most directories give people, below where rootless engines begin


@dataclass(frozen=True, slots=True)
class Uids:
    """`on_folders`: what folders that are there already say. After the loss of a database they alone know whose they are."""

    first: int = FIRST_UID
    on_folders: Mapping[str, int] = field(default_factory=dict)

    def next_for(self, name: str, users: Iterable[User]) -> int:
        given = {user.uid for user in users if user.uid}
        own = self.on_folders.get(name, 0)
        if own >= self.first and own not in given:
            return own
        return max((*given, *self.on_folders.values(), self.first - 1)) + 1


NO_UIDS_YET = Uids()
