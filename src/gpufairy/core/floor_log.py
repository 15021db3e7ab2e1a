"""Which nodes changed, in order, for those who keep answers about all of them: each looks again only at what came since it last did."""
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

BEGINS_WITH = 1000  # changes; it grows by itself


class ChangeLog(Sequence[int]):
    """It is as long as all that ever changed, but only the last of it is kept."""

    def __init__(self) -> None:
        self._kept = np.empty(BEGINS_WITH, dtype=np.intp)
        self._forgotten = self._count = 0

    def __len__(self) -> int:
        return self._forgotten + self._count

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            found: list[int] = self._kept[max(0, (place.start or 0) - self._forgotten) : self._count].tolist()
            return found
        return int(self._kept[: self._count][place - self._forgotten])

    def append(self, node: int) -> None:
        if self._count == len(self._kept):
            self._kept = np.concatenate([self._kept, np.empty_like(self._kept)])
        self._kept[self._count] = node
        self._count += 1

    def since(self, seen: int) -> NDArray[np.intp] | None:
        """None: that is too long ago."""
        return None if seen < self._forgotten else self._kept[seen - self._forgotten : self._count]

    def is_longer_than(self, changes: int) -> bool:
        return self._count > changes

    def forget(self) -> None:
        """Whoever follows it by its places has to be in step."""
        self._forgotten, self._count = len(self), 0
