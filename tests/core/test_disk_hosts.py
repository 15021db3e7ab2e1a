"""Disk use that agents tell: whose it is on another host, when they walk, what fits into a report, what is believed; limits by machine."""
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpufairy.core.disk import DiskLook, DiskUser, Owned, Place, Sort, Thing, as_admin, as_owner, disk_user, disk_users, is_home
from gpufairy.core.disk_due import spread
from gpufairy.core.disk_limit import DiskLimit, OverLimit, most_used, near_words, over_limits
from gpufairy.core.disk_message import Standing, ToldDisk, disk_message, from_text, to_text
from gpufairy.core.disk_report import LARGEST, MOST_BYTES, look_fault, place_fault, place_on, told_of
from gpufairy.core.user_channel import Tells

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
GIB = 2**30
HOME, DATA = place_on("gpu07", "/home"), place_on("gpu07", "/data")
USERS = {"kim": 20_001, "lee": 0}


def a_look(place: Place, *owners: Owned, **more: object) -> DiskLook:
    return DiskLook(place, NOW, 0.1, True, sum(one.bytes for one in owners), 2, 1, 0, 0, owners=owners, **more)


def owned(top: str, uid: int = 1000, size: int = 10, **more: object) -> Owned:
    return Owned(top, uid, size, 2, 0, **more)


def test_a_folder_of_homes_is_known_by_its_name():
    assert (HOME.name, HOME.of_homes, HOME.node) == ("gpu07:/home", True, "gpu07")
    assert place_on("gpu07", "/export/homes/").of_homes
    assert not place_on("gpu07", "/homework").of_homes


def test_on_another_host_the_name_says_whose_it_is_and_a_uid_means_nothing():
    looks = [a_look(HOME, owned("kim", 5), owned("nobody", 20_001)), a_look(DATA, owned("lee", 20_001, 7), owned("", 20_001, 9))]
    assert {name: user.bytes for name, user in disk_users(looks, USERS).items()} == {"kim": 10, "lee": 7}


def test_accounts_that_were_lent_to_a_user_count_together_with_their_own():
    kim = disk_users([a_look(DATA, owned("kim", 1000, 3), owned("kim", 100_000, 4))], USERS)["kim"]
    assert (kim.bytes, kim.places, kim.by_node) == (7, (("gpu07:/data", 7),), (("gpu07", 7),))


def test_a_user_sees_a_home_and_an_admin_the_whole_path():
    assert as_owner(HOME, "kim/data/x") == "gpu07:~/data/x"
    assert as_admin(HOME, "kim/data/x") == "gpu07:/home/kim/data/x"
    assert as_owner(DATA, "sets/x") == as_admin(DATA, "sets/x") == "gpu07:/data/sets/x"
    assert as_owner(place_on("gpu07", "/"), "sets/x") == "gpu07:/sets/x"
    assert [is_home(path) for path in ("~", "gpu07:~", "gpu07:~/x", "~/a:~", "x~")] == [True, True, False, False, False]
    look = a_look(HOME, owned("kim", largest=(Thing("kim/x.bin", 5, 0, 1),)))
    assert [disk_user([look], "kim", 0, how).largest[0].path for how in (as_owner, as_admin)] == ["gpu07:~/x.bin", "gpu07:/home/kim/x.bin"]


def test_hosts_begin_at_times_of_their_own_and_always_the_same():
    times = [spread(f"gpu{number:02}", timedelta(hours=1)) for number in range(39)]
    assert all(timedelta(0) <= time < timedelta(hours=1) for time in times)
    assert len({int(time.total_seconds()) for time in times}) >= 35
    assert times[7] == spread("gpu07", timedelta(hours=1))


def crowd(count: int, named: int = 20) -> DiskLook:
    """Owners with long paths, the largest last."""
    things = tuple(Thing(f"{'x' * 100}/{number}", 10**9, 3, 1_700_000_000) for number in range(named))
    owners = tuple(Owned(f"user{number}", number, 10**9 + number, 5, 0, (), things, things, things) for number in range(count))
    return replace(a_look(HOME, *owners), folders=tuple(Thing(f"folder{number}", 5, 5, 5) for number in range(500)))


def test_a_report_that_fits_is_whole():
    told = told_of(crowd(10))
    assert "named" not in told
    assert len(told["owners"][0]["largest"]) == 20


@pytest.mark.parametrize("count", [120, 300, 1000])
def test_what_is_named_of_each_owner_is_trimmed_until_the_report_fits_and_it_says_so(count):
    told = told_of(crowd(count))
    assert len(json.dumps(told, separators=(",", ":"))) <= MOST_BYTES
    assert len(told["owners"]) == count
    assert {len(one.get("largest", ())) for one in told["owners"]} == {told["named"]}
    assert told["named"] < 20


@pytest.mark.slow
def test_of_too_many_owners_the_largest_are_told_and_how_many_are_not():
    told = told_of(crowd(30_000, named=0), most_bytes=500_000)
    assert len(json.dumps(told, separators=(",", ":"))) <= 500_000
    assert told["left_out"] == 30_000 - len(told["owners"])
    assert told["owners"][0]["top"] == "user29999"
    assert told["bytes"] == sum(10**9 + number for number in range(30_000))


@pytest.mark.parametrize("path", ["", "home", "/home/../etc", "/" + "x" * 5000, "/a\0b", "/a\x1b[31m"])
def test_a_place_that_is_no_whole_path_is_refused(path):
    assert "is no whole path" in place_fault(path)


