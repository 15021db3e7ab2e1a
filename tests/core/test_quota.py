"""Quotas: who is over waits and is told by which; preemptible sessions borrow; a week slides, exact to the hold."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput, QuotaExceeded
from gpufairy.core.ledger import Hold
from gpufairy.core.plan import plan
from gpufairy.core.priority import parse_priority, show_priority
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_check import check_alone, check_sound, notes_on
from gpufairy.core.quota_rules import Quota, Rule, rules_for
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.team import checked_share
from gpufairy.core.week_use import WEEK, WeekUse
from scenes import GIB, NOW, a_cluster, a_gpu, a_node, a_session, names, seated

HOUR = timedelta(hours=1)


def a_mixed_node(**kinds):
    gpus = [kind for kind, count in kinds.items() for _ in range(count)]
    return replace(a_node(gpus=0, cpus=64), gpus=tuple(a_gpu(index, kind=kind) for index, kind in enumerate(gpus)))


def a_seat(gpus=1, kind="A100-40GB", **fields):
    return Seat("gpu01", 1000, GIB, tuple(GpuSeat(n, f"GPU-{n}", PARTS, GIB, kind, **fields) for n in range(gpus)))


def held(session, seat, hours=1.0):
    return replace(session, seat=seat, placed_at=NOW - hours * HOUR)


def why_of(made, session):
    return [refusal.why for refusal in made.refusals_of(session)]


def test_who_holds_as_much_as_their_quota_waits_and_is_told_by_which():
    nodes = [a_node(gpus=4)]
    running = seated([a_session("one", "2", team="nlp")], nodes)
    waiting = [a_session("two", "2", owner="bob", team="nlp"), a_session("other", "2", owner="cy")]
    made = plan(a_cluster(nodes, waiting, running, quotas=(Quota("team:nlp", gpu_parts=3 * PARTS),)), NOW)
    assert names(made) == ["other"]
    assert why_of(made, waiting[0]) == [
        "team nlp holds 2 of its 3 GPUs; 2 asked. It starts when one of the team's ends; with --preemptible it may borrow."
    ]
    assert made.promises == ()  # no room would help, so none is kept


def test_what_one_team_may_not_have_says_nothing_of_the_same_owner_s_other_team():
    nodes = [a_node(gpus=4)]
    held_by_nlp = seated([a_session("held", owner="zoe", team="nlp")], nodes)
    first, second, other = a_session("first", team="nlp"), a_session("second", team="nlp"), a_session("other", team="vision")
    made = plan(a_cluster(nodes, [first, second, other], held_by_nlp, quotas=(Quota("team:nlp", gpu_parts=PARTS),)), NOW)
    assert names(made) == ["other"]
    assert why_of(made, second) == why_of(made, first)
    assert why_of(made, first)[0].startswith("team nlp holds 1 of its 1 GPUs")


def test_a_quota_binds_while_a_plan_is_made_too():
    waiting = [a_session(f"s{n}") for n in range(4)]
    made = plan(a_cluster([a_node(gpus=4)], waiting, quotas=(Quota("user:ann", gpu_parts=2 * PARTS),)), NOW)
    assert names(made) == ["s0", "s1"]
    assert why_of(made, waiting[3])[0].startswith("ann holds 2 of their 2 GPUs; 1 asked. It starts when one of theirs ends")


def test_the_quota_for_each_is_counted_for_each_and_gives_way_to_ones_own():
    waiting = [a_session(f"{owner}-{n}", owner=owner) for owner in ("ann", "bob", "cy") for n in range(3)]
    quotas = (Quota("user:*", gpu_parts=PARTS), Quota("user:bob", gpu_parts=2 * PARTS))
    made = plan(a_cluster([a_node(gpus=8)], waiting, quotas=quotas), NOW)
    assert sorted(names(made)) == ["ann-0", "bob-0", "bob-1", "cy-0"]


def test_preemptible_sessions_borrow_beyond_a_quota_of_gpus_but_not_of_sessions():
    waiting = [a_session(f"s{n}", preemptible=True) for n in range(4)] + [a_session("own")]
    quotas = (Quota("user:ann", gpu_parts=PARTS, gpu_hours_week=1.0, sessions=3),)
    made = plan(a_cluster([a_node(gpus=8)], waiting, quotas=quotas), NOW)
    assert len(made.placed) == 3
    assert why_of(made, waiting[3]) == ["ann has 3 of their 3 sessions at once. It starts when one of theirs ends."]
    lent = plan(a_cluster([a_node(gpus=8)], waiting, quotas=(Quota("user:ann", gpu_parts=PARTS),)), NOW)
    assert sorted(names(lent)) == ["own", "s0", "s1", "s2", "s3"]  # what is borrowed counts for nothing


def test_gpu_hours_of_the_last_seven_days_count_and_seats_held_now_up_to_now():
    week, quota = WeekUse(), Quota("user:ann", gpu_hours_week=10.0)
    week.add("ann", None, a_seat(2), NOW - 4 * HOUR, NOW - 1 * HOUR)
    now_held = held(a_session("running"), a_seat(1), hours=3.9)
    allowances = Allowances((quota,), [now_held], week, NOW)
    assert allowances.used(Rule("user:ann", quota)).gpu_seconds == pytest.approx(9.9 * 3600)
    assert allowances.refusal(a_session(), a_seat()) is None
    later = Allowances((quota,), [now_held], week, NOW + HOUR)
    assert later.refusal(a_session(), a_seat()) == (
        "ann held 10.9 GPU-hours in the last 7 days, their quota is 10. "
        "It starts when enough of them lie more than a week back; with --preemptible it may borrow."
    )
    assert later.refusal(a_session(preemptible=True), a_seat()) is None
    assert Allowances((quota,), [], week, NOW + WEEK).refusal(a_session(), a_seat()) is None


def test_a_hold_is_cut_at_the_edge_of_the_week():
    week = WeekUse()
    week.add("ann", "nlp", a_seat(2), NOW - WEEK - 2 * HOUR, NOW - WEEK + 3 * HOUR)
    assert week.gpu_seconds("user:ann", lambda _: True, NOW) == pytest.approx(2 * 3 * 3600)
    assert week.gpu_seconds("team:nlp", lambda _: True, NOW + 2 * HOUR) == pytest.approx(2 * 3600)
    assert week.gpu_seconds("team:nlp", lambda _: True, NOW + 4 * HOUR) == 0


HOLDS = st.tuples(st.integers(-20 * 24, 24), st.integers(-5, 100), st.sampled_from(["A100-40GB", "H200-141GB"]), st.integers(1, 3))


@given(st.lists(HOLDS, max_size=60), st.integers(-3 * 24, 30 * 24))
def test_the_sliding_week_is_what_a_sum_over_all_holds_says_and_never_negative(holds, now_h):
    week, now, expected = WeekUse(), NOW + now_h * HOUR, 0.0
    for since_h, length_h, kind, gpus in sorted(holds, key=lambda one: one[0] + one[1]):
        since, until = NOW + since_h * HOUR, NOW + (since_h + length_h) * HOUR
        week.add_hold(Hold(a_session(), a_seat(gpus, kind), since, until))
        if kind == "A100-40GB" and until > NOW - 2 * WEEK + 200 * HOUR:
            expected += gpus * max(0.0, (min(until, now) - max(since, now - WEEK)).total_seconds())
    found = week.gpu_seconds("user:ann", lambda kind: kind == "A100-40GB", now)
    assert found >= 0
    if now >= NOW + 124 * HOUR:  # what lies further back may have been dropped
        assert found == pytest.approx(expected)


def test_borrowed_time_is_no_part_of_the_week():
    week = WeekUse()
    week.add_hold(Hold(a_session(preemptible=True), a_seat(), NOW - HOUR, NOW))
    assert week.gpu_seconds("user:ann", lambda _: True, NOW) == 0


def test_a_quota_of_one_kind_closes_that_kind_alone():
    node = a_mixed_node(**{"A100-40GB": 2, "V100": 2})
    quotas = (Quota("team:nlp", "A100", gpu_parts=PARTS),)
    holding = [held(a_session("holds", team="nlp"), a_seat(1))]
    allowances = Allowances(quotas, holding, WeekUse(), NOW, [node])
    why = "team nlp holds 1 of its 1 A100 GPUs; 1 asked. It starts when one of the team's ends; with --preemptible it may borrow."
    asks = a_session("asks", team="nlp")
    assert allowances.closed(asks) == {gpu.uuid: why for gpu in node.gpus[:2]}
    assert allowances.refusal_anywhere(asks) is None
    assert allowances.refusal_anywhere(a_session("picky", team="nlp", gpu_kind="A100")) == why
    assert allowances.refusal(asks, a_seat(1)) == why
    assert allowances.refusal(asks, a_seat(1, "V100")) is None
    assert allowances.closed(a_session("other", owner="bob")) == {}


def test_another_kind_is_still_open_to_one_who_is_over_the_quota_of_a_kind():
    node = a_mixed_node(**{"A100-40GB": 2, "V100": 2})
    waiting = [a_session(f"s{n}") for n in range(4)]
    made = plan(a_cluster([node], waiting, quotas=(Quota("user:ann", "A100", gpu_parts=PARTS),)), NOW)
    assert sorted(gpu.kind for placed in made.placed for gpu in placed.seat.gpus) == ["A100-40GB", "V100", "V100"]


def test_a_part_of_a_gpu_counts_by_the_larger_of_its_two_parts():
    quota = Quota("user:ann", gpu_parts=PARTS)
    seat = Seat("gpu01", 0, 0, (GpuSeat(0, "GPU-0", PARTS // 10, GIB, "A100-40GB", memory_parts=PARTS * 9 // 10),))
    allowances = Allowances((quota,), [held(a_session(), seat)], WeekUse(), NOW)
    assert allowances.used(Rule("user:ann", quota)).gpu_parts == PARTS * 9 // 10
    assert allowances.refusal(a_session(), seat).startswith("ann holds 0.9 of their 1 GPUs; 0.9 asked.")


def test_a_seat_taken_back_frees_the_quota_again():
    allowances = Allowances((Quota("user:ann", gpu_parts=PARTS, sessions=1),), [], WeekUse(), NOW)
    session = a_session()
    allowances.placed(session, a_seat())
    assert allowances.refusal(session, a_seat()) is not None
    allowances.placed(session, a_seat(), -1)
    assert allowances.refusal(session, a_seat()) is None


@given(
    st.lists(st.builds(lambda owner, team, gpus: a_session(owner=owner, team=team, gpus=gpus), st.sampled_from("ab"), st.sampled_from([None, "t"]),
                       st.sampled_from(["0", "0.5", "1", "2"])), max_size=25),
    st.lists(st.builds(Quota, st.sampled_from(["user:a", "user:*", "team:t", "team:*"]), st.sampled_from(["*", "A100"]),
                       st.sampled_from([None, 0, PARTS, 3 * PARTS]), st.just(None), st.sampled_from([None, 1, 4])), max_size=4),
)  # fmt: skip
def test_no_plan_goes_over_a_quota(waiting, quotas):
    quotas = tuple({(quota.of, quota.gpu_kind): quota for quota in quotas}.values())
    made = plan(a_cluster([a_node(gpus=8, cpus=64)], waiting, quotas=quotas), NOW)
    for owner in "ab":
        for team in (None, "t"):
            for rule in rules_for(quotas, owner, team):
                mine = [p for p in made.placed if rule.who in (f"user:{p.session.owner}", f"team:{p.session.team}")]
                on_kind = [p for p in mine if rule.quota.gpu_kind == "*" or p.seat.gpus]
                assert rule.quota.sessions is None or len(on_kind) <= rule.quota.sessions
                assert rule.quota.gpu_parts is None or sum(p.seat.gpu_parts for p in on_kind) <= rule.quota.gpu_parts
    told = {p.session.id for p in made.placed} | {s.id for s in waiting if made.refusals_of(s)}
    assert told == {session.id for session in waiting}


@pytest.mark.parametrize(
    ("fields", "quota", "found"),
    [
        ({"gpus": "8"}, Quota("user:ann", gpu_parts=4 * PARTS), "quota: ann may hold 4 GPUs at once; 8 asked"),
        ({"gpus": "2", "team": "nlp"}, Quota("team:*", gpu_parts=PARTS), "quota: team nlp may hold 1 GPU at once; 2 asked"),
        ({"gpus": "2", "gpu_kind": "A100"}, Quota("user:*", "A100", PARTS), "quota: ann may hold 1 A100 GPU at once; 2 asked"),
        ({"gang": "g", "gang_size": 8}, Quota("user:ann", gpu_parts=4 * PARTS), "quota: ann may hold 4 GPUs at once; 8 asked"),
        ({"gang": "g", "gang_size": 8, "gpus": "0"}, Quota("user:ann", sessions=4), "quota: ann may have 4 sessions at once; 8 asked"),
        ({"gpus": "0.5"}, Quota("user:ann", gpu_hours_week=0.0), "quota: ann may hold no GPUs; 0.5 asked"),
        ({"gpus": "mig:3g.20gb"}, Quota("user:ann", gpu_parts=PARTS // 4), "quota: ann may hold 0.25 GPUs at once; 0.428571 asked"),
    ],
)
def test_what_alone_is_over_a_quota_is_refused_at_the_door(fields, quota, found):
    nodes = [a_node(gpus=16, mig=fields.get("gpus", "").startswith("mig"))]
    with pytest.raises(QuotaExceeded) as refused:
        check_alone(a_session(**fields), (quota,), nodes)
    assert refused.value.detail == found
    assert refused.value.next_step
    check_alone(a_session(**{"gpus": "0", **{k: v for k, v in fields.items() if k == "team"}}), (quota,), nodes)


def test_what_may_borrow_or_go_to_another_kind_or_start_later_is_let_in():
    nodes = [a_mixed_node(**{"A100-40GB": 4, "V100": 4})]
    check_alone(a_session(gpus="4", preemptible=True), (Quota("user:ann", gpu_parts=PARTS),), nodes)
    check_alone(a_session(gpus="4"), (Quota("user:ann", "A100", gpu_parts=PARTS),), nodes)
    check_alone(a_session(gpus="4", time_limit=WEEK), (Quota("user:ann", gpu_hours_week=1.0),), nodes)


@pytest.mark.parametrize(
    "quota",
    [
        Quota("user:ann"), Quota("user:ann", gpu_parts=PARTS, gpu_hours_week=0.0), Quota("user:ann", gpu_parts=0, gpu_hours_week=5.0),
        Quota("user:ann", gpu_parts=PARTS, sessions=0),
    ],
)  # fmt: skip
def test_a_quota_that_says_nothing_or_its_own_contrary_is_refused(quota):
    with pytest.raises(BadInput, match=r"quota of user:ann: "):
        check_sound(quota)


def test_the_smaller_of_two_quotas_counts_and_a_note_says_so():
    team, own = Quota("team:nlp", gpu_parts=4 * PARTS), Quota("user:ann", gpu_parts=8 * PARTS, sessions=5)
    kind = Quota("user:ann", "A100", gpu_parts=9 * PARTS)
    assert notes_on(own, (team, own), "nlp") == ["4 GPUs by the quota of team:nlp, any kind: that one, the smaller, counts"]
    assert notes_on(own, (team, own), None) == []
    assert notes_on(kind, (own, kind), None) == ["8 GPUs by the quota of user:ann, any kind: that one, the smaller, counts"]
    assert notes_on(team, (team, own), None) == []


@pytest.mark.parametrize(("text", "number"), [("high", 10), ("Normal", 0), ("low", -10), ("7", 7), (-100, -100), ("+3", 3), (0, 0)])
def test_priorities_have_names_beside_numbers(text, number):
    assert parse_priority(text) == number
    assert parse_priority(show_priority(number)) == number


@pytest.mark.parametrize("text", ["", "urgent", "1.5", "101", "-101", "--5", "9" * 50, "٣٣٣٣"])
def test_what_is_no_priority_is_refused_with_what_is(text):
    with pytest.raises(BadInput, match="priority") as refused:
        parse_priority(text)
    assert "high, normal or low" in refused.value.next_step


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf"), 1e-9, 1e12])
def test_shares_that_are_nothing_negative_or_no_number_are_refused(share):
    with pytest.raises(BadInput, match="share: "):
        checked_share(share)


def test_a_preemptible_seat_that_is_held_counts_as_a_session_and_as_no_gpu_nor_time():
    quota = Quota("user:ann", gpu_parts=2 * PARTS, gpu_hours_week=5.0, sessions=9)
    borrowed = held(a_session("borrowed", preemptible=True), a_seat(2), hours=100)
    used = Allowances((quota,), [borrowed], WeekUse(), NOW).used(Rule("user:ann", quota))
    assert (used.gpu_parts, used.gpu_seconds, used.sessions) == (0, 0.0, 1)


def test_who_borrows_much_still_gets_all_of_their_own():
    nodes = [a_node(gpus=6)]
    borrowed = seated([a_session(f"borrowed-{n}", "2", preemptible=True) for n in range(2)], nodes)
    made = plan(a_cluster(nodes, [a_session("own", "2")], borrowed, quotas=(Quota("user:ann", gpu_parts=2 * PARTS),)), NOW)
    assert names(made) == ["own"]


def test_what_is_held_as_ones_own_counts_beside_what_is_borrowed():
    nodes = [a_node(gpus=6)]
    holding = seated([a_session("own", "2"), a_session("borrowed", "2", preemptible=True)], nodes)
    second = a_session("second")
    made = plan(a_cluster(nodes, [second], holding, quotas=(Quota("user:ann", gpu_parts=2 * PARTS),)), NOW)
    assert names(made) == []
    assert why_of(made, second)[0].startswith("ann holds 2 of their 2 GPUs; 1 asked")


def test_a_borrowed_seat_taken_back_leaves_what_is_ones_own():
    quota = Quota("user:ann", gpu_parts=2 * PARTS)
    own, borrowed = held(a_session("own"), a_seat(1)), held(a_session("borrowed", preemptible=True), a_seat(2))
    left = Allowances((quota,), [own, borrowed], WeekUse(), NOW)
    left.placed(borrowed, borrowed.seat, sign=-1)
    used = left.used(Rule("user:ann", quota))
    assert (used.gpu_parts, used.sessions) == (PARTS, 1)
