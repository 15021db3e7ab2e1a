"""GPUs that are shared in fractions, over a whole house: MPS is left to those who hold a share, and to nobody else."""
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from house_scene import a_house

from adapters.mps_scene import GPU, mps_scene
from builders import GIB, a_gpu, a_node
from fake_mps.scene import alive
from gpufairy.core.node import Sharing
from gpufairy.main.shared_gpus import SharedGpus


@asynccontextmanager
async def sharing(folder):
    """A house with one real GPU, and what shares it on the fake of MPS."""
    gpu = a_gpu(0, uuid=GPU, simulated=False, sharing=Sharing.MPS)
    node = replace(a_node(cpus_milli=16_000, memory_bytes=64 * GIB), gpus=(gpu,))
    with mps_scene(folder) as mps:
        async with a_house(folder, node=node) as scene:
            shared = SharedGpus(folder / "unused", exclusive=False)
            shared.daemons = mps.mps
            yield scene, shared, mps


async def half(scene, shared):
    session = await scene.submit(gpus="0.5")
    await scene.rest()
    return session, await shared.ready(await scene.now(session))


async def test_a_server_that_leaves_gives_gpus_back_that_nobody_holds_a_share_of(tmp_path):
    async with sharing(tmp_path) as (scene, shared, mps):
        session, door = await half(scene, shared)
        pid = mps.fake.daemon_pid(door)
        await scene.stop(session)
        await scene.rest()
        await shared.leave(scene.house)
        assert not alive(pid)
        assert mps.mode.orders[-1] == (GPU, False)


async def test_a_server_that_leaves_leaves_mps_to_sessions_that_run(tmp_path):
    async with sharing(tmp_path) as (scene, shared, mps):
        _, door = await half(scene, shared)
        await shared.leave(scene.house)
        assert alive(mps.fake.daemon_pid(door))


async def test_a_server_that_leaves_leaves_mps_to_programs_that_run(tmp_path):
    async with sharing(tmp_path) as (scene, shared, mps):
        session, door = await half(scene, shared)
        mps.fake.use(door)
        await scene.stop(session)
        await scene.rest()
        await shared.leave(scene.house)
        assert alive(mps.fake.daemon_pid(door))


@pytest.mark.parametrize("why", ["another leads", "the engine is silent"])
async def test_a_server_that_does_not_know_who_holds_what_touches_nothing(tmp_path, why):
    async with sharing(tmp_path) as (scene, shared, mps):
        session, door = await half(scene, shared)
        await scene.stop(session)
        await scene.rest()
        if why == "another leads":
            scene.house.store.lease_lost.set()
        else:
            scene.house.silent_since = scene.clock()
        await shared.leave(scene.house)
        assert alive(mps.fake.daemon_pid(door))
