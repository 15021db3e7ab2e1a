"""Disk use: whose it is, how it grows, when it is looked at, what is said of it. Pure rules."""
from datetime import UTC, datetime, time, timedelta

from gpufairy.core.amounts import parse_size
from gpufairy.core.disk import DiskLook, Owned, Place, Sort, Thing, as_owner, disk_user, disk_users, folders_within, outermost, used_at
from gpufairy.core.disk_advice import clean_up, freed_bytes
from gpufairy.core.disk_due import WalkPace, is_due, is_full_due
from gpufairy.core.disk_growth import ALL, DaySum, Growth, growth
from gpufairy.core.disk_limit import DiskLimit, limit_of, near_words
from gpufairy.core.quota_rules import Quota

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
HOMES, DATA = Place("homes", "/srv/homes", of_homes=True), Place("data", "/data")
USERS = {"ann": 20_001, "bob": 20_002, "new": 0}
GIB = 2**30


def a_look(place: Place, *owners: Owned, folders: tuple[Thing, ...] = ()) -> DiskLook:
    size, inodes = sum(one.bytes for one in owners), sum(one.inodes for one in owners)
    return DiskLook(place, NOW, 0.1, True, size, inodes, 1, 0, 0, owners=owners, folders=folders)


def owned(top: str = "", uid: int = 0, size: int = 10, **more: object) -> Owned:
    return Owned(top, uid, size, 2, 0, **more)


def test_what_lies_in_a_home_is_its_owners_whatever_uid_is_on_it():
    users = disk_users([a_look(HOMES, owned("ann", 0), owned("bob", 20_001, 5), owned(".aside", 0, 99))], USERS)
    assert {name: user.bytes for name, user in users.items()} == {"ann": 10, "bob": 5}


def test_elsewhere_the_uid_says_whose_it_is_and_places_are_added_up():
    users = disk_users([a_look(HOMES, owned("ann")), a_look(DATA, owned(uid=20_001, size=7), owned(uid=0, size=50))], USERS)
    assert users["ann"].bytes == 17
    assert users["ann"].places == (("homes", 10), ("data", 7))
    assert "new" not in users  # a user without a uid owns nothing of root's


def test_the_largest_of_several_places_are_named_as_their_owner_finds_them():
    small, large = Thing("ann/a/x.bin", 3, 0, 1), Thing("sets/y.bin", 9, 0, 1)
    ann = disk_user([a_look(HOMES, owned("ann", largest=(small,))), a_look(DATA, owned(uid=20_001, largest=(large,)))], "ann", 20_001)
    assert [one.path for one in ann.largest] == ["data/sets/y.bin", "~/a/x.bin"]
    assert as_owner(HOMES, "ann") == "~"


def test_sorts_of_several_places_are_one():
    both = [a_look(HOMES, owned("ann", sorts=(Sort("pip", 5, 1),))), a_look(DATA, owned(uid=20_001, sorts=(Sort("pip", 6, 2), Sort("trash", 20, 1))))]
    assert disk_users(both, USERS)["ann"].sorts == (Sort("trash", 20, 1), Sort("pip", 11, 3))


def test_folders_within_a_folder_are_told_by_whole_names():
    look = a_look(DATA, folders=(Thing("a", 9, 3, 1), Thing("a/b", 5, 2, 1), Thing("ab", 7, 1, 1)))
    assert [one.path for one in folders_within(look, "a")] == ["a/b"]
    assert [one.path for one in folders_within(look)] == ["a", "ab", "a/b"]


def test_a_place_within_another_is_walked_through_with_it():
    places = [HOMES, Place("all", "/srv"), Place("again", "/srv"), Place("other", "/srv2")]
    assert [one.name for one in outermost(places)] == ["all", "other"]


def test_a_time_that_cannot_be_is_not_known():
    assert used_at(Thing("x", 1, 0, 10**15)) is None
    assert used_at(Thing("x", 1, 0, -5)) is None
    assert used_at(Thing("x", 1, 0, 1_700_000_000)) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def day(back: int, who: str, size: int, place: str = "homes") -> DaySum:
    return DaySum(TODAY - timedelta(days=back), place, who, size, 1)


def test_growth_is_the_difference_to_a_day_and_to_a_week_ago():
    days = [day(7, ALL, 100), day(7, "ann", 10), day(1, ALL, 100), day(1, "ann", 25)]
    assert growth(days, "ann", {"homes": 30}, TODAY) == Growth(5, 20)


def test_growth_is_not_known_before_anything_was_kept():
    assert growth([], "ann", {"homes": 30}, TODAY) == Growth(None, None)
    assert growth([day(0, ALL, 9), day(0, "ann", 9)], "ann", {"homes": 30}, TODAY) == Growth(None, None)
    assert growth([day(30, ALL, 9), day(30, "ann", 9)], "ann", {"homes": 30}, TODAY) == Growth(None, None)


