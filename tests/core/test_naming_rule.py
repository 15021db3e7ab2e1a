"""Whose a container is by its name or labels."""
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.naming_rule import NamingRules, named_by, parse_rule, parse_rules
from gpufairy.core.owner import KnownBy


@pytest.mark.parametrize(
    ("rule", "name", "user"),
    [
        ("USER_*", "alice_train", "alice"),
        ("USER_*", "kim_bert_large", "kim"),
        ("USER_*", "kim-a_bert", "kim-a"),
        ("USER_*", "alice", None),
        ("USER_*", "_train", None),
        ("USER_*", "2fast_train", None),
        ("*-USER", "run-2-lee", "lee"),
        ("*-USER", "lee", None),
        ("lab_USER_*", "lab_kim.j_x", "kim.j"),
        ("lab_USER_*", "lap_kim_x", None),
        ("*_USER_*", "x_alice_b_c", "alice"),
        ("USER", "alice", "alice"),
        ("gpuUSER", "gpualice", "alice"),
        ("USER_*", "a" * 32 + "_x", None),
        ("USER_*", "alice_" + "x" * 300, None),
    ],
)
def test_a_name_tells_its_user(rule: str, name: str, user: str | None):
    assert named_by(parse_rule(rule), name) == user


def test_the_first_rule_that_fits_wins():
    rules = NamingRules(parse_rules(["lab_USER_*", "USER_*"]))
    assert rules.user_of("lab_kim_x", {}) == ("kim", KnownBy.RULE)
    assert rules.user_of("lee_x", {}) == ("lee", KnownBy.RULE)


def test_of_known_users_the_longest_that_fits_is_meant():
    known = frozenset({"kim", "kim_a"})
    assert named_by(parse_rule("USER_*"), "kim_a_train", known) == "kim_a"
    assert named_by(parse_rule("USER_*"), "kim_b_train", known) == "kim"


def test_a_rule_that_finds_a_stranger_leaves_it_to_the_next():
    rules = NamingRules(parse_rules(["USER_*", "*_USER"]), known_users=frozenset({"lee"}))
    assert rules.user_of("train_lee", {}) == ("lee", KnownBy.RULE)
    assert rules.user_of("redis_main", {}) is None


def test_a_label_counts_more_than_a_name():
    rules = NamingRules(parse_rules(["USER_*"]))
    assert rules.user_of("alice_train", {"user": "bob"}) == ("bob", KnownBy.LABEL)


def test_a_label_that_is_no_name_says_nothing():
    rules = NamingRules(parse_rules(["USER_*"]), known_users=frozenset({"alice"}))
    for label in ("", "x y", "a\nb", "../etc", "mallory", "a" * 1000):
        assert rules.user_of("alice_train", {"owner": label}) == ("alice", KnownBy.RULE)


def test_our_own_labels_are_never_taken_from_a_stranger():
    assert NamingRules(labels=("gpufairy.owner",)).user_of("x", {"gpufairy.owner": "alice"}) is None


def test_without_rules_nothing_is_guessed():
    assert NamingRules().user_of("alice_train", {}) is None


@pytest.mark.parametrize("text", ["", "*", "alice_*", "USER_USER", "*USER", "USER*", "USER_[a]", "USER/*", "USER_" + "x" * 100, "USER_" + "*a" * 20, "USER\n"])
def test_a_rule_that_cannot_be_read_says_what_to_write(text: str):
    with pytest.raises(BadInput, match="naming rule") as refused:
        parse_rule(text)
    assert "USER_*" in refused.value.next_step


@given(st.text(alphabet="abUSER*-_.", max_size=30), st.text(alphabet="abUSER-_.é\n", max_size=80))
def test_what_is_found_is_part_of_the_name(text: str, name: str):
    try:
        rule = parse_rule(text)
    except BadInput:
        return
    found = named_by(rule, name)
    assert found is None or found in name


def test_the_worst_name_for_the_worst_rule_is_soon_told():
    began = time.process_time()
    named_by(parse_rule("*a*a*a*a-USER-a*a*a*a*"), "a-" * 127)
    assert time.process_time() - began < 1.0
