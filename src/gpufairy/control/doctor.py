"""The doctor's rounds on the server's own host: one at a time, and the last one's findings for whoever asks."""
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.doctor import Finding, Verdict, counted

Look = Callable[[], Awaitable[Sequence[Finding]]]
FRESH = timedelta(minutes=1)  # who asks again so soon hears the same


@dataclass(frozen=True, slots=True)
class Checkup:
    at: datetime
    findings: tuple[Finding, ...]


async def keep_nothing(_checkup: Checkup) -> None:
    """Where nobody keeps what was found: in tests of other things."""


class Doctor:
    """`look`: all checks, in words, each with its own time limit."""

    def __init__(self, house: House, look: Look) -> None:
        self._house, self._look = house, look
        self._round: asyncio.Task[Checkup] | None = None
        self.last: Checkup | None = None
        self.on_look: Callable[[Checkup], Awaitable[None]] = keep_nothing
        self.nightly: time | None = None  # when it looks by itself; None: only when asked

    @property
    def under_way(self) -> bool:
        return self._round is not None and not self._round.done()

    def begin(self) -> "asyncio.Task[Checkup]":
        """One that is under way serves all who ask."""
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._look_at_all(), name="doctor")
        return self._round

    async def checkup(self, *, anew: bool = False) -> Checkup:
        """The last one while it is fresh, else one that is made now."""
        if self.last is not None and not anew and self._house.clock() - self.last.at < FRESH:
            return self.last
        return await asyncio.shield(self.begin())

    async def _look_at_all(self) -> Checkup:
        self.last = found = Checkup(self._house.clock(), tuple(await self._look()))
        await self.on_look(found)
        self._house.bells.sessions_changed([])  # an open page shows it at once
        return found


async def look_for(house: House, doctor: Doctor, actor: str) -> Checkup:
    """A round that an admin asked for: who did, and what came of it, is written down."""
    found = await doctor.checkup(anew=True)
    sums = counted(found.findings)
    words = f"{sums[Verdict.BAD]} bad, {sums[Verdict.WARN]} to be looked at, {sums[Verdict.OK]} well"
    await note(house, actor, "server:doctor", "doctor_looked", words)
    return found
