"""How busy each GPU was over the last minutes, by slots of some seconds: from the server's history at first, then from what is seen."""
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpufairy.client.protocol import Record
from gpufairy.client.values import time_of

SLOT_S = 5  # agents report so often
WINDOW_S = 600
SLOTS = WINDOW_S // SLOT_S  # of the wide line
PARTS = 20  # of the narrow one: half a minute each
SLOTS_A_PART = SLOTS // PARTS


@dataclass(slots=True)
class Mean:
    total: float = 0.0
    count: int = 0


@dataclass(slots=True)
class Track:
    """Of one GPU. Where nothing was known, nothing is. Slots and parts begin at round times: a line drawn of them does not flicker."""

    slots: dict[int, Mean] = field(default_factory=dict)
    parts: dict[int, Mean] = field(default_factory=dict)

    def see(self, at_s: float, value: float | None) -> None:
        if value is None:
            return
        slot = int(at_s // SLOT_S)
        _add(self.slots, slot, SLOTS, value)
        _add(self.parts, slot // SLOTS_A_PART, PARTS, value)

    def wide(self, now_s: float) -> list[float | None]:
        return _values(self.slots, int(now_s // SLOT_S), SLOTS)

    def narrow(self, now_s: float) -> list[float | None]:
        return _values(self.parts, int(now_s // SLOT_S) // SLOTS_A_PART, PARTS)


def _add(means: dict[int, Mean], number: int, most: int, value: float) -> None:
    mean = means.get(number)
    if mean is None:
        mean = means[number] = Mean()
        for old in [one for one in means if one <= number - most] if len(means) > most else []:
            del means[old]
    mean.total += value
    mean.count += 1


def _values(means: dict[int, Mean], newest: int, most: int) -> list[float | None]:
    found = (means.get(number) for number in range(newest - most + 1, newest + 1))
    return [None if mean is None else mean.total / mean.count for mean in found]


@dataclass(slots=True)
class History:
    tracks: dict[str, Track] = field(default_factory=dict)  # by UUID

    def see(self, uuid: str, at_s: float, value: float | None) -> None:
        self.tracks.setdefault(uuid, Track()).see(at_s, value)

    def fill(self, uuid: str, answer: Record, now_s: float) -> None:
        """What the server remembers, without the slots that were seen here."""
        track = self.tracks.setdefault(uuid, Track())
        own = set(track.slots)
        for at_s, value in _told(answer, now_s):
            if now_s - at_s <= WINDOW_S and int(at_s // SLOT_S) not in own:
                track.see(at_s, value)

    def wide(self, uuid: str, now_s: float) -> list[float | None]:
        return self.tracks.get(uuid, _NOTHING).wide(now_s)

    def narrow(self, uuid: str, now_s: float) -> list[float | None]:
        return self.tracks.get(uuid, _NOTHING).narrow(now_s)


_NOTHING = Track()


def _told(answer: Record, now_s: float) -> list[tuple[float, float | None]]:
    column = (answer.get("columns") or {}).get("utilisation") or {}
    times = [time.timestamp() for text in answer.get("times") or [] if (time := time_of(text)) is not None]
    means: Sequence[float | None] = column.get("mean") or []
    # A server whose clock is ahead of ours would else draw into times that have not come.
    ahead_s = max(0.0, max(times, default=0.0) - now_s)
    return [(at_s - ahead_s, value) for at_s, value in zip(times, means, strict=False)]
