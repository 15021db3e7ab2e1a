"""Pools as the server knows them: which there are, how far they have come, and what their nodes took to come.

Written first, done second, and again until it is so: whoever is killed in between finds in the store what was to be done.
"""
import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.core import failpoints
from gpufairy.core.errors import Conflict, FairyError, NoSuchThing
from gpufairy.core.names import nearest
from gpufairy.core.node import Node
from gpufairy.core.pool import Cloud, Machine, Pool, PoolState, Step, learnt, pool_coming
from gpufairy.core.session import Session
from gpufairy.core.steps import Event
from gpufairy.engines.clouds.contract import CloudPools
from gpufairy.store.pools import Pools as StoredPools

AGAIN_AFTER = timedelta(seconds=10)  # a cloud takes minutes for most things: asking more often helps nobody
LONGEST_WAIT = timedelta(minutes=5)
MENDED_EVERY = timedelta(minutes=10)  # what somebody took away by hand is made again

log = logging.getLogger("gpufairy.pools")


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What would be made for a pool."""

    pool: Pool
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Pace:
    due: datetime
    waited: timedelta = field(default=AGAIN_AFTER)


class Pools:
    def __init__(self, store: StoredPools, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._pools: dict[str, Pool] = {}
        self._paces: dict[str, _Pace] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # of each pool: one call to its cloud at a time
        self._writing = asyncio.Lock()  # no change is made from what another changes just now
        self.clouds: Callable[[Cloud], Awaitable[CloudPools]] | None = None  # None: the engine runs nothing in a cluster

    async def load(self) -> None:
        self._pools = {pool.name: pool for pool in await self._store.all()}

    def all(self) -> list[Pool]:
        return sorted(self._pools.values(), key=lambda pool: pool.name)

    def by_name(self) -> Mapping[str, Pool]:
        return self._pools

    def named(self, name: str) -> Pool:
        if name not in self._pools:
            raise NoSuchThing(f"no pool {name[:60]!r}{nearest(name, self._pools)}", "See `fairy pool list`.")
        return self._pools[name]

    async def planned(self, wanted: Pool) -> PoolPlan:
        """Nothing is made by this. Raises whatever it would be refused for."""
        cloud = await self._cloud(wanted.cloud)
        known = self._pools.get(wanted.name)
        if known is not None:
            wanted = as_before(known, wanted)
        machine = await cloud.machine(wanted)
        wanted = replace(wanted, machine=machine)
        return PoolPlan(wanted, await cloud.steps(wanted))

    async def add(self, plan: PoolPlan, told: Event | None) -> PoolPlan:
        """The same again: nothing changes. Other bounds: they are changed. `told`: the deed, written with the wish."""
        name = plan.pool.name

        def wished(known: Pool | None) -> Pool:
            wanted = plan.pool if known is None else as_before(known, plan.pool)
            return replace(wanted, state=PoolState.MAKING, trouble="")

        await self._change(name, wished, told)
        await self._carry_on(name)
        return PoolPlan(self._pools.get(name, plan.pool), plan.steps)

    async def want_removed(self, name: str, told: Event, holding: Iterable[Session], nodes: Sequence[Node]) -> Pool:
        """Written down, with the deed, unless it was before. Nothing is removed by this."""
        pool = self.named(name)
        there = {node.name for node in nodes if node.pool == name}
        seats = [(one.owner, one.seat.node) for one in holding if one.seat is not None]
        held = sorted({owner for owner, node in seats if node in there or pool_coming(node) == name})
        if held:
            found = f"sessions of {', '.join(held[:3])} are on nodes of pool {name}, or wait for one"
            raise Conflict(found, "Wait for them, or stop them.")
        if pool.state is not PoolState.REMOVING:
            await self._change(name, lambda known: known and replace(known, state=PoolState.REMOVING, trouble=""), told)
        return self._pools.get(name, pool)

    async def remove(self, pool: Pool) -> Pool:
        """One that is to be removed. As it is then, or as it was last."""
        await self._carry_on(pool.name)
        return self._pools.get(pool.name, pool)

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        return await (await self._cloud(pool.cloud)).steps(pool)

    async def came(self, name: str, took: timedelta) -> None:
        """A node came for somebody who waited so long."""
        await self._change(name, lambda known: known and replace(known, boots_s=learnt(known, took.total_seconds())))

    async def look(self) -> None:
        """Goes on with what is not done yet, and looks now and then whether the rest is still there."""
        for name in list(self._pools):
            pace = self._paces.setdefault(name, _Pace(self._clock()))
            if self._clock() >= pace.due:
                await self._carry_on(name)

    async def _carry_on(self, name: str) -> None:
        async with self._turns[name]:
            if name not in self._pools:
                return  # whoever was before us has removed it
            pool, now = self._pools[name], self._clock()
            pace = self._paces.setdefault(name, _Pace(now))
            try:
                left = await self._asked_of_cloud(pool)
            except FairyError as error:
                log.warning("pool %s: %s", name, error)
                pace.waited = min(2 * pace.waited, LONGEST_WAIT)
                pace.due = now + pace.waited
                await self._came_to(pool, pool.state, f"{error} {error.next_step}".strip())
                return
            pace.waited, pace.due = AGAIN_AFTER, now + (AGAIN_AFTER if left else MENDED_EVERY)
            if pool.state is PoolState.REMOVING and not left:
                await self._forget(name)
                return
            await self._came_to(pool, pool.state if left else PoolState.READY, left)

    async def _asked_of_cloud(self, pool: Pool) -> str:
        """What is waited for, in words."""
        cloud = await self._cloud(pool.cloud)
        if pool.state is PoolState.REMOVING:
            failpoints.passing("before_pool_remove")
            left = await cloud.remove(pool)
            failpoints.passing("after_pool_remove_before_noted")
        else:
            failpoints.passing("before_pool_make")
            left = await cloud.make(pool)
            failpoints.passing("after_pool_make_before_noted")
        return left

    async def _came_to(self, asked: Pool, state: PoolState, trouble: str) -> None:
        """Unless something else is wanted since: whoever wants it has the next turn. What nodes took to come meanwhile stays known."""

        def noted(known: Pool | None) -> Pool | None:
            if known is None or replace(known, boots_s=asked.boots_s) != asked:
                return None
            return replace(known, state=state, trouble=trouble)

        await self._change(asked.name, noted)

    async def _forget(self, name: str) -> None:
        async with self._writing:
            await self._store.remove(name)
            self._pools.pop(name, None)
            self._paces.pop(name, None)

    async def _cloud(self, cloud: Cloud) -> CloudPools:
        if self.clouds is None:
            raise Conflict("sessions do not run in a cluster here, so there are no pools", "Start the server with --engine kubernetes.")
        return await self.clouds(cloud)

    async def _change(self, name: str, change: Callable[[Pool | None], Pool | None], told: Event | None = None) -> None:
        async with self._writing:
            before = self._pools.get(name)
            after = change(before)
            if after is not None and (after != before or told is not None):
                await self._store.put(after, told)
                self._pools[name] = after


def as_before(known: Pool, wanted: Pool) -> Pool:
    """What cannot be changed is as it is. Raises Conflict."""
    for what, is_now, asked in (
        ("cloud", known.cloud, wanted.cloud), ("cluster", known.cluster, wanted.cluster),
        ("instance", known.machine.instance, wanted.machine.instance),
    ):  # fmt: skip
        if is_now != asked:
            found = f"there is a pool {known.name} with {what} {is_now}, not {asked}"
            raise Conflict(found, f"Give the new one another name, or remove that one first: fairy pool remove {known.name}.")
    if known.state is PoolState.REMOVING:
        raise Conflict(f"pool {known.name} is just being removed", "Try again when it is gone: fairy pool list.")
    options = {**known.options, **wanted.options}
    return replace(known, least=wanted.least, most=wanted.most, options=options)


def bare_machine(instance: str) -> Machine:
    """Of which the cloud is asked for the rest."""
    return Machine(instance, "", 0, 0, 0, 0)
