"""Disk use in a whole house: when places are walked through, what is kept over a restart, who may see what, and limits."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from house_scene import a_house

from gpufairy.control import govern
from gpufairy.control.disk import SETTLING
from gpufairy.control.disk_deeds import ask_for_walk
from gpufairy.core.disk import DiskLook, Owned, Place, Unmeasured
from gpufairy.core.disk_due import WalkPace
from gpufairy.core.disk_growth import Growth
from gpufairy.core.disk_limit import DiskLimit
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.people import Role
from gpufairy.wire.disk import DiskConfig
from gpufairy.wire.teams import QuotaBody

HOMES = Place("homes", "/srv/homes", of_homes=True)
DATA = Place("data", "/data")
HOUR = timedelta(hours=1)


class Walker:
    """Finds what the test says, and remembers how it was asked."""

    def __init__(self) -> None:
        self.sizes = {"ann": 100}
        self.asked: list[tuple[str, bool]] = []
        self.broken = ""

    async def __call__(self, place: Place, now: datetime, *, full: bool) -> DiskLook | Unmeasured:
        self.asked.append((place.name, full))
        if self.broken:
            return Unmeasured(place, now, self.broken, "Look at it.")
        owners = tuple(Owned(name, 0, size, 1, 0) for name, size in self.sizes.items())
        return DiskLook(place, now, 0.1, full, sum(self.sizes.values()), len(owners), 1, 0, 0, owners=owners)


def furnished(scene, walker, *places, **more):
    disk = scene.house.disk
    disk.places, disk.walk, disk.here = places or (HOMES,), walker, lambda at: at.astimezone(UTC)
    for name, value in more.items():
        setattr(disk, name, value)
    return disk


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.add_user("ann", Role.USER, None)
        found.clock.go_on(SETTLING)
        yield found


async def test_the_first_walk_is_in_full_then_quick_ones_follow_every_hour_and_a_full_one_each_night(scene):
    walker = Walker()
    disk = furnished(scene, walker)
    await disk.look()
    await disk.look()
    assert walker.asked == [("homes", True)]
    for _ in range(26):
        scene.clock.go_on(HOUR)
        await disk.look()
    assert len(walker.asked) == 27
    assert [full for _, full in walker.asked].count(True) == 2


async def test_a_server_that_has_just_started_leaves_the_disks_to_others_unless_an_admin_asks(tmp_path):
    async with a_house(tmp_path) as scene:
        walker = Walker()
        disk = furnished(scene, walker)
        await disk.look()
        assert walker.asked == []
        await ask_for_walk(scene.house, "root")
        await disk.look()
        assert walker.asked == [("homes", True)]


async def test_with_every_off_only_an_admin_starts_a_walk(scene):
    walker = Walker()
    disk = furnished(scene, walker, pace=WalkPace(every=None))
    scene.clock.go_on(timedelta(days=3))
    await disk.look()
    assert walker.asked == []
    disk.ask()
    await disk.look()
    assert walker.asked == [("homes", True)]


async def test_a_walk_that_failed_is_told_and_tried_again_later_and_what_was_known_stays(scene):
    walker = Walker()
    disk = furnished(scene, walker)
    await disk.look()
    walker.broken = "/srv/homes: input/output error"
    scene.clock.go_on(HOUR)
    await disk.look()
    await disk.look()
    assert len(walker.asked) == 2
    assert [one.why for one in disk.unmeasured()] == ["/srv/homes: input/output error"]
    assert disk.users()["ann"].bytes == 100
    walker.broken = ""
    scene.clock.go_on(HOUR)
    await disk.look()
    assert disk.unmeasured() == []


async def test_growth_is_told_from_the_days_that_were_kept(scene):
    walker = Walker()
    disk = furnished(scene, walker)
    for day in range(8):
        walker.sizes = {"ann": 100 + 10 * day}
        await disk.look()
        assert disk.growth_of(disk.users()["ann"]).known is (day > 0)
        if day < 7:
            scene.clock.go_on(timedelta(days=1))
    assert disk.growth_of(disk.users()["ann"]) == Growth(10, 70)
    assert disk.growth_of_place(disk.looks()[0]) == Growth(10, 70)


async def test_a_restart_forgets_nothing(tmp_path):
    async with a_house(tmp_path) as scene:
        await scene.house.registry.add_user("ann", Role.USER, None)
        scene.clock.go_on(SETTLING)
        disk = furnished(scene, Walker())
        await disk.look()
        clock = scene.clock
    clock.go_on(timedelta(days=1))
    async with a_house(tmp_path, clock=clock) as scene:
        walker = Walker()
        disk = furnished(scene, walker)
        assert disk.users()["ann"].bytes == 100
        assert disk.growth_of(disk.users()["ann"]) == Growth(0, None)


async def test_a_place_that_is_no_longer_in_the_settings_counts_no_more(scene):
    disk = furnished(scene, Walker(), HOMES, DATA)
    await disk.look()
    assert len(disk.looks()) == 2
    disk.places = (HOMES, replace(DATA, path="/data2"))
    assert [look.place.name for look in disk.looks()] == ["homes"]


async def test_without_places_it_is_said_why_nothing_is_known(scene):
    disk = furnished(scene, Walker(), HOMES)
    disk.places, disk.why_none = (), "homes are claims of the cluster, which this server does not see into"
    assert disk.users() == {}
    with pytest.raises(Conflict, match="homes are claims"):
        disk.ask()


async def test_a_limit_is_set_once_and_again_only_when_it_changes(scene):
    asked = []

    async def set_limit(user, limit_bytes):
        asked.append((user.name, limit_bytes))
        return DiskLimit(limit_bytes, limit_bytes is not None, used_bytes=5)

    disk = furnished(scene, Walker(), set_limit=set_limit)
    await govern.set_quota(scene.house, "root", QuotaBody(of="user:ann", disk="100GiB"))
    assert disk.limits_changed.is_set()
    assert disk.limit("ann").enforced is False
    await disk.hold_to_limits()
    await disk.hold_to_limits()
    assert asked == [("ann", 100 * 2**30)]
    assert disk.limit("ann") == DiskLimit(100 * 2**30, True, used_bytes=5)
    await govern.unset_quota(scene.house, "root", "user:ann", "*")
    await disk.hold_to_limits()
    assert asked[-1] == ("ann", None)
    assert disk.limit("ann").limit_bytes is None


async def test_a_limit_that_the_kernel_refuses_is_told_and_tried_again(scene):
    async def set_limit(_user, limit_bytes):
        return DiskLimit(limit_bytes, False, "/srv/homes is on overlay, which has no project quotas", "Put homes on ext4 or XFS.")

    disk = furnished(scene, Walker(), set_limit=set_limit)
    await govern.set_quota(scene.house, "root", QuotaBody(of="user:*", disk="1GiB"))
    await disk.hold_to_limits()
    assert disk.limit("ann").why_not == "/srv/homes is on overlay, which has no project quotas"
    assert not disk.limit("ann").enforced


@pytest.mark.parametrize(
    "body", [{"of": "team:nlp", "disk": "1GiB"}, {"of": "user:ann", "disk": "much"}, {"of": "user:ann", "disk": "0"}, {"of": "team:*", "disk": "1GiB"}]
)
async def test_limits_that_mean_nothing_are_refused_in_words(scene, body):
    if body["of"] == "team:nlp":
        await govern.add_team(scene.house, "root", "nlp", 1.0)
    with pytest.raises(BadInput, match="disk"):
        await govern.set_quota(scene.house, "root", QuotaBody(**body))


@pytest.mark.parametrize("setting", [{"every": "1s"}, {"every": "30d"}, {"nightly": "25:00"}, {"every": "sometimes"}])
def test_settings_that_mean_nothing_are_refused(setting):
    with pytest.raises(BadInput, match=r"disk\."):
        DiskConfig(**setting).to_pace()


def test_folders_are_whole_paths():
    assert DiskConfig(folders=["/data/"]).checked_folders() == ["/data"]
    with pytest.raises(BadInput, match="no whole path"):
        DiskConfig(folders=["data"]).checked_folders()
    with pytest.raises(BadInput, match="no whole path"):
        DiskConfig(folders=["/data/../etc"]).checked_folders()
