"""Pools as the server keeps them: written first, done second, taken up again after a kill; and sessions that wake a node and move to it."""
import asyncio
from datetime import timedelta

import pytest
from house_scene import a_house
from pool_cloud import FakeCloud, GrowingEngine

from builders import NOW
from gpufairy.control.node_news import look_for_nodes
from gpufairy.control.pool_deeds import add_pool, remove_pool
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, EngineSilent, NeverFits, NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.pool import PoolState
from gpufairy.wire.pools import PoolBody

ASKED = {"name": "train-gpu", "cloud": "karpenter", "instance": "g5.xlarge", "min": 0, "max": 2}


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
async def scene(tmp_path, cloud):
    async with a_house(tmp_path, gpus=0) as found:
        await prepare(found, cloud)
        yield found


async def prepare(scene, cloud: FakeCloud) -> None:
    house = scene.house
    house.pools.clouds = cloud.opened
    house.engine = scene.engine = GrowingEngine(house.engine, house.pools.by_name)
    await house.look_at_nodes()


async def add(scene, **fields):
    return await add_pool(scene.house, "admin", PoolBody.model_validate({**ASKED, **fields}))


async def look(scene, time: timedelta = timedelta(minutes=1)) -> None:
    scene.clock.go_on(time)
    await scene.house.pools.look()


async def test_a_dry_run_tells_the_steps_and_the_price_and_writes_nothing(scene, cloud):
    plan = await add(scene, dry_run=True)
    assert ([step.there for step in plan.steps], plan.pool.machine.price_micros) == ([False], 1_006_000)
    assert (scene.house.pools.all(), cloud.calls) == ([], [])
    assert await scene.house.store.pools.all() == []


async def test_what_takes_long_is_gone_on_with_until_it_is_there(scene, cloud):
    cloud.waits = ["its node group is being made", "its tags are not there"]
    await add(scene)
    pool = scene.house.pools.named("train-gpu")
    assert (pool.state, pool.trouble) == (PoolState.MAKING, "its node group is being made")
    await look(scene)
    await look(scene)
    pool = scene.house.pools.named("train-gpu")
    assert (pool.state, pool.trouble, "train-gpu" in cloud.made) == (PoolState.READY, "", True)


@pytest.mark.parametrize("error", [EngineRefused("AWS said no", "Ask for rights."), EngineSilent("AWS was not reached", "Look.")])
async def test_a_no_or_no_answer_is_told_and_tried_again_more_and_more_slowly(scene, cloud, error):
    cloud.errors = [error] * 3
    await add(scene)
    assert scene.house.pools.named("train-gpu").trouble == f"{error} {error.next_step}"
    await look(scene, timedelta(seconds=5))
    assert cloud.calls == ["make"]  # not yet
    for _ in range(3):
        await look(scene, timedelta(minutes=5))
    assert scene.house.pools.named("train-gpu").state is PoolState.READY


async def test_a_server_that_was_killed_goes_on_where_it_was(tmp_path, cloud):
    cloud.waits = ["its node group is being made"]
    async with a_house(tmp_path, gpus=0) as first:
        await prepare(first, cloud)
        await add(first)
    async with a_house(tmp_path, gpus=0) as second:
        await prepare(second, cloud)
        assert second.house.pools.named("train-gpu").state is PoolState.MAKING
        await look(second)
        assert second.house.pools.named("train-gpu").state is PoolState.READY
        cloud.waits = ["its nodes have to go first"]
        assert (await remove_pool(second.house, "admin", "train-gpu")).state is PoolState.REMOVING
    async with a_house(tmp_path, gpus=0) as third:
        await prepare(third, cloud)
        await look(third)
        assert (third.house.pools.all(), cloud.made) == ([], {})


async def test_a_server_that_dies_while_the_cloud_takes_its_time_has_written_down_who_asked(tmp_path, cloud):
    cloud.holds = {"make": asyncio.Event(), "remove": asyncio.Event()}
    async with a_house(tmp_path, gpus=0) as first:
        await prepare(first, cloud)
        await cut_short(add(first), lambda: cloud.calls == ["make"])
    cloud.holds["make"].set()
    async with a_house(tmp_path, gpus=0) as second:
        await prepare(second, cloud)
        assert await deeds(second) == ["pool_added"]
        await look(second)
        await add(second)
        await cut_short(remove_pool(second.house, "admin", "train-gpu"), lambda: cloud.calls[-1] == "remove")
    cloud.holds["remove"].set()
    async with a_house(tmp_path, gpus=0) as third:
        await prepare(third, cloud)
        await look(third)
        assert (third.house.pools.all(), cloud.made, await deeds(third)) == ([], {}, ["pool_added", "pool_removed"])


async def cut_short(deed, is_far_enough) -> None:
    task = asyncio.create_task(deed)
    await until(is_far_enough)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(look) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - a cloud rings no bell
            await asyncio.sleep(0)