def test_a_day_that_was_missed_is_scaled_from_the_one_before():
    days = [day(8, ALL, 100), day(8, "ann", 14)]
    assert growth(days, "ann", {"homes": 30}, TODAY).week_bytes == 14


def test_a_place_that_is_new_to_us_has_not_grown():
    days = [day(7, ALL, 100), day(7, "ann", 10)]
    assert growth(days, "ann", {"homes": 12, "data": 10**12}, TODAY).week_bytes == 2


def test_who_had_nothing_where_somebody_looked_has_grown_by_all():
    assert growth([day(7, ALL, 100)], "ann", {"homes": 12}, TODAY).week_bytes == 12


def test_what_was_removed_is_growth_below_zero():
    assert growth([day(1, ALL, 100), day(1, "ann", 50)], "ann", {"homes": 20}, TODAY).day_bytes == -30


def test_a_walk_in_full_is_due_once_a_night_and_after_the_clock_was_set_back():
    three = NOW.replace(hour=3)
    assert is_full_due(None, NOW, time(3))
    assert not is_full_due(three + timedelta(minutes=1), NOW, time(3))
    assert is_full_due(three - timedelta(minutes=1), NOW, time(3))
    assert is_full_due(NOW + timedelta(days=400), NOW, time(3))
    assert not is_full_due(NOW - timedelta(hours=23), NOW, None)
    assert is_full_due(NOW - timedelta(hours=24), NOW, None)


def test_a_quick_walk_is_due_every_hour_and_one_that_failed_is_not_tried_at_once():
    pace = WalkPace()
    assert is_due(None, NOW, pace, full=False)
    assert not is_due(NOW - timedelta(minutes=59), NOW, pace, full=False)
    assert is_due(NOW - timedelta(minutes=60), NOW, pace, full=False)
    assert is_due(NOW - timedelta(minutes=6), NOW, pace, full=True)
    assert not is_due(NOW - timedelta(minutes=1), NOW, pace, full=True)
    assert not is_due(None, NOW, WalkPace(every=None), full=True)


def test_advice_names_what_is_worth_removing_the_most_first():
    sorts = (Sort("pip", 3 * GIB, 9), Sort("pycache", 2**20, 9), Sort("huggingface", 40 * GIB, 9))
    user = disk_users([a_look(HOMES, Owned("ann", 0, 50 * GIB, 9, 0, sorts))], USERS)["ann"]
    found = clean_up(user)
    assert [one.sort for one in found] == ["huggingface", "pip"]
    assert found[1].what == "Packages that pip and uv fetched take 3 GiB"
    assert freed_bytes(found) == 43 * GIB


def test_advice_never_speaks_of_removing_by_itself_and_every_sort_has_a_next_step():
    names = ("pip", "conda", "huggingface", "torch", "cache", "pycache", "notebooks", "trash", "checkpoints", "cores")
    user = disk_users([a_look(HOMES, Owned("ann", 0, 20 * GIB, 9, 9 * GIB, tuple(Sort(name, GIB, 1) for name in names)))], USERS)["ann"]
    found = clean_up(user)
    assert {one.sort for one in found} == {*names, "old"}
    assert all(one.next_step.endswith(".") and "{" not in one.next_step.replace("{} +", "") for one in found)


def test_what_is_old_is_told_where_it_is_a_good_part():
    old = disk_users([a_look(HOMES, Owned("ann", 0, 10 * GIB, 9, 3 * GIB))], USERS)["ann"]
    little = disk_users([a_look(HOMES, Owned("ann", 0, 10 * GIB, 9, 1 * GIB))], USERS)["ann"]
    assert [one.what for one in clean_up(old)] == ["3 GiB were neither read nor written for half a year"]
    assert clean_up(little) == ()


def test_a_users_own_limit_goes_before_the_one_for_each():
    quotas = [Quota("user:*", disk_bytes=5), Quota("user:ann", disk_bytes=9), Quota("user:bob", gpu_parts=1), Quota("user:ann", "A100", 1)]
    assert (limit_of("ann", quotas), limit_of("bob", quotas), limit_of("ann", [])) == (9, 5, None)


def test_being_near_a_limit_is_told_and_whether_it_holds():
    limit = parse_size("100GiB")
    assert near_words(80 * GIB, DiskLimit(limit, True)) == ""
    assert near_words(95 * GIB, DiskLimit(limit, True)) == "95 GiB of 100 GiB on disk: at the limit, writing fails"
    assert near_words(95 * GIB, DiskLimit(limit, False)) == "95 GiB of 100 GiB on disk are used"
    assert near_words(105 * GIB, DiskLimit(limit, False)).endswith("nothing stops you there, but others need room too")
    assert near_words(10**15, DiskLimit(None, False)) == ""
