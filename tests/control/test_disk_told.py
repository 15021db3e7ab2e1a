"""What agents tell of their hosts' disks, in a whole house: kept, shown, forgotten; and who is told of a disk limit."""
from datetime import timedelta

import pytest
from house_scene import a_house
from test_alerts_loop import a_lab

from builders import NOW
from gpufairy.control import govern
from gpufairy.control.disk import ASKED_FOR
from gpufairy.control.disk_deeds import places_on
from gpufairy.control.disk_messages import DiskMessages
from gpufairy.core.agent import Agent
from gpufairy.core.disk import DiskLook, Owned, Thing, Unmeasured
from gpufairy.core.disk_due import OLD_LOOK
from gpufairy.core.disk_growth import Growth
from gpufairy.core.disk_report import DiskTold, place_on
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.people import Role
from gpufairy.wire.alerts import UserChannelBody
from gpufairy.wire.teams import QuotaBody

GIB = 2**30
DAY = timedelta(days=1)


def look_of(node, at, full=True, path="/home", **sizes):
    owners = tuple(Owned(name, 0, size, 1, 0, largest=(Thing(f"{name}/x", size, 0, 1),)) for name, size in sizes.items())
    return DiskLook(place_on(node, path), at, 0.1, full, sum(sizes.values()), len(owners), 1, 0, 0, owners=owners)


async def tell(house, look, *more):
    await house.disk.take(DiskTold(look.place.node, (look.place, *more), look))


async def watch(house, *names):
    for name in names:
        agent = Agent(name, b"k", NOW, "admin")
        await house.store.agents.put(agent)
        house.agents._agents[name] = agent


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.add_user("ann", Role.USER, None)
        await watch(found.house, "gpu07", "gpu08")
        yield found


async def test_what_several_hosts_tell_is_added_up_and_told_by_host(scene):
    disk, now = scene.house.disk, scene.clock()
    await tell(scene.house, look_of("gpu07", now, ann=100, bob=7))
    await tell(scene.house, look_of("gpu08", now, ann=20))
    assert disk.users()["ann"].places == (("gpu07:/home", 100), ("gpu08:/home", 20))
    assert "bob" not in disk.users()
    assert disk.users_on(places_on(scene.house, "gpu08"))["ann"].bytes == 20
    assert [one.path for one in disk.user("ann").largest] == ["gpu07:~/x", "gpu08:~/x"]
    assert disk.user("ann", by_admin=True).largest[0].path == "gpu07:/home/ann/x"
    assert disk.user("nobody") is None
    with pytest.raises(NoSuchThing, match="gpu09"):
        places_on(scene.house, "gpu09")


async def test_growth_is_told_of_hosts_too(scene):
    for day in range(8):
        await tell(scene.house, look_of("gpu07", scene.clock(), ann=100 + 10 * day))
        if day < 7:
            scene.clock.go_on(DAY)
    assert scene.house.disk.growth_of(scene.house.disk.users()["ann"]) == Growth(10, 70)


async def test_a_restart_forgets_nothing_and_a_look_of_before_replaces_none(tmp_path):
    async with a_house(tmp_path) as scene:
        await scene.house.registry.add_user("ann", Role.USER, None)
        await watch(scene.house, "gpu07")
        await tell(scene.house, look_of("gpu07", scene.clock(), ann=100))
        clock = scene.clock
    async with a_house(tmp_path, clock=clock) as scene:
        assert scene.house.disk.users()["ann"].bytes == 100
        await tell(scene.house, look_of("gpu07", clock() - timedelta(hours=1), ann=1))
        assert scene.house.disk.users()["ann"].bytes == 100


async def test_a_host_that_is_removed_takes_what_it_told_along(scene):
    await tell(scene.house, look_of("gpu07", scene.clock(), ann=100))
    await tell(scene.house, look_of("gpu08", scene.clock(), ann=20))
    await govern.forget_agent(scene.house, "root", "gpu07")
    assert scene.house.disk.users()["ann"].bytes == 20
    del scene.house.agents._agents["gpu08"]  # without a word to disk use
    assert scene.house.disk.users() == {}
    await scene.house.disk.look()
    assert await scene.house.store.disk.looks() == []


async def test_a_place_that_an_agent_walks_through_no_more_is_forgotten(scene):
    home, data = look_of("gpu07", scene.clock(), ann=100), look_of("gpu07", scene.clock(), path="/data", ann=5)
    await tell(scene.house, home, data.place)
    await tell(scene.house, data, home.place)
    await tell(scene.house, look_of("gpu08", scene.clock(), ann=20))
    assert scene.house.disk.users()["ann"].bytes == 125
    await scene.house.disk.take(DiskTold("gpu07", (data.place,)))
    assert scene.house.disk.users()["ann"].bytes == 25
    assert [look.place.name for look, _ in await scene.house.store.disk.looks()] == ["gpu07:/data", "gpu08:/home"]


