"""On a node whose device plugin chooses the cards, a session's GPU shows what its card does."""
from dataclasses import replace
from pathlib import Path

from house_scene import a_house

from builders import NOW, a_gpu, a_node
from gpufairy.api.cluster import our_nodes
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, LostGpu

CARDS = ("GPU-a", "GPU-b")


def a_counted_node():
    gpus = tuple(replace(a_gpu(index), uuid=f"kube:here/gpu/{index}", simulated=False) for index in range(2))
    return replace(a_node(gpus=0), gpus=gpus)


def a_sample(session_id: str) -> NodeSample:
    devices = tuple(GpuDevice(card, str(index), index, "A100-40GB", None) for index, card in enumerate(CARDS))
    readings = tuple(GpuReading(card, NOW, utilisation=busy) for card, busy in zip(CARDS, (0.0, 0.93), strict=True))
    owner = Owner("ann", KnownBy.SESSION, session_id=session_id, session="one")
    on = ProcessReading(GpuProcess(7, "GPU-b"), RunningProcess(7, 1, "python", 1000), owner)
    return NodeSample("here", NOW, 1.0, devices=devices, readings=readings, processes=(on,))


async def test_the_card_that_a_session_works_on_is_shown_at_its_place(tmp_path: Path):
    async with a_house(tmp_path, node=a_counted_node()) as scene:
        house = scene.house
        session = await scene.now(await scene.submit())
        await scene.rest()
        place = (await scene.now(session)).seat.gpus[0].uuid
        house.watch.take(house.counted.told(a_sample(session.id)), own=True)
        [node] = our_nodes(house, lambda _: True)
        [mine] = [gpu for gpu in node["gpus"] if gpu["uuid"] == place]
        assert (mine["utilisation"], mine["label"], [one["session"] for one in mine["processes"]]) == (0.93, "1", ["one"])
        assert [gpu["utilisation"] for gpu in node["gpus"] if gpu["uuid"] != place] == [0.0]


async def test_a_lost_card_takes_its_place_out_of_use(tmp_path: Path):
    async with a_house(tmp_path, node=a_counted_node()) as scene:
        house = scene.house
        session = await scene.submit()
        await scene.rest()
        whole = a_sample(session.id)
        house.counted.told(whole)
        lost = replace(whole, devices=whole.devices[1:], readings=whole.readings[1:], lost=(LostGpu(0, "GPU-a", "fell off the bus"),))
        house.watch.take(house.counted.told(lost), own=True)
        await house.look_at_nodes()
        assert [gpu.uuid for gpu in house.nodes[0].gpus] == [gpu.uuid for gpu in (await scene.now(session)).seat.gpus]
