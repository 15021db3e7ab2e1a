"""Deeds: what the engine is asked to do, each in a task of its own, so that one slow launch holds up nobody else's stop.

For one workload they are done one after the other, and the same deed is never asked twice at once.
"""
import asyncio
import logging
from collections.abc import Awaitable, Callable

from gpufairy.core.reconcile import Deed
from gpufairy.core.workload import WorkloadId

log = logging.getLogger("gpufairy.deeds")

AT_ONCE = 32  # enough to hide an engine's latency, few enough not to drown it


class Deeds:
    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[WorkloadId, list[Deed]] = {}
        self._last: dict[WorkloadId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, deed: Deed, workload: WorkloadId, work: Callable[[], Awaitable[None]]) -> None:
        """Does nothing if that very deed is under way: the next look at the engine tells whether it is still wanted."""
        if deed in self._under_way.get(workload, ()):
            return
        self._under_way.setdefault(workload, []).append(deed)
        task = asyncio.create_task(self._do(work, self._last.get(workload)), name=f"{deed} {workload}")
        self._last[workload] = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(deed, workload, done))

    async def _do(self, work: Callable[[], Awaitable[None]], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        async with self._gate:
            await work()

    def _done(self, deed: Deed, workload: WorkloadId, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._under_way[workload].remove(deed)
        if not self._under_way[workload]:
            del self._under_way[workload], self._last[workload]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s %s: %s", deed, workload, error, exc_info=error)
        if deed is not Deed.CLEAR:  # after a clearing there is nothing new to see
            self._on_done()

    async def close(self) -> None:
        """What is under way is given up; the next server sees how far it came."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def under_way(self, deed: Deed) -> set[WorkloadId]:
        return {workload for workload, deeds in self._under_way.items() if deed in deeds}

    async def settled(self) -> None:
        """Returns when nothing is under way."""
        while self._last:
            await asyncio.wait(list(self._last.values()))
