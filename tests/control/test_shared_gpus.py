"""GPUs that are shared in fractions, over a whole house: MPS is left to those who hold a share, and to nobody else."""
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from house_scene import a_house

from adapters.mps_scene import GPU, mps_scene
from builders import GIB, NOW, a_gpu, a_node
from fake_mps.scene import alive
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, GpuReading
from gpufairy.main.shared_gpus import SharedGpus, processes_seen

pytestmark = pytest.mark.slow


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


async def test_who_waits_for_a_part_of_a_gpu_whose_mps_is_at_fault_waits_in_words_and_starts_when_it_is_sound(tmp_path):
    async with sharing(tmp_path) as (scene, shared, mps):
        _, door = await half(scene, shared)
        program = mps.fake.use(door)
        await shared.look(scene.house)
        mps.fake.crash(door)
        scene.house.bells.place.clear()
        await shared.look(scene.house)
        assert scene.house.bells.place.is_set()
        other = await scene.submit(gpus="0.5")
        await scene.rest()
        assert (await scene.now(other)).phase is Phase.QUEUED
        [refusal] = scene.house.plan.refusals_of(other)
        assert refusal.why.startswith("here GPU 0: its MPS server is in fault")
        program.end()
        scene.house.bells.place.clear()
        await shared.look(scene.house)
        assert scene.house.bells.place.is_set()
        await scene.rest()
        assert (await scene.now(other)).phase is Phase.RUNNING


async def test_a_look_that_finds_nothing_new_wakes_nobody(tmp_path):
    async with sharing(tmp_path) as (scene, shared, mps):
        _, door = await half(scene, shared)
        mps.fake.use(door)
        await shared.look(scene.house)
        mps.fake.crash(door)
        await shared.look(scene.house)
        scene.house.bells.place.clear()
        await shared.look(scene.house)
        assert not scene.house.bells.place.is_set()


def on_gpu(pid, known_by, uuid=GPU):
    return ProcessReading(GpuProcess(pid, uuid, GIB), RunningProcess(pid, 1, 0, "program"), Owner(known_by=known_by))


async def test_what_is_on_a_gpu_is_known_without_its_mps_server_and_only_where_the_driver_told_it(tmp_path):
    node = replace(a_node(), gpus=tuple(a_gpu(index, uuid=f"GPU-{index}", simulated=False) for index in range(3)))
    async with a_house(tmp_path, node=node) as scene:
        readings = (GpuReading("GPU-0", NOW), GpuReading("GPU-1", NOW), GpuReading("GPU-2", NOW, processes_known=False))
        processes = (on_gpu(1, KnownBy.MPS, "GPU-0"), on_gpu(2, KnownBy.MPS, "GPU-1"), on_gpu(3, KnownBy.ACCOUNT, "GPU-1"))
        sample = NodeSample("here", NOW, 1.0, readings=readings, processes=processes)
        scene.house.watch.take(sample, own=True)
        assert processes_seen(scene.house) == {"GPU-0": set(), "GPU-1": {3}}
        scene.house.watch.take(replace(sample, gpus_known=False), own=True)
        assert processes_seen(scene.house) == {}


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
