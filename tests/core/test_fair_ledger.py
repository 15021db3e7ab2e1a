"""The fairness ledger: what is ahead of one is behind of others, to the last part and microsecond."""
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, a_gpu_seat, a_seat
from gpufairy.core.cluster import Weights
from gpufairy.core.fair_ledger import Ledger, LedgerBy, LedgerRow, Member, Past, Use, entitlements, fair_ledger, gpu_seconds
from gpufairy.core.share import PARTS
from gpufairy.core.usage import HeldSeat

HOUR = timedelta(hours=1)
SINCE, UNTIL = NOW, NOW + 10 * HOUR


def held(user: str, hours: float, team: str | None = None, parts: int = PARTS, after: float = 0.0, charge: int | None = None) -> HeldSeat:
    seat = a_seat("here", *([a_gpu_seat(0, parts)] if parts else []), charge_parts=parts if charge is None else charge)
    return HeldSeat("id", user, seat, NOW + after * HOUR, NOW + (after + hours) * HOUR, team)


def ledger(*seats: HeldSeat, by: LedgerBy = LedgerBy.USER, weights: Weights = Weights(), askers=(), uses=None, counts=None) -> Ledger:
    return fair_ledger(Past(seats, frozenset(askers), uses or {}, counts or {}), weights, by, SINCE, UNTIL)


def hours(row: LedgerRow) -> tuple[float, float, float]:
    return tuple(gpu_seconds(what) / 3600 for what in (row.held, row.entitled, row.ahead))


def rows(found: Ledger) -> dict[str, LedgerRow]:
    return {row.name: row for row in found.rows}


def test_two_alike_are_entitled_to_half_of_what_was_held_each():
    found = rows(ledger(held("ann", 6), held("bob", 2)))
    assert hours(found["ann"]) == (6, 4, 2)
    assert hours(found["bob"]) == (2, 4, -2)


def test_whoever_is_furthest_behind_comes_first():
    assert [row.name for row in ledger(held("ann", 6), held("bob", 2), held("eve", 1)).rows] == ["eve", "bob", "ann"]


def test_teams_come_first_and_users_within_them():
    """Two in a team have half of its half each; one without a team is a team of their own."""
    seats = [held("ann", 1, "nlp"), held("bob", 1, "nlp"), held("eve", 2)]
    found = rows(ledger(*seats))
    assert [hours(found[name])[1] for name in ("ann", "bob", "eve")] == [1, 1, 2]
    teams = rows(ledger(*seats, by=LedgerBy.TEAM))
    assert {name: hours(row)[:2] for name, row in teams.items()} == {"nlp": (2, 2), "user:eve": (2, 2)}


def test_weights_are_the_teams_then_the_users():
    weights = Weights(teams={"nlp": 3.0}, users={"ann": 2.0})
    found = rows(ledger(held("ann", 4, "nlp"), held("bob", 4, "nlp"), held("eve", 4), weights=weights))
    assert [hours(found[name])[1] for name in ("ann", "bob", "eve")] == [6, 3, 3]


def test_one_who_asked_and_got_nothing_is_behind_and_one_who_did_not_ask_is_not_there():
    found = rows(ledger(held("ann", 6), askers=[Member("ann", None), Member("bob", None)]))
    assert hours(found["bob"]) == (0, 3, -3)
    assert set(found) == {"ann", "bob"}


def test_one_who_needs_no_gpu_is_charged_and_entitled_to_none():
    found = rows(ledger(held("ann", 6), held("cpu", 6, parts=0, charge=PARTS // 2)))
    assert hours(found["cpu"]) == (0, 0, 0)
    assert gpu_seconds(found["cpu"].charged) == 3 * 3600
    assert hours(found["ann"]) == (6, 6, 0)


def test_only_what_lies_in_between_counts():
    found = rows(ledger(held("ann", 4, after=-2), held("ann", 4, after=8), held("bob", 4, after=20)))
    assert hours(found["ann"]) == (4, 4, 0)
    assert "bob" not in found


def test_one_who_holds_for_two_teams_has_one_row_as_a_user_and_two_as_teams():
    seats = [held("ann", 2, "nlp"), held("ann", 4, "vision")]
    [row] = ledger(*seats).rows
    assert (hours(row), row.team) == ((6, 6, 0), None)
    assert {name: hours(row)[0] for name, row in rows(ledger(*seats, by=LedgerBy.TEAM)).items()} == {"nlp": 2, "vision": 4}


def test_use_is_not_guessed_for_a_team_of_which_one_held_for_another_too():
    seats = [held("ann", 2, "nlp"), held("bob", 2, "nlp"), held("bob", 1, "vision")]
    uses = {"ann": Use(3600.0, 60.0), "bob": Use(1800.0, 0.0)}
    assert rows(ledger(*seats, uses=uses))["bob"].use == Use(1800.0, 0.0)
    teams = rows(ledger(*seats, uses=uses, by=LedgerBy.TEAM))
    assert teams["nlp"].use == Use(3600.0, 60.0 + 2 * 3600)
    assert teams["vision"].use == Use(None, 3600.0)


def test_what_befell_their_sessions_is_counted_for_users_and_teams():
    ann, bob = Member("ann", "nlp"), Member("bob", "nlp")
    counts = {(ann, "lent"): 2, (bob, "lent"): 1, (bob, "preempted"): 4}
    assert dict(rows(ledger(held("ann", 1, "nlp"), counts=counts))["ann"].counts)["lent"] == 2
    [team] = ledger(held("ann", 1, "nlp"), held("bob", 1, "nlp"), counts=counts, by=LedgerBy.TEAM).rows
    assert (dict(team.counts)["lent"], dict(team.counts)["preempted"]) == (3, 4)


def test_nothing_held_by_nobody_is_an_empty_ledger():
    assert ledger().rows == ()


@pytest.mark.parametrize("weight", [0.0, 1e-300])
def test_a_share_of_nothing_leaves_what_others_do_not_want(weight: float):
    weights = Weights(users={"ann": weight})
    assert hours(ledger(held("ann", 6), weights=weights).rows[0]) == (6, 6, 0)
    found = rows(ledger(held("ann", 6), held("bob", 6), weights=weights))
    assert hours(found["bob"])[1] == pytest.approx(12)


members = st.builds(Member, st.sampled_from("abcdef"), st.sampled_from([None, "nlp", "vision", "a"]))
weight = st.floats(0, 1e6, allow_nan=False)


@given(
    st.lists(members, min_size=1, unique=True), st.integers(0, 10**24),
    st.builds(Weights, st.dictionaries(st.sampled_from(["nlp", "vision"]), weight), st.dictionaries(st.sampled_from("abc"), weight)),
)  # fmt: skip
def test_entitlements_add_up_to_all_that_was_held(them: list[Member], total: int, weights: Weights):
    entitled = entitlements(them, total, weights)
    assert sum(entitled.values()) == total
    assert min(entitled.values()) >= 0


@given(st.lists(st.tuples(members, st.floats(-5, 15), st.floats(0, 9), st.integers(0, 8 * PARTS)), max_size=20), st.sampled_from(LedgerBy))
def test_what_is_ahead_of_some_is_behind_of_others_to_the_last_part(drawn, by: LedgerBy):
    seats = [held(member.user, length, member.team, parts, after) for member, after, length, parts in drawn]
    found = ledger(*seats, by=by)
    assert sum(row.ahead for row in found.rows) == 0
    assert sum(row.held for row in found.rows) == sum(row.entitled for row in found.rows)
