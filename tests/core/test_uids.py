"""Uids: stable, each user's own, never given twice."""
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.people import Role, User
from gpufairy.core.uids import FIRST_UID, Uids
from scenes import NOW

NAMES = st.text("abcdef", min_size=1, max_size=3)


def joined(names, uids):
    users = {}
    for name in names:
        users.setdefault(name, User(name, Role.USER, NOW, uid=uids.next_for(name, users.values())))
    return users


@given(st.lists(NAMES), st.dictionaries(NAMES, st.integers(0, FIRST_UID + 50)))
def test_no_two_users_have_one_uid_whatever_lies_on_the_disk(names, on_folders):
    uids = [user.uid for user in joined(names, Uids(on_folders=on_folders)).values()]
    assert len(set(uids)) == len(uids)
    assert all(uid >= FIRST_UID for uid in uids)


def test_a_folder_that_is_there_says_whose_it_is():
    assert Uids(on_folders={"kim": FIRST_UID + 7}).next_for("kim", []) == FIRST_UID + 7
    assert Uids(on_folders={"kim": FIRST_UID + 7}).next_for("lee", []) == FIRST_UID + 8


def test_a_folder_of_root_makes_nobody_root():
    assert Uids(on_folders={"kim": 0}).next_for("kim", []) == FIRST_UID


def test_a_home_given_to_a_strange_number_makes_nobody_that_number():
    uids = Uids(on_folders={"mal": 2**32 - 2, "eve": FIRST_UID + 1, "imp": FIRST_UID + 1})
    assert uids.next_for("mal", []) == FIRST_UID + 2
    assert uids.next_for("imp", []) == FIRST_UID + 2
