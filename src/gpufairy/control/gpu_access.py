"""Whether sessions can still open their GPUs, asked in the session itself: the host cannot see what a container's cgroup lets it open.

Each is asked seldom, since a program is started in it; who could not is asked again at every look.
"""
import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.control.selftest_lines import Records
from gpufairy.core.errors import FairyError
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command

PROBE = "gpufairy.devices.probe_open"
AGAIN_AFTER = timedelta(minutes=10)
SETTLED_AFTER = timedelta(minutes=1)  # before that a session has its hands full
MOST_AT_ONCE = 16
ANSWER_LIMIT_S = 10.0


class GpuAccess:
    def __init__(self, house: House, python: str | None) -> None:
        """`python`: inside sessions. None: they are processes of this machine, with no devices of their own."""
        self._house, self._python = house, python
        self._asked_at: dict[str, datetime] = {}

    async def ask(self, suspected: Collection[str]) -> dict[str, bool]:
        """By session id. Who gave no answer is not in it."""
        if self._python is None:
            return {}
        due = self._due(suspected)
        answers = await asyncio.gather(*(self._opens(session, self._python) for session in due))
        return {session.id: answer for session, answer in zip(due, answers, strict=True) if answer is not None}

    def _due(self, suspected: Collection[str]) -> list[Session]:
        now = self._house.clock()
        could = [one for one in self._house.book.holding() if has_gpu(one) and now - one.since >= SETTLED_AFTER]
        self._asked_at = {one.id: at for one in could if (at := self._asked_at.get(one.id)) is not None}
        due = [one for one in could if one.id in suspected or self._is_due(one, now)]
        due.sort(key=lambda one: (one.id not in suspected, self._asked_at.get(one.id, one.since), one.id))
        for session in due[:MOST_AT_ONCE]:
            self._asked_at[session.id] = now
        return due[:MOST_AT_ONCE]

    def _is_due(self, session: Session, now: datetime) -> bool:
        asked_at = self._asked_at.get(session.id)
        return asked_at is None or now - asked_at >= AGAIN_AFTER

    async def _opens(self, session: Session, python: str) -> bool | None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                stream = await self._house.engine.open(workload_id(session), Command((python, "-I", "-m", PROBE)))
                try:
                    with Records(stream.stdout) as records:
                        return verdict(await records.next())
                finally:
                    await stream.close()
        except (FairyError, TimeoutError):
            return None  # nothing is known, so nothing is said


def verdict(told: dict[str, object] | None) -> bool | None:
    """What a session says of itself is believed in shape alone; None: it says nothing of use."""
    found = None if told is None else told.get("open")
    return found if isinstance(found, bool) else None


def has_gpu(session: Session) -> bool:
    gpus: Iterable[object] = () if session.seat is None else [gpu for gpu in session.seat.gpus if not gpu.simulated]
    return session.phase is Phase.RUNNING and any(gpus)
