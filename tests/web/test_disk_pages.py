"""Disk use on pages: a block on the first page, a page of one's own, and the admin's; and nobody sees another's."""
from datetime import timedelta

import pytest
from admin_browser import as_user, done_by_people
from house_scene import a_house

from builders import NOW
from gpufairy.control.disk import SETTLING
from gpufairy.core.agent import Agent
from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing, Unmeasured
from gpufairy.core.disk_report import DiskTold, place_on
from gpufairy.core.people import Role
from gpufairy.core.quota_rules import Quota
from gpufairy.web.disk_page import disk_block

pytestmark = pytest.mark.slow

GIB = 2**30
HOMES = Place("homes", "/srv/homes", of_homes=True)
NASTY = "<script>alert(1)</script>"


def owned(name: str, size: int, old: int = 0) -> Owned:
    big = Thing(f"{name}/runs/{NASTY}.ckpt", size // 2, 0, 1_700_000_000)
    folders = (Thing(name, size, 9, 1_700_000_000), Thing(f"{name}/runs", size // 2, 4, 1_700_000_000))
    return Owned(name, 0, size, 1234, old, (Sort("pip", 3 * GIB, 9),), (big,), (big,) if old else (), folders)


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        disk, sizes = found.house.disk, iter((34, 36))
        for name in ("ann", "bob"):
            await found.house.registry.add_user(name, Role.USER, None)

        async def walk(place, now, *, full):
            owners = (owned("ann", next(sizes) * GIB, 20 * GIB), owned("bob", 9 * GIB))
            return DiskLook(place, now, 1.0, full, 45 * GIB, 2468, 5, 0, 2, 0, 1, 0, owners, owners[0].folders, ("ann/closed: permission denied",))

        disk.places, disk.walk = (HOMES,), walk
        found.clock.go_on(SETTLING)
        await disk.look()
        found.clock.go_on(timedelta(days=7))
        await disk.look()
        yield found


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


async def test_the_first_page_says_what_is_mine_how_it_grows_and_what_is_largest(scene):
    found = disk_block(scene.house, "ann")
    assert [plain(one) for one in (found.size, found.growth, found.largest, found.freed)] == ["36 GiB", "+2 GiB in 7 days", "~/runs, 18 GiB", "3 GiB"]
    page = plain((await (await as_user(scene, "ann", Role.USER)).get("/")).text)
    assert "Your disk: 36 GiB" in page
    assert "Largest: ~/runs, 18 GiB." in page


async def test_who_has_nothing_on_disk_sees_no_block(scene):
    assert disk_block(scene.house, "nobody") is None


async def test_a_user_finds_their_own_and_never_anothers(scene):
    browser = await as_user(scene, "ann", Role.USER)
    own = await browser.get("/disk")
    assert own.status == 200
    assert "You have 36 GiB on disk in 1,234 files, +2 GiB in 7 days." in plain(own.text)
    assert "pip cache purge" in own.text
    assert "/srv/homes" not in own.text  # where homes lie is the host's own affair
    other = await browser.get("/disk?user=bob")
    assert (other.status, "9 GiB" in plain(other.text)) == (403, False)
    assert (await browser.get("/admin/disk")).status == 403
    assert (await browser.post("/admin/disk/walk")).status == 403


async def test_names_of_files_are_text_and_nothing_else(scene):
    page = await (await as_user(scene, "ann", Role.USER)).get("/disk")
    assert NASTY.encode() not in page.body
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;.ckpt" in page.body


async def test_programs_are_told_the_same_and_no_more(scene):
    browser = await as_user(scene)
    _, own = await scene.house.registry.create_token("ann", "laptop", "full", None)
    _, admins = await scene.house.registry.create_token("root", "laptop", "full", None)
    mine = (await browser.api("GET", "/disk", own)).json()
    assert [(one["user"], one["bytes"], one["week_bytes"]) for one in mine["items"]] == [("ann", 36 * GIB, 2 * GIB)]
    assert mine["places"] == []
    assert mine["items"][0]["advice"][0]["sort"] == "old"
    assert mine["items"][0]["folders"][0]["path"] == "~"
    assert (await browser.api("GET", "/disk?user=bob", own)).status == 403
    assert (await browser.api("GET", "/disk/folders?place=homes", own)).status == 403
    assert (await browser.api("POST", "/disk/walks", own)).status == 403
    everybody = (await browser.api("GET", "/disk", admins)).json()
    assert [one["user"] for one in everybody["items"]] == ["ann", "bob"]
    assert everybody["places"][0]["troubles"] == ["ann/closed: permission denied"]
    assert "largest" not in everybody["items"][0]
    folders = (await browser.api("GET", "/disk/folders?place=homes&below=ann", admins)).json()
    assert [one["path"] for one in folders["items"]] == ["ann/runs"]
    missing = await browser.api("GET", "/disk/folders?place=home", admins)
    assert (missing.status, "Known: homes." in missing.text) == (404, True)
    assert (await browser.api("POST", "/disk/walks", admins)).status == 202


async def test_a_user_without_anything_on_disk_is_told_null(scene):
    browser = await as_user(scene)
    _, admins = await scene.house.registry.create_token("root", "laptop", "full", None)
    one = (await browser.api("GET", "/disk?user=root", admins)).json()["items"][0]
    assert (one["bytes"], one["week_bytes"], one["advice"]) == (None, None, [])


async def test_an_admin_sees_everybody_and_every_place_with_what_could_not_be_read(scene):
    await scene.house.quotas.set("user:ann", "*", lambda quota: Quota(quota.of, disk_bytes=30 * GIB), scene.house.nodes)
    browser = await as_user(scene)
    page = plain((await browser.get("/admin/disk")).text)
    for words in (
        "45 GiB on disk, of 2 users.", "36 GiB", "+2 GiB", "30 GiB, only told", "2 folders could not be read", "ann/closed: permission denied",
        "1 other disk in it is not counted.", "/srv/homes",
    ):
        assert words in page
    assert "bob has 9 GiB on disk" in plain((await browser.get("/disk?user=bob")).text)


async def test_an_admin_starts_a_walk_and_that_is_written_down(scene):
    answer = await (await as_user(scene)).post("/admin/disk/walk")
    assert answer.status == 303
    assert scene.house.disk.wake.is_set()
    assert ("root", "disk_walk_asked", "disk all") in await done_by_people(scene)


async def test_who_is_near_a_limit_is_warned_on_the_first_page(scene):
    await scene.house.quotas.set("user:ann", "*", lambda quota: Quota(quota.of, disk_bytes=30 * GIB), scene.house.nodes)
    page = plain((await (await as_user(scene, "ann", Role.USER)).get("/")).text)
    assert "36 GiB of 30 GiB on disk: nothing stops you there, but others need room too" in page


async def test_where_nothing_is_known_that_is_said(tmp_path):
    async with a_house(tmp_path) as scene:
        browser = await as_user(scene)
        assert "What lies on disk is not known here." in (await browser.get("/disk")).text
        page = (await browser.get("/admin/disk")).text
        assert "no folder of this machine is walked through" in page
        refused = await browser.post("/admin/disk/walk")
        assert refused.status == 409
        scene.house.disk.places = (HOMES,)
        scene.house.disk._unmeasured["homes"] = Unmeasured(HOMES, NOW, "/srv/homes: no such file or directory", "Look whether it is there and mounted.")
        page = (await browser.get("/admin/disk")).text
        assert "Nobody has looked at the disk yet." in page
        assert "/srv/homes: no such file or directory" in page


async def test_a_limit_is_set_and_lifted_on_the_page_of_quotas(scene):
    browser = await as_user(scene)
    await browser.post("/admin/quotas/set", of="user:ann", kind="*", disk="100GiB")
    assert scene.house.quotas.all() == (Quota("user:ann", disk_bytes=100 * GIB),)
    page = (await browser.get("/admin/quotas?of=user:ann&kind=*")).text
    assert 'value="100GiB"' in page
    assert "100 GiB on disk" in page
    await browser.post("/admin/quotas/set", of="user:ann", kind="*", gpus="2", disk="")
    assert scene.house.quotas.all()[0].disk_bytes is None


async def test_hosts_stand_in_a_line_each_and_one_is_shown_by_itself(scene):
    house, names = scene.house, ("gpu07", "gpu08")
    for name in names:
        house.agents._agents[name] = Agent(name, b"k", NOW, "root")
        place = place_on(name, "/home")
        mine = Owned("ann", 0, 2 * GIB, 5, 0, folders=(Thing("ann/data", GIB, 4, 1_700_000_000),))
        look = DiskLook(place, scene.clock(), 0.1, True, 2 * GIB, 5, 1, 0, 0, owners=(mine,), folders=mine.folders, named=3, left_out=2)
        await house.disk.take(DiskTold(name, (place,), look))
    scene.clock.go_on(timedelta(days=3))
    failed = Unmeasured(place_on("gpu08", "/home"), scene.clock(), "/home gives no answer: the last walk hangs in it", "Look at the disk it lies on.")
    await house.disk.take(DiskTold("gpu08", (failed.place,), failed=failed))
    browser = await as_user(scene)
    page = plain((await browser.get("/admin/disk")).text)
    for words in ("49 GiB on disk, of 2 users.", 'href="/admin/disk?node=gpu07"', "gpu08:/home", "the last walk hangs in it", "/srv/homes"):
        assert words in page
    assert "ann/data" not in page
    chosen = plain((await browser.get("/admin/disk?node=gpu07")).text)
    for words in ("2 GiB on disk, of 1 user.", "ann/data", "It was looked at so long ago that it may have changed.", "Not all large files", "2 small owners are left out."):
        assert words in chosen
    assert "/srv/homes" not in chosen
    assert "49 GiB" in plain((await browser.get("/admin/disk?node=<script>")).text)
    own = plain((await (await as_user(scene, "ann", Role.USER)).get("/disk")).text)
    assert "gpu07:~/data" in own
    assert ": it may have changed" in own
    assert "gpu07:/home/ann/data" in plain((await browser.get("/disk?user=ann")).text)
