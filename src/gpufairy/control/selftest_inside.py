"""The isolation probe in a session: entered as an SSH login comes in, its lines read as they come, and believed in shape alone."""
import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

from gpufairy.control.selftest_lines import Records
from gpufairy.core.errors import Conflict
from gpufairy.core.isolation import Held, Side
from gpufairy.core.session import GpuSeat, Session
from gpufairy.core.tried import ProbeFacts, Tried, facts_from_plain, tried_from_plain
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command, Engine

PROBE = "gpufairy.devices.probe_isolation"
PROBE_LIMIT_S = 900.0  # some fifty ways of a second or two each; a few of them may hang for a minute
HOLD_LIMIT_S = 90.0

Say = Callable[[str], None]
Line = dict[str, Any]


class Inside:
    """One session of the self-test."""

    def __init__(self, engine: Engine, session: Session, python: str, others: Sequence[str] = ()) -> None:
        assert session.seat is not None
        self.session, self.gpu = session, session.seat.gpus[0]
        self._engine, self._python, self._others = engine, python, others

    @property
    def held(self) -> Held:
        return Held(self.gpu.sharing, self.gpu.memory_bytes, self.gpu.parts)

    async def probe(self, say: Say) -> Side:
        """Every way. Raises Conflict: the probe could not be run, or did not come to its end."""
        facts, tried = ProbeFacts(), []
        async with contextlib.aclosing(self._told(PROBE_LIMIT_S)) as lines:
            async for line in lines:
                if isinstance(found := line.get("facts"), dict):
                    facts = facts_from_plain(found)
                elif "way" in line:
                    tried.append(tried_from_plain(line))
                    say(f"{self.session.name}: {tried[-1].way}")
        return Side(self.held, facts, tuple(tried))

    async def own_share(self) -> Tried:
        async with contextlib.aclosing(self._told(HOLD_LIMIT_S, "--own-share")) as lines:
            found = [tried_from_plain(line) async for line in lines if "way" in line]
        return found[0] if found else Tried("its own share", "memory", error="the probe told nothing of it")

    @contextlib.asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[int]:
        """So much of the GPU's memory, or as much of it as it gets: how much that is. Raises Conflict: it gets none."""
        async with self._opened("--hold", str(size_bytes)) as records:
            line = await self._in_time(records, HOLD_LIMIT_S) or {}
            held = line.get("held_bytes")
            if line.get("error") or not isinstance(held, int):
                why = str(line.get("error") or "it said nothing")[:300]
                raise Conflict(f"session {self.session.name} could take none of its GPU's memory: {why}")
            yield held

    async def _told(self, limit_s: float, *options: str) -> AsyncGenerator[Line, None]:
        """Up to the line that says that all is done. Raises Conflict: the probe could not begin, or was cut short."""
        until = asyncio.get_running_loop().time() + limit_s
        async with self._opened(*options) as records:
            while line := await self._in_time(records, until - asyncio.get_running_loop().time()):
                if line.get("done"):
                    return
                if "way" not in line and line.get("error"):
                    raise Conflict(f"nothing can be tried in session {self.session.name}: {str(line['error'])[:300]}")
                yield line
        raise Conflict(f"the probe in session {self.session.name} was cut short")

    async def _in_time(self, records: Records, limit_s: float) -> Line | None:
        try:
            async with asyncio.timeout(max(0.0, limit_s)):
                return await records.next()
        except TimeoutError:
            raise Conflict(f"the probe in session {self.session.name} gave no answer in time") from None

    @contextlib.asynccontextmanager
    async def _opened(self, *options: str) -> AsyncIterator[Records]:
        words = ["--gpu", self.gpu.uuid, "--device", device_of(self.gpu), "--memory-bytes", str(self.gpu.memory_bytes)]
        words += [word for other in self._others for word in ("--other", other)]
        stream = await self._engine.open(workload_id(self.session), Command((self._python, "-I", "-m", PROBE, *words, *options)))
        try:
            with Records(stream.stdout) as records:
                yield records
        finally:
            await stream.close()


def device_of(gpu: GpuSeat) -> str:
    return gpu.instance_uuid or gpu.uuid
