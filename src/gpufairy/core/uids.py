"""Uids: the number that is a user's on folders and in containers. Theirs alone, on every image, and never given to anybody else."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpufairy.core.people import User

LAST_UID = 2**31 - 1  # whoever is root in a container may give their home any number, and beyond this some mean nobody
FIRST_UID = 20_000  # above what distributions and most directories give people, below where rootless engines begin


@dataclass(frozen=True, slots=True)
class Uids:
    """`on_folders`: what folders that are there already say. After the loss of a database they alone know whose they are."""

    first: int = FIRST_UID
    on_folders: Mapping[str, int] = field(default_factory=dict)

    def next_for(self, name: str, users: Iterable[User]) -> int:
        given = {user.uid for user in users if user.uid}
        own, taken = self.on_folders.get(name, 0), {uid for uid in self.on_folders.values() if uid <= LAST_UID}
        if self.first <= own <= LAST_UID and own not in given and list(self.on_folders.values()).count(own) == 1:
            return own
        return max((*given, *taken, self.first - 1)) + 1


NO_UIDS_YET = Uids()
