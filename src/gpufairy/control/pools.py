"""Pools as the server knows them: which there are, how far they have come, and what their nodes took to come.

Written first, done second, and again until it is so: whoever is killed in between finds in the store what was to be done.
"""
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.core.errors import Conflict, FairyError, NoSuchThing
from gpufairy.core.names import nearest
from gpufairy.core.node import Node
from gpufairy.core.pool import Cloud, Machine, Pool, PoolState, Step, learnt, pool_coming
from gpufairy.core.session import Session
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

    async def add(self, wanted: Pool) -> PoolPlan:
        """The same again: nothing changes. Other bounds: they are changed."""
        plan = await self.planned(wanted)
        await self._put(replace(plan.pool, state=PoolState.MAKING, trouble=""))
        await self._carry_on(plan.pool.name)
        pool = self._pools.get(wanted.name, plan.pool)
        return PoolPlan(pool, plan.steps)

    async def remove(self, name: str, holding: Iterable[Session], nodes: Sequence[Node]) -> Pool:
        pool = self.named(name)
        there = {node.name for node in nodes if node.pool == name}
        seats = [(one.owner, one.seat.node) for one in holding if one.seat is not None]
        held = sorted({owner for owner, node in seats if node in there or pool_coming(node) == name})
        if held:
            found = f"sessions of {', '.join(held[:3])} are on nodes of pool {name}, or wait for one"
            raise Conflict(found, "Wait for them, or stop them.")
        await self._put(replace(pool, state=PoolState.REMOVING, trouble=""))
        await self._carry_on(name)
        return self._pools.get(name, replace(pool, state=PoolState.REMOVING))

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        return await (await self._cloud(pool.cloud)).steps(pool)

    async def came(self, name: str, took: timedelta) -> None:
        """A node came for somebody who waited so long."""
        pool = self._pools.get(name)
        if pool is not None:
            await self._put(replace(pool, boots_s=learnt(pool, took.total_seconds())))

    async def look(self) -> None:
        """Goes on with what is not done yet, and looks now and then whether the rest is still there."""
        for name in list(self._pools):
            pace = self._paces.setdefault(name, _Pace(self._clock()))
            if self._clock() >= pace.due:
                await self._carry_on(name)

    async def _carry_on(self, name: str) -> None:
        pool, now = self._pools[name], self._clock()
        pace = self._paces.setdefault(name, _Pace(now))
        try:
            cloud = await self._cloud(pool.cloud)
            left = await (cloud.remove(pool) if pool.state is PoolState.REMOVING else cloud.make(pool))
        except FairyError as error:
            log.warning("pool %s: %s", name, error)
            pace.waited = min(2 * pace.waited, LONGEST_WAIT)
            pace.due = now + pace.waited
            await self._put(replace(pool, trouble=f"{error} {error.next_step}".strip()))
            return
        pace.waited, pace.due = AGAIN_AFTER, now + (AGAIN_AFTER if left else MENDED_EVERY)
        if pool.state is PoolState.REMOVING and not left:
            await self._store.remove(name)
            self._pools.pop(name, None)
            return
        state = pool.state if left else PoolState.READY
        await self._put(replace(pool, state=state, trouble=left))

    async def _cloud(self, cloud: Cloud) -> CloudPools:
        if self.clouds is None:
            raise Conflict("sessions do not run in a cluster here, so there are no pools", "Start the server with --engine kubernetes.")
        return await self.clouds(cloud)

    async def _put(self, pool: Pool) -> None:
        if self._pools.get(pool.name) != pool:
            await self._store.put(pool)
            self._pools[pool.name] = pool


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
