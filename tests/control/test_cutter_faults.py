"""Cuts that meet a lost GPU, an order that cannot be read, or MPS still on the GPU: told in words, and nobody else is held up."""
from dataclasses import replace

import pytest
from cutter_scene import SMALL, UUID, FakeScissors, a_cut_node, a_cutter, a_sample, profiles
from house_scene import a_house

from builders import NOW, a_gpu, a_node
from gpufairy.control.mig import TRY_AGAIN
from gpufairy.core.errors import Conflict, EngineRefused, NoSuchThing
from gpufairy.core.mig import MigInstance
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess, LostGpu
from gpufairy.devices.mig_journal import CutJournal
from gpufairy.devices.mig_order import CutOrder


async def test_an_order_for_a_gpu_that_is_lost_waits_until_it_is_back(tmp_path, caplog):
    lost = NodeSample("here", NOW, 1.0, lost=(LostGpu(0, UUID, "GPU is lost"),))
    CutJournal(tmp_path / "mig").write(CutOrder(UUID, SMALL, (MigInstance("7g.40gb", 0, 8, ""),), before=tuple(one.profile for one in SMALL)))
    async with a_house(tmp_path, node=a_cut_node(simulated=False)) as scene:
        scene.house.watch.take(lost, own=True)
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        await cutter.move_in()
        await cutter.follow_queue()
        assert f"GPU 0 ({UUID}) does not answer" in caplog.text
        with pytest.raises(EngineRefused, match="does not answer"):
            await cutter.plan(UUID, ["7g.40gb"])
        scene.house.watch.take(a_sample(*SMALL), own=True)
        await scene.house.look_at_nodes()
        await scene.later(TRY_AGAIN)
        await cutter.follow_queue()
        assert profiles(scene) == [("7g.40gb", 0)]


async def test_a_gpu_that_is_pulled_while_its_order_waits_stops_no_other(tmp_path, caplog):
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())

        async def gone() -> None:
            raise NoSuchThing("no GPU 'GPU-pulled' on this server")

        await cutter._tried_once("GPU-pulled", gone())
        assert "no GPU 'GPU-pulled'" in caplog.text


@pytest.mark.parametrize("written", ["", "{", "[]", '{"gpu": 1}', "\udcff"])
async def test_an_order_that_cannot_be_read_is_set_aside_and_keeps_nobody_from_starting(tmp_path, caplog, written):
    folder = tmp_path / "mig"
    folder.mkdir()
    (folder / f"{UUID}.order.json").write_text(written, errors="surrogateescape")
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        await cutter.move_in()
        await cutter.follow_queue()
        assert [path.name for path in folder.iterdir()] == [f"{UUID}.order.json.unreadable"]
        assert caplog.text.count("cannot be read") == 1
        assert "`fairy mig show`" in caplog.text
        assert (await cutter.apply(UUID, ["7g.40gb"], "ann")).changed


async def test_an_order_that_the_disk_does_not_give_is_left_where_it_is_and_told_once(tmp_path, caplog):
    order = tmp_path / "mig" / f"{UUID}.order.json"
    order.mkdir(parents=True)
    journal = CutJournal(order.parent)
    assert (journal.orders(), journal.orders(), journal.order(UUID)) == ([], [], None)
    assert order.exists()
    assert caplog.text.count("cannot be read") == 1


def server_of_mps(uuid: str = UUID) -> ProcessReading:
    return ProcessReading(GpuProcess(7, uuid, 66 * 2**20), RunningProcess(7, 1, 0, "nvidia-cuda-mps-server"), Owner(known_by=KnownBy.MPS))


async def test_mps_is_given_up_before_a_gpu_goes_into_mig_mode_and_its_server_is_nobody(tmp_path):
    released = []

    async def release(gpu: str) -> None:
        assert not scissors.orders
        released.append(gpu)

    node = replace(a_node(gpus=1), gpus=(a_gpu(0, simulated=False),))
    async with a_house(tmp_path, node=node) as scene:
        scene.house.watch.take(NodeSample("here", NOW, 1.0, processes=(server_of_mps(),)), own=True)
        scissors = FakeScissors(())
        scissors.seen = replace(scissors.seen, mode=False)
        cutter = a_cutter(scene, tmp_path, scissors, release=release)
        assert (await cutter.apply(UUID, ["3g.20gb"], "ann")).changed
        assert released == [UUID]
        await cutter.apply(UUID, ["3g.20gb", "2g.10gb"], "ann")  # it is in MIG mode: there is no MPS on it
        assert released == [UUID]


async def test_a_gpu_whose_mps_cannot_be_given_up_is_not_cut_and_says_why(tmp_path):
    async def release(gpu: str) -> None:
        raise EngineRefused(f"GPU {gpu} is in use by program 7")

    node = replace(a_node(gpus=1), gpus=(a_gpu(0, simulated=False),))
    async with a_house(tmp_path, node=node) as scene:
        scissors = FakeScissors(())
        scissors.seen = replace(scissors.seen, mode=False)
        with pytest.raises(Conflict, match="was not cut: GPU GPU-simulated-0 is in use by program 7"):
            await a_cutter(scene, tmp_path, scissors, release=release).apply(UUID, ["3g.20gb"], "ann")
        assert not scissors.orders
        assert scene.house.nodes[0].gpus[0].mig is None
        assert CutJournal(tmp_path / "mig").orders() == []


async def test_a_name_that_is_no_gpus_is_never_the_name_of_a_file(tmp_path):
    """An order that nobody can read is set aside: one outside the journal must not be looked for at all."""
    outside = tmp_path / "outside.order.json"
    outside.write_text("not ours")
    async with a_house(tmp_path, node=a_cut_node()) as scene:
        cutter = a_cutter(scene, tmp_path, FakeScissors())
        for name in ("../outside", str(outside).removesuffix(".order.json"), "0" * 4096, "\0", ""):
            with pytest.raises(NoSuchThing, match="no GPU"):
                await cutter.apply(name, ["1g.5gb"], "ann")
    assert outside.read_text() == "not ours"