async def test_a_walk_that_failed_there_is_told_beside_what_was_known(scene):
    look, disk = look_of("gpu07", scene.clock(), ann=100), scene.house.disk
    await tell(scene.house, look)
    await disk.take(DiskTold("gpu07", (look.place,), failed=Unmeasured(look.place, scene.clock(), "/home: input/output error", "Look at it.")))
    assert [one.why for one in disk.unmeasured()] == ["/home: input/output error"]
    assert disk.users()["ann"].bytes == 100
    scene.clock.go_on(timedelta(hours=1))
    await tell(scene.house, look_of("gpu07", scene.clock(), ann=101))
    assert disk.unmeasured() == []


async def test_a_look_of_more_than_two_days_is_old_and_does_not_speak_for_the_rest(scene):
    disk = scene.house.disk
    await tell(scene.house, look_of("gpu07", scene.clock(), ann=100))
    scene.clock.go_on(OLD_LOOK + timedelta(seconds=1))
    assert disk.as_of() == scene.clock() - OLD_LOOK - timedelta(seconds=1)
    await tell(scene.house, look_of("gpu08", scene.clock(), ann=20))
    assert disk.as_of() == scene.clock()
    assert [disk.is_old(look) for look in disk.looks()] == [True, False]


async def test_a_wish_for_a_walk_reaches_agents_for_a_while(scene):
    disk = scene.house.disk
    assert disk.asked_of_agents() is None
    disk.ask()
    asked = disk.asked_of_agents()
    assert asked == scene.clock()
    scene.clock.go_on(ASKED_FOR - timedelta(seconds=1))
    assert disk.asked_of_agents() == asked
    scene.clock.go_on(timedelta(seconds=1))
    assert disk.asked_of_agents() is None


async def test_without_folders_and_hosts_there_is_nothing_to_ask(tmp_path):
    async with a_house(tmp_path) as scene:
        with pytest.raises(Conflict):
            scene.house.disk.ask()


class DiskLab:
    """A lab in which ann wants to be told."""

    def __init__(self, lab):
        self.lab, self.house, self.clock = lab, lab.house, lab.clock
        self.messages = DiskMessages(lab.house, lab.desk.messages)

    @property
    def heard(self):
        return self.lab.ears["ntfy:anns-secret"].heard

    async def look(self, after=timedelta(), **sizes):
        self.clock.go_on(after)
        if sizes:
            await tell(self.house, look_of("gpu07", self.clock(), **{name: size * GIB for name, size in sizes.items()}))
        await self.messages.look()
        await self.lab.later(2)


async def furnish(lab):
    house = lab.house
    await house.registry.add_user("ann", Role.USER, None)
    await watch(house, "gpu07")
    await lab.desk.put_channel("ann", UserChannelBody(kind="ntfy", address="anns-secret"))
    await govern.set_quota(house, "root", QuotaBody(of="user:ann", disk="100GiB"))
    return DiskLab(lab)


NEAR = "91 GiB of 100 GiB on disk on gpu07 are used"
OVER = "101 GiB of 100 GiB on disk on gpu07: nothing stops you there, but others need room too"


@pytest.mark.slow
async def test_a_user_is_told_when_they_near_their_limit_and_once_a_day_while_they_are_over_it(tmp_path):
    async with a_lab(tmp_path) as lab:
        disk = await furnish(lab)
        await disk.look(ann=80)
        await disk.look(ann=91)
        await disk.look(DAY, ann=91)
        assert disk.heard == [NEAR]
        await disk.look(ann=101)
        await disk.look(timedelta(hours=20), ann=99)
        await disk.look(timedelta(hours=1), ann=101)
        assert disk.heard == [NEAR, OVER]
        await disk.look(timedelta(hours=4))
        assert disk.heard == [NEAR, OVER, OVER]
        await disk.look(ann=80)
        await disk.look(ann=91)
        assert disk.heard == [NEAR, OVER, OVER, NEAR]
        ears, clock = lab.ears, lab.clock
    async with a_lab(tmp_path, ears, clock) as lab:  # a restart tells nothing again
        disk = DiskLab(lab)
        await disk.look()
        assert len(disk.heard) == 4


@pytest.mark.slow
async def test_admins_are_told_of_who_is_over_a_limit_that_nothing_holds_until_it_is_over(tmp_path):
    async with a_lab(tmp_path) as lab:
        disk = await furnish(lab)
        await disk.look(ann=101)
        await lab.later(10)
        assert lab.firing() == ["ann on gpu07"]
        assert lab.ears["ops"].heard == ["ann has 101 GiB on disk on gpu07, and may have 100 GiB"]
        await disk.look(ann=99)
        await lab.later(70)
        assert "ann on gpu07" not in lab.firing()
