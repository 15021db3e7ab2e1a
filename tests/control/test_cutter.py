"""Cutting GPUs while sessions come and go: set aside first, never under anybody, finished or undone after a break, and for those who wait."""
import asyncio
from dataclasses import replace

import pytest
from cutter_scene import SMALL, UUID, FakeScissors, a_cut_node, a_cutter, a_sample, cut, events, profiles
from house_scene import a_house

from builders import a_gpu, a_node
from gpufairy.control.mig import TRY_AGAIN
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, EngineSilent, NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.mig import MigInstance
from gpufairy.devices.mig_journal import CutJournal
from gpufairy.devices.mig_order import CutOrder
from gpufairy.web.gpu_bars import hosts
from gpufairy.wire.config import Config
from gpufairy.wire.read import read


async def test_a_cut_is_taken_into_the_node_and_is_an_event_with_before_and_after(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        done = await cutter.apply(UUID, ["3g.20gb", "1g.5gb"], "ann")
        assert (done.changed, profiles(scene)) == (True, [("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 3), ("3g.20gb", 4)])
        assert await events(scene) == [("mig_cut", "7 x 1g.5gb → 3g.20gb + 4 x 1g.5gb", "ann")]
        session = await scene.submit(gpus="mig:3g.20gb")
        await scene.rest()
        assert (await scene.now(session)).seat.gpus[0].instance_uuid == "MIG-new-4"


async def test_the_page_draws_free_instances_by_their_names_beside_those_that_are_held(tmp_path):
    async with a_house(tmp_path, node=a_cut_node(cut(("3g.20gb", 4), ("1g.5gb", 0)))) as scene:
        await scene.submit(gpus="mig:3g.20gb")
        await scene.rest()
        cluster = scene.house.cluster()
        (bar,) = hosts(cluster, cluster.rooms(), {}, "ann")[0].bars
        assert [(piece.label, piece.left, piece.width) for piece in bar.pieces] == [("1g.5gb", 0.0, 12.5)]
        assert [(segment.left, segment.width) for segment in bar.segments] == [(50.0, 50.0)]
        assert "a 1g.5gb at slice 0 is free" in bar.said


async def test_the_same_twice_is_done_once(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors = FakeScissors()
        cutter = a_cutter(scene, tmp_path, scissors)
        await cutter.apply(UUID, ["3g.20gb"], "ann")
        assert not (await cutter.apply(UUID, ["3g.20gb"], "ann")).changed
        assert len(scissors.orders) == 1


async def test_what_somebody_holds_is_never_touched(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        for _ in range(7):
            await scene.submit(gpus="mig:1g.5gb")
        await scene.rest()
        scissors = FakeScissors()
        with pytest.raises(Conflict, match=r"7 x 1g.5gb in use cannot be touched"):
            await a_cutter(scene, tmp_path, scissors).apply(UUID, ["3g.20gb"], "ann")
        assert not scissors.orders


async def test_what_is_to_go_is_handed_to_nobody_while_it_is_cut(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors = FakeScissors()
        scissors.go.clear()
        cutter = a_cutter(scene, tmp_path, scissors)
        cutting = asyncio.create_task(cutter.apply(UUID, ["7g.40gb"], "ann"))
        await scissors.begun.wait()
        session = await scene.submit(gpus="mig:1g.5gb", name="late")
        await scene.rest()
        assert (await scene.now(session)).phase is Phase.QUEUED
        assert cutter.views()[0].cutting
        scissors.go.set()
        assert (await cutting).changed
        assert not cutter.views()[0].cutting


async def test_a_seat_that_was_being_written_counts_as_held(tmp_path):
    """The plan of a cut waits until the seats of a plan of sessions are written."""
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        async with scene.house.placing:
            cutting = asyncio.create_task(cutter.apply(UUID, ["7g.40gb"], "ann"))
            await asyncio.sleep(0)
            assert not cutting.done()
            assert len(profiles(scene)) == 7
        assert (await cutting).changed


async def test_one_who_came_to_hold_it_in_between_keeps_it(tmp_path):
    """As after a crash with a lost database: a session is adopted whose instance an old order would take away."""
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        session = await scene.submit(gpus="mig:1g.5gb")
        await scene.rest()
        held = (await scene.now(session)).seat.gpus[0]
        journal = CutJournal(tmp_path / "mig")
        journal.write(CutOrder(UUID, destroy=SMALL, create=(MigInstance("7g.40gb", 0, 8, ""),), before=tuple(one.profile for one in SMALL)))
        scissors = FakeScissors()
        cutter = a_cutter(scene, tmp_path, scissors)
        await cutter.move_in()
        await cutter.follow_queue()
        assert (await events(scene))[0][0] == "mig_undone"
        assert f"ann holds 1g.5gb at slice {held.start}" in (await events(scene))[0][1]
        assert (len(profiles(scene)), journal.orders()) == (7, [])


async def test_what_the_driver_refused_is_told_and_offered_as_it_is(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors = FakeScissors()
        scissors.fails = "Insufficient Resources"
        with pytest.raises(Conflict, match="Insufficient Resources"):
            await a_cutter(scene, tmp_path, scissors).apply(UUID, ["7g.40gb"], "ann")
        assert len(profiles(scene)) == 7
        assert CutJournal(tmp_path / "mig").orders() == []


async def test_an_order_left_in_the_middle_is_finished_by_the_next_server(tmp_path):
    scissors = FakeScissors()
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors.silent = True
        cutter = a_cutter(scene, tmp_path, scissors)
        with pytest.raises(EngineSilent):
            await cutter.apply(UUID, ["7g.40gb"], "ann")
        assert profiles(scene) == []  # nobody knows how far it came, so nothing of it is handed out
    scissors.silent = False
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, scissors)
        await cutter.move_in()
        assert profiles(scene) == []
        await cutter.follow_queue()
        assert profiles(scene) == [("7g.40gb", 0)]
        what = await events(scene)
        assert [one[0] for one in what] == ["mig_unfinished", "mig_cut"]
        assert what[1] == ("mig_cut", "7 x 1g.5gb → 7g.40gb; taken up again after a break", "ann")
        assert CutJournal(tmp_path / "mig").orders() == []


async def test_automatic_mode_lets_one_who_waits_start(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        await cutter.set_auto([UUID], True)
        small = await scene.submit(gpus="mig:1g.5gb")
        await scene.rest()
        big = await scene.submit(gpus="mig:3g.20gb")
        await scene.rest()
        assert (await scene.now(big)).phase is Phase.QUEUED
        await cutter.follow_queue()
        await scene.rest()
        assert [(await scene.now(one)).phase for one in (small, big)] == [Phase.RUNNING, Phase.RUNNING]
        assert (await events(scene))[0][1].endswith("; for 1 that waits in the queue")


async def test_without_automatic_mode_another_cut_never_comes(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors = FakeScissors()
        cutter = a_cutter(scene, tmp_path, scissors)
        await cutter.set_auto([UUID], True)
        big = await scene.submit(gpus="mig:3g.20gb")
        await cutter.set_auto([UUID], False)
        await scene.rest()
        await cutter.follow_queue()
        assert (await scene.now(big)).phase is Phase.QUEUED
        assert not scissors.orders


async def test_a_setting_makes_it_automatic_for_all_and_one_gpu_may_be_left_out(tmp_path):
    assert read(Config, {"gpus": {"mig": "auto"}}, "fairy.toml").mig_auto
    with pytest.raises(BadInput, match=r"gpus.mig: found 'sometimes'"):
        _ = read(Config, {"gpus": {"mig": "sometimes"}}, "fairy.toml").mig_auto
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scene.house.cuts.auto = True
        await scene.house.look_at_nodes()
        assert scene.house.nodes[0].gpus[0].mig_auto
        await a_cutter(scene, tmp_path, FakeScissors()).set_auto([UUID], False)
        assert not scene.house.nodes[0].gpus[0].mig_auto


async def test_automatic_mode_is_remembered(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        await a_cutter(scene, tmp_path, FakeScissors()).set_auto([UUID], True)
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        assert scene.house.nodes[0].gpus[0].mig_auto


async def test_a_cut_that_failed_is_not_tried_again_at_once(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        scissors = FakeScissors()
        scissors.fails = "In use by another client"
        cutter = a_cutter(scene, tmp_path, scissors)
        await cutter.set_auto([UUID], True)
        await scene.submit(gpus="mig:3g.20gb")
        await scene.rest()
        await cutter.follow_queue()
        await cutter.follow_queue()
        assert len(scissors.orders) == 1
        await scene.later(TRY_AGAIN)
        await cutter.follow_queue()
        assert len(scissors.orders) == 2


async def test_mig_mode_is_switched_off_only_where_nobody_is(tmp_path):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        session = await scene.submit(gpus="mig:1g.5gb")
        await scene.rest()
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        with pytest.raises(Conflict, match=r"1g.5gb in use"):
            await cutter.apply(UUID, ["whole"], "ann")
        await scene.stop(session)
        await scene.rest()
        await cutter.apply(UUID, ["whole"], "ann")
        assert scene.house.nodes[0].gpus[0].mig is None
        assert (await events(scene))[-1][1] == "7 x 1g.5gb → whole (MIG mode off)"


async def test_a_whole_gpu_that_is_held_is_not_switched_to_mig_mode(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await scene.submit(gpus="1")
        await scene.rest()
        with pytest.raises(Conflict, match="what ann holds cannot be touched"):
            await a_cutter(scene, tmp_path, FakeScissors(())).apply(UUID, ["3g.20gb"], "ann")


async def test_what_must_be_done_by_hand_is_told(tmp_path):
    async def by_hand() -> str:
        return "run nvidia-ctk"

    async with a_house(tmp_path, node=a_cut_node(simulated=False)) as scene:
        done = await a_cutter(scene, tmp_path, FakeScissors(), after_cut=by_hand).apply(UUID, ["7g.40gb"], "ann")
        assert (done.note, done.simulated) == ("run nvidia-ctk", False)


async def test_a_cut_that_somebody_made_past_the_server_is_followed_and_told(tmp_path):
    async with a_house(tmp_path, node=a_cut_node(simulated=False)) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        scene.house.watch.take(a_sample(*cut(("7g.40gb", 0))), own=True)
        await cutter.follow_queue()
        assert len(profiles(scene)) == 7  # seen once may be a moment in between
        await cutter.follow_queue()
        assert profiles(scene) == [("7g.40gb", 0)]
        assert await events(scene) == [("mig_changed", "7 x 1g.5gb → 7g.40gb; not by this server", "")]


async def test_readings_from_before_a_cut_do_not_undo_it(tmp_path):
    async with a_house(tmp_path, node=a_cut_node(simulated=False)) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        scene.house.watch.take(a_sample(*SMALL), own=True)
        await cutter.apply(UUID, ["7g.40gb"], "ann")
        for _ in range(3):
            await cutter.follow_queue()
        assert profiles(scene) == [("7g.40gb", 0)]


async def test_gpus_that_are_not_there_or_cannot_be_cut_are_refused_in_words(tmp_path):
    async with a_house(tmp_path, node=replace(a_node(gpus=0), gpus=(a_gpu(0, kind="RTX4090"),))) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        assert cutter.views() == []
        with pytest.raises(NoSuchThing, match="no GPU 'GPU-nowhere'"):
            await cutter.plan("GPU-nowhere", ["1g.5gb"])
        with pytest.raises(EngineRefused, match="cannot be cut by MIG"):
            await cutter.plan(UUID, ["1g.5gb"])
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        with pytest.raises(BadInput, match=r"no MIG profile '3g.71gb'"):
            await a_cutter(scene, tmp_path, FakeScissors()).apply(UUID, ["3g.71gb"], "ann")