THING = Thing("x", 1, 1, 1)
LOOK = a_look(HOME, owned("kim", largest=(THING,), sorts=(Sort("pip", 1, 1),)), folders=(THING,))


def test_a_look_that_can_be_is_believed():
    assert look_fault(LOOK, NOW) is None
    assert look_fault(replace(LOOK, folders=(replace(THING, used_s=-5),)), NOW) is None  # what files say of their time may be anything


@pytest.mark.parametrize(
    "look",
    [
        replace(LOOK, bytes=-1), replace(LOOK, inodes=LARGEST + 1), replace(LOOK, took_s=-1.0), replace(LOOK, took_s=1e9), replace(LOOK, unread=10**4000),
        replace(LOOK, at=NOW + timedelta(hours=1)), replace(LOOK, at=NOW - timedelta(days=8)), replace(LOOK, named=-1),
        replace(LOOK, folders=(replace(THING, bytes=-1),)), replace(LOOK, folders=(THING,) * 2000), replace(LOOK, troubles=("x",) * 2000),
        replace(LOOK, owners=(owned("kim", -1),)), replace(LOOK, owners=(owned("kim", size=2**62),) * 3), replace(LOOK, owners=(owned("kim", oldest=(replace(THING, used_s=2**70),)),)),
        replace(LOOK, owners=(owned("kim", sorts=(Sort("pip", -1, 0),)),)), replace(LOOK, owners=(owned("kim", sorts=(Sort("pip", 1, 0),) * 200),)),
    ],
)  # fmt: skip
def test_a_figure_that_cannot_be_is_refused_in_few_words(look):
    fault = look_fault(look, NOW)
    assert fault
    assert len(fault) < 200


def a_user(**by_node: int) -> DiskUser:
    return DiskUser("kim", sum(by_node.values()), 1, 0, (), (), (), (), (), tuple((node if node != "server" else "", size) for node, size in by_node.items()))


def test_a_limit_counts_on_each_machine_by_itself():
    user = a_user(server=60 * GIB, gpu07=70 * GIB)
    assert most_used(user) == ("gpu07", 70 * GIB)
    assert over_limits([user], lambda _: DiskLimit(100 * GIB, False)) == []
    assert over_limits([user], lambda _: DiskLimit(65 * GIB, False)) == [OverLimit("kim", "gpu07", 70 * GIB, 65 * GIB)]
    assert over_limits([user], lambda _: DiskLimit(None, False)) == []


def test_where_the_kernel_holds_a_limit_nobody_is_told_of_the_server_but_of_other_hosts():
    user = a_user(server=60 * GIB, gpu07=70 * GIB)
    assert [one.node for one in over_limits([user], lambda _: DiskLimit(50 * GIB, True))] == ["gpu07"]
    assert OverLimit("kim", "gpu07", 70 * GIB, 50 * GIB).sentence == "kim has 70 GiB on disk on gpu07, and may have 50 GiB"
    assert near_words(70 * GIB, DiskLimit(50 * GIB, True), "gpu07") == "70 GiB of 50 GiB on disk on gpu07: nothing stops you there, but others need room too"


LIMIT = DiskLimit(100 * GIB, False)


def told(size: int, before: ToldDisk | None = None, after: timedelta = timedelta()) -> tuple[Standing | None, str | None]:
    standing, message = disk_message(a_user(server=size * GIB), LIMIT, before, NOW + after)
    return None if standing is None else standing.standing, None if message is None else message.item.sentence


def test_who_nears_their_limit_is_told_once_and_again_only_after_they_were_far_from_it():
    near = ToldDisk(Standing.NEAR, NOW)
    assert told(84) == (None, None)
    assert told(89) == (None, None)
    assert told(91) == (Standing.NEAR, "91 GiB of 100 GiB on disk are used")
    assert told(92, near, timedelta(days=30)) == (Standing.NEAR, None)
    assert told(87, near) == (Standing.NEAR, None)  # between the two marks nothing is new
    assert told(84, near) == (None, None)


def test_who_is_over_their_limit_is_told_at_once_and_then_once_a_day():
    over = ToldDisk(Standing.OVER, NOW)
    assert told(101, ToldDisk(Standing.NEAR, NOW))[1] == "101 GiB of 100 GiB on disk: nothing stops you there, but others need room too"
    assert told(130, over, timedelta(hours=23)) == (Standing.OVER, None)
    assert told(99, over, timedelta(hours=1)) == (Standing.OVER, None)  # and back again within the day: no second message
    assert told(130, over, timedelta(days=1))[1] is not None
    assert told(130, over, timedelta(days=-400))[1] is not None  # the clock was set back


def test_a_message_goes_by_the_channel_of_quotas_and_two_are_never_one():
    _, first = disk_message(a_user(server=101 * GIB), LIMIT, None, NOW)
    _, second = disk_message(a_user(server=101 * GIB), LIMIT, None, NOW + timedelta(days=1))
    assert (first.owner, first.about, first.item.what) == ("kim", Tells.QUOTA, "disk_over")
    assert first.key != second.key


def test_what_was_told_outlives_a_restart():
    known = {"kim": ToldDisk(Standing.OVER, NOW), "lee": ToldDisk(Standing.NEAR, NOW)}
    assert from_text(to_text(known)) == known
    assert from_text(None) == {}
