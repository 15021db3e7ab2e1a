"""Chances: whether anybody who waits could sit anywhere, promises and turns aside. Where nobody could, a pass would place nobody.

It only ever says "no" where planning would: so a replay leaves out the passes that change nothing, and its answers stay the same.
"""
from collections import Counter
from collections.abc import Iterable, Mapping

from gpufairy.core.fit import fit
from gpufairy.core.queue import Shape, shape, sitting
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import ShareKind


class Chances:
    def __init__(self, rooms: Mapping[str, Room]) -> None:
        """`rooms`: as they are at any moment; whoever changes them tells."""
        self._rooms = rooms
        self._waiting: Counter[Shape] = Counter()
        self._requests: dict[Shape, Request] = {}
        self._shut: set[Shape] = set()  # of those, the ones that fit nowhere

    def any(self) -> bool:
        return len(self._waiting) > len(self._shut)

    def hopeful(self) -> int:
        """How many of those who wait might fit somewhere."""
        return self._waiting.total() - sum(self._waiting[asked] for asked in self._shut)

    def are_there_for(self, session: Session) -> bool:
        return sitting(shape(session.request)) not in self._shut

    def came(self, session: Session) -> None:
        asked = sitting(shape(session.request))
        self._waiting[asked] += 1
        if self._waiting[asked] == 1:
            self._requests[asked] = session.request
            # Where nobody is known to wait in vain there is room for most: then it costs less to plan than to look twice.
            if self._shut and not self._fits(asked, self._rooms.values()):
                self._shut.add(asked)

    def went(self, session: Session) -> None:
        """It waits no longer."""
        asked = sitting(shape(session.request))
        self._waiting[asked] -= 1
        if not self._waiting[asked]:
            del self._waiting[asked], self._requests[asked]
            self._shut.discard(asked)

    def room_grew(self, node: str) -> None:
        there = (self._rooms[node],)
        self._shut = {asked for asked in self._shut if not self._fits(asked, there)}

    def room_shrank(self) -> None:
        self._shut |= {asked for asked in self._waiting if asked not in self._shut and not self._fits(asked, self._rooms.values())}

    def _fits(self, asked: Shape, rooms: Iterable[Room]) -> bool:
        request = self._requests[asked]
        return any(may_fit(request, room) and isinstance(fit(request, room), Seat) for room in rooms)


def may_fit(request: Request, room: Room) -> bool:
    """The cheap half of `fit`: what it says no to, that one refuses."""
    if (request.cpus_milli or 0) > room.cpus_milli or (request.memory_bytes or 0) > room.memory_bytes:
        return False
    if request.share.kind is not ShareKind.WHOLE or request.preemptible:
        return True
    return sum(gpu.is_free for gpu in room.gpus) >= request.share.whole_gpus
