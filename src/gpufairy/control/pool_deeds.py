"""What admins do about pools: written down with who did it, done, and counted on at once."""
from gpufairy.control.house import House
from gpufairy.control.pools import PoolPlan
from gpufairy.core.pool import Pool, price_words
from gpufairy.core.steps import Event, deed_event
from gpufairy.wire.pools import PoolBody


async def add_pool(house: House, actor: str, body: PoolBody) -> PoolPlan:
    """With `dry_run` nothing is made, and nothing written down."""
    plan = await house.pools.planned(body.to_pool(actor, house.clock()))
    if body.dry_run:
        return plan
    before = house.pools.by_name().get(plan.pool.name)
    is_news = before is None or (before.least, before.most) != (plan.pool.least, plan.pool.most)
    told = deed(house, actor, "pool_added" if before is None else "pool_changed", plan.pool) if is_news else None
    done = await house.pools.add(plan, told)
    await look_again(house)
    return done


async def remove_pool(house: House, actor: str, name: str) -> Pool:
    async with house.placing:
        told = deed(house, actor, "pool_removed", house.pools.named(name))
        wanted = await house.pools.want_removed(name, told, house.book.holding(), house.nodes)
        await house.look_at_nodes()  # nobody is given a node that will not come, while the cloud takes its time
    pool = await house.pools.remove(wanted)
    await look_again(house)
    return pool


def deed(house: House, actor: str, what: str, pool: Pool) -> Event:
    """Written with the wish: a server that dies while a cloud takes its minutes must not forget who asked."""
    return deed_event(f"pool:{pool.name}", what, house.clock(), pool_words(pool), actor=actor)


async def look_again(house: House) -> None:
    await house.look_at_nodes()
    house.bells.place.set()
    house.bells.sessions_changed([])  # whoever looks at a page is told that there is something new


def pool_words(pool: Pool) -> str:
    machine, cost = pool.machine, price_words(pool.machine, pool.most)
    return f"{pool.least} to {pool.most} nodes {machine.instance} ({machine.gpus} x {machine.gpu_kind}), {pool.cloud}, at most {cost}"