async def deeds(scene) -> list[str]:
    return [event.what for event in await scene.house.store.events.page(limit=100) if event.session_id == "pool:train-gpu"]


async def test_a_pool_removed_while_it_is_looked_after_is_gone_and_not_made_again(scene, cloud):
    await add(scene)
    cloud.holds["make"] = asyncio.Event()
    mending = asyncio.create_task(look(scene, timedelta(hours=1)))
    await until(lambda: cloud.calls.count("make") == 2)
    removing = asyncio.create_task(remove_pool(scene.house, "admin", "train-gpu"))
    await until(lambda: scene.house.pools.named("train-gpu").state is PoolState.REMOVING)
    cloud.holds["make"].set()
    await asyncio.gather(mending, removing)
    assert (scene.house.pools.all(), cloud.made, cloud.calls[-1]) == ([], {}, "remove")
    assert await scene.house.store.pools.all() == []


async def test_the_same_again_changes_nothing_and_other_bounds_are_changed(scene, cloud):
    first = (await add(scene)).pool
    assert (await add(scene)).pool == first
    assert (await add(scene, max=8)).pool.most == 8
    with pytest.raises(Conflict, match=r"a pool train-gpu with instance g5\.xlarge, not g5\.2xlarge"):
        await add(scene, instance="g5.2xlarge")
    with pytest.raises(Conflict, match="with cloud karpenter, not eks"):
        await add(scene, cloud="eks")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"name": "Train GPU"}, "no name of a pool"), ({"cloud": "moon"}, "cloud: found 'moon'"), ({"min": 3, "max": 2}, "min and max: found 3 and 2"), ({"max": 0}, "found 0 and 0"), ({"price": float("nan")}, "price: found nan"), ({"instance": "g5;rm"}, "instance"), ({"memory": "much"}, "no size")],
)  # fmt: skip
async def test_what_cannot_be_is_refused_in_words(scene, wrong, said):
    with pytest.raises(BadInput, match=said):
        await add(scene, **wrong)
    assert scene.house.pools.all() == []


async def test_without_a_cluster_there_are_no_pools(tmp_path):
    async with a_house(tmp_path) as scene:
        with pytest.raises(Conflict, match="do not run in a cluster"):
            await add(scene)
        with pytest.raises(NoSuchThing, match="no pool 'x'"):
            scene.house.pools.named("x")


async def test_a_session_wakes_a_node_waits_for_it_and_moves_there(scene):
    with pytest.raises(NeverFits):
        await scene.submit()
    await add(scene)
    session = await scene.submit()
    await scene.rest()
    waits = await scene.now(session)
    assert (waits.phase, waits.seat.node, waits.why) == (Phase.STARTING, "train-gpu+1", "node is coming, about 3 min")
    assert [node.name for node in scene.house.nodes] == ["here"]  # one that is only coming is shown to nobody as a host
    scene.clock.go_on(timedelta(seconds=95))
    scene.engine.node_comes("ip-1", "train-gpu", session.id)
    await scene.rest()
    runs = await scene.now(session)
    assert (runs.phase, runs.seat.node, runs.seat.gpus[0].uuid) == (Phase.RUNNING, "ip-1", "kube:ip-1/gpu/0")
    assert scene.house.pools.named("train-gpu").boots_s == (95,)
    scene.clock.go_on(timedelta(seconds=30))
    await scene.stop(session)
    await scene.rest()
    rows = await scene.house.store.history.held(NOW - timedelta(days=1), NOW + timedelta(days=1))
    assert [(row.seat.node, (row.until - row.since).total_seconds()) for row in rows] == [("train-gpu+1", 95.0), ("ip-1", 30.0)]


async def test_a_full_pool_takes_no_more_and_its_removal_is_refused_while_it_is_used(scene):
    await add(scene, max=1)
    first, second = await scene.submit(), await scene.submit()
    await scene.rest()
    assert [(await scene.now(one)).phase for one in (first, second)] == [Phase.STARTING, Phase.QUEUED]
    with pytest.raises(Conflict, match="sessions of ann are on nodes of pool train-gpu, or wait for one"):
        await remove_pool(scene.house, "admin", "train-gpu")
    scene.engine.node_comes("ip-1", "train-gpu", first.id)
    await scene.rest()
    await look_for_nodes(scene.house)
    await scene.rest()
    assert (await scene.now(second)).phase is Phase.QUEUED
    await scene.stop(first)
    await scene.rest()
    runs = await scene.now(second)
    assert (runs.phase, runs.seat.node) == (Phase.RUNNING, "ip-1")


async def test_one_that_is_stopped_while_it_waits_frees_what_was_kept_for_it(scene):
    await add(scene, max=1)
    first, second = await scene.submit(), await scene.submit()
    await scene.rest()
    await scene.stop(first)
    await scene.rest()
    await look_for_nodes(scene.house)
    await scene.rest()
    assert [(await scene.now(one)).phase for one in (first, second)] == [Phase.ENDED, Phase.STARTING]
