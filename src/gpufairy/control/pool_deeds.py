"""What admins do about pools: done, counted on at once, and written down with who did it."""
from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.control.pools import PoolPlan
from gpufairy.core.pool import Pool, price_words
from gpufairy.wire.pools import PoolBody


async def add_pool(house: House, actor: str, body: PoolBody) -> PoolPlan:
    """With `dry_run` nothing is made, and nothing written down."""
    wanted = body.to_pool(actor, house.clock())
    if body.dry_run:
        return await house.pools.planned(wanted)
    before = house.pools.by_name().get(wanted.name)
    plan = await house.pools.add(wanted)
    await look_again(house)
    if before is None or (before.least, before.most) != (plan.pool.least, plan.pool.most):
        await note(house, actor, f"pool:{wanted.name}", "pool_added" if before is None else "pool_changed", pool_words(plan.pool))
    return plan


async def remove_pool(house: House, actor: str, name: str) -> Pool:
    async with house.placing:
        pool = await house.pools.remove(name, house.book.holding(), house.nodes)
    await look_again(house)
    await note(house, actor, f"pool:{name}", "pool_removed", pool_words(pool))
    return pool


async def look_again(house: House) -> None:
    await house.look_at_nodes()
    house.bells.place.set()


def pool_words(pool: Pool) -> str:
    machine, cost = pool.machine, price_words(pool.machine, pool.most)
    return f"{pool.least} to {pool.most} nodes {machine.instance} ({machine.gpus} x {machine.gpu_kind}), {pool.cloud}, at most {cost}"
