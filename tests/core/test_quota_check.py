"""Quotas before anybody waits: which are sound, what their notes say, and what a share comes to of each kind of GPU."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.errors import BadInput, QuotaExceeded
from gpufairy.core.quota import Allowances, parts_of_kind
from gpufairy.core.quota_check import check_alone, check_sound, notes_on
from gpufairy.core.quota_rules import Bound, Over, Quota, Rule, rules_for, subject
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS, parse_share
from gpufairy.core.week_use import WeekUse
from scenes import A100_CUTS, GIB, NOW, a_gpu, a_node, a_session

HOUR = timedelta(hours=1)
ANN = "user:ann"


def a_node_of(*kinds):
    return replace(a_node(gpus=0, cpus=64), gpus=tuple(a_gpu(n, kind=kind) for n, kind in enumerate(kinds)))


def a_seat(gpus=1, kind="A100-40GB"):
    return Seat("gpu01", 1000, GIB, tuple(GpuSeat(n, f"GPU-{n}", PARTS, GIB, kind) for n in range(gpus)))


def left_of(*quotas, holding=(), nodes=(), now=NOW):
    return Allowances(quotas, holding, WeekUse(), now, nodes)


@pytest.mark.parametrize(
    "quota",
    [
        Quota(ANN, gpu_parts=PARTS), Quota(ANN, gpu_parts=0), Quota(ANN, gpu_hours_week=5.0), Quota(ANN, gpu_hours_week=0.0),
        Quota(ANN, sessions=3), Quota(ANN, sessions=0), Quota(ANN, disk_bytes=GIB), Quota("user:*", disk_bytes=GIB),
        Quota(ANN, gpu_parts=PARTS, gpu_hours_week=5.0), Quota(ANN, gpu_parts=0, gpu_hours_week=0.0),
        Quota(ANN, gpu_parts=PARTS, sessions=1), Quota(ANN, gpu_parts=0, sessions=0), Quota(ANN, gpu_hours_week=0.0, sessions=0),
        Quota(ANN, gpu_parts=PARTS, disk_bytes=GIB), Quota("team:nlp", "A100", gpu_parts=PARTS),
        Quota("team:nlp", gpu_parts=PARTS, gpu_hours_week=5.0, sessions=2),
    ],
)  # fmt: skip
def test_a_quota_that_bounds_something_is_sound(quota):
    check_sound(quota)


@pytest.mark.parametrize(
    ("quota", "found"),
    [
        (Quota(ANN), "found no bound"),
        (Quota("team:nlp", disk_bytes=GIB), "disk is of users, not of teams or kinds of GPU"),
        (Quota(ANN, "A100", disk_bytes=GIB), "disk is of users, not of teams or kinds of GPU"),
        (Quota(ANN, gpu_parts=PARTS, gpu_hours_week=0.0), "1 GPUs and 0 GPU-hours a week contradict"),
        (Quota(ANN, gpu_parts=0, gpu_hours_week=5.0), "0 GPUs and 5 GPU-hours a week contradict"),
        (Quota(ANN, gpu_parts=PARTS, sessions=0), "no sessions, but GPUs"),
        (Quota(ANN, gpu_hours_week=5.0, sessions=0), "no sessions, but GPU-hours"),
    ],
)
def test_a_quota_that_says_nothing_or_two_things_is_refused_in_words(quota, found):
    with pytest.raises(BadInput) as refused:
        check_sound(quota)
    assert refused.value.detail == f"quota of {quota.of}: {found}"


def test_a_note_is_made_of_every_bound_that_another_leaves_unused():
    other = Quota("team:nlp", gpu_parts=PARTS, gpu_hours_week=5.0, sessions=2)
    own = Quota(ANN, gpu_parts=2 * PARTS, gpu_hours_week=9.0, sessions=3)
    said = [note.partition(" by ")[0] for note in notes_on(own, (other, own), "nlp")]
    assert said == ["1 GPUs", "5 GPU-hours a week", "2 sessions"]


def test_no_note_is_made_of_bounds_that_are_alike_or_that_one_of_them_has_not():
    own = Quota(ANN, gpu_parts=2 * PARTS, sessions=3)
    alike = Quota("team:nlp", gpu_parts=2 * PARTS, gpu_hours_week=1.0, sessions=3)
    assert notes_on(own, (alike, own), "nlp") == []
    assert notes_on(own, (Quota("team:nlp", gpu_hours_week=1.0), own), "nlp") == []


def test_no_note_is_made_of_a_quota_of_another_kind_of_gpu():
    v100, a100 = Quota(ANN, "V100", gpu_parts=PARTS), Quota(ANN, "A100", gpu_parts=2 * PARTS)
    any_kind = Quota(ANN, gpu_parts=4 * PARTS)
    assert notes_on(a100, (v100, a100), None) == []
    assert notes_on(any_kind, (v100, any_kind), None) == [], "of one kind there may be less than of all"


def test_a_team_is_told_of_its_own_quotas_alone():
    any_kind, a100 = Quota("team:nlp", gpu_parts=PARTS), Quota("team:nlp", "A100", gpu_parts=2 * PARTS)
    others = Quota("team:vision", gpu_parts=PARTS // 2)
    said = "1 GPUs by the quota of team:nlp, any kind: that one, the smaller, counts"
    assert notes_on(a100, (any_kind, a100, others), None) == [said]


def test_a_quota_that_is_set_anew_is_not_compared_with_what_it_was():
    before, after = Quota(ANN, gpu_parts=PARTS), Quota(ANN, gpu_parts=2 * PARTS)
    assert notes_on(after, (before,), None) == []


def test_a_kind_of_the_team_is_named_in_a_note():
    team, own = Quota("team:nlp", "A100", gpu_parts=PARTS), Quota(ANN, "A100", gpu_parts=2 * PARTS)
    assert notes_on(own, (team, own), "nlp")[0].startswith("1 GPUs by the quota of team:nlp, A100:")


@pytest.mark.parametrize(
    ("quota", "found", "next_step"),
    [
        (Quota(ANN, sessions=1), "ann may have 1 session at once; 2 asked", "Ask for fewer at once"),
        (
            Quota(ANN, "A100", sessions=1),
            "ann may have 1 session with A100 GPUs at once; 2 asked",
            "Ask for fewer",
        ),
        (Quota(ANN, "A100", gpu_hours_week=0.0), "ann may hold no A100 GPUs; 2 asked", "With --preemptible"),
        (
            Quota(ANN, "A100", gpu_parts=PARTS),
            "ann may hold 1 A100 GPU at once; 2 asked",
            "Ask for 1 or fewer",
        ),
    ],
)
def test_one_that_can_never_start_is_told_by_which_quota_and_what_to_do(quota, found, next_step):
    with pytest.raises(QuotaExceeded) as refused:
        check_alone(a_session(gang="g", gang_size=2), (quota,), [a_node(gpus=8)])
    assert refused.value.detail == f"quota: {found}"
    assert refused.value.next_step.startswith(next_step)


@pytest.mark.parametrize(
    ("share", "fields", "parts"),
    [
        ("2", {}, 2 * PARTS),
        ("0.5", {"fgpu_parts": 5 * PARTS}, PARTS // 2),
        ("1fgpu", {"fgpu_parts": 5 * PARTS}, PARTS // 5),
        ("0.000001fgpu", {"fgpu_parts": 5 * PARTS}, 1),
        ("mig:3g.20gb", {"mig": A100_CUTS}, 3 * PARTS // 7),
        ("mig:3g.20gb", {}, 0),
        ("mig:4g.40gb", {"mig": A100_CUTS}, 0),
    ],
)
def test_what_a_share_is_of_a_gpu(share, fields, parts):
    assert parts_of_kind(parse_share(share), a_gpu(**fields)) == parts


def test_of_a_kind_that_comes_in_two_sorts_the_least_that_is_taken_counts():
    small, large = a_gpu(0, fgpu_parts=PARTS), a_gpu(1, fgpu_parts=4 * PARTS)
    node = replace(a_node(gpus=0), gpus=(small, large))
    quota = Quota(ANN, "A100", gpu_parts=PARTS // 4)
    assert left_of(quota, nodes=[node]).refusal_anywhere(a_session(gpus="1fgpu")) is None
    assert left_of(quota, nodes=[node]).refusal_anywhere(a_session(gpus="1.1fgpu")) is not None


@pytest.mark.parametrize(
    ("quota", "concerned"),
    [
        (Quota(ANN, "A100", gpu_parts=0), True), (Quota("user:*", "A100", gpu_parts=0), True),
        (Quota("team:nlp", "A100", gpu_parts=0), True), (Quota("team:*", "A100", gpu_parts=0), True),
        (Quota("user:bob", "A100", gpu_parts=0), False), (Quota("team:vision", "A100", gpu_parts=0), False),
        (Quota(ANN, gpu_parts=0), False),
    ],
)  # fmt: skip
def test_a_kind_is_closed_only_by_quotas_that_are_about_them(quota, concerned):
    assert left_of(quota).concerns("ann", "nlp") is concerned


def test_a_quota_is_used_up_by_as_much_as_it_says_and_by_no_part_more():
    left = left_of(Quota(ANN, gpu_parts=2 * PARTS))
    assert left.refusal(a_session(), a_seat(2)) is None
    assert left.refusal(a_session(), a_seat(3)) is not None


def test_hours_are_used_up_when_so_many_were_held():
    quota = Quota(ANN, gpu_hours_week=2.0)
    held = replace(a_session("held"), seat=a_seat(), placed_at=NOW - 2 * HOUR)
    assert left_of(quota, holding=[held]).refusal(a_session(), a_seat()) is not None
    assert (
        left_of(quota, holding=[held], now=NOW - timedelta(seconds=1)).refusal(a_session(), a_seat()) is None
    )


def test_who_asks_for_no_gpu_is_under_no_quota_of_gpus_and_under_that_of_sessions():
    nothing = Quota(ANN, gpu_parts=0, gpu_hours_week=0.0)
    assert left_of(nothing).refusal(a_session(gpus="0"), a_seat(0)) is None
    assert left_of(Quota(ANN, sessions=0)).refusal(a_session(gpus="0"), a_seat(0)) is not None
    assert left_of(Quota(ANN, "A100", sessions=0)).refusal(a_session(gpus="0"), a_seat(0)) is None


def test_a_session_that_has_been_placed_at_no_known_time_counts_since_its_last_change():
    quota = Quota(ANN, gpu_hours_week=9.0)
    held = replace(a_session("held"), seat=a_seat(), placed_at=None, since=NOW - 3 * HOUR)
    assert left_of(quota, holding=[held]).used(Rule(ANN, quota)).gpu_seconds == 3 * 3600


def test_a_seat_of_the_time_to_come_counts_for_no_time():
    quota = Quota(ANN, gpu_hours_week=9.0)
    held = replace(a_session("held"), seat=a_seat(), placed_at=NOW + HOUR)
    assert left_of(quota, holding=[held]).used(Rule(ANN, quota)).gpu_seconds == 0.0


def test_a_seat_held_for_longer_than_a_week_counts_for_a_week():
    quota = Quota(ANN, gpu_hours_week=9.0)
    held = replace(a_session("held"), seat=a_seat(), placed_at=NOW - 1000 * HOUR)
    assert left_of(quota, holding=[held]).used(Rule(ANN, quota)).gpu_seconds == 7 * 24 * 3600


def test_one_kind_that_is_open_is_enough_and_of_closed_ones_the_first_is_told():
    nodes = [a_node_of("A100-40GB", "V100")]
    a100, v100 = Quota(ANN, "A100", gpu_parts=0), Quota(ANN, "V100", gpu_parts=0)
    assert left_of(a100, nodes=nodes).refusal_anywhere(a_session()) is None
    told = left_of(a100, v100, nodes=nodes).refusal_anywhere(a_session())
    assert told.startswith("ann holds 0 of their 0 A100 GPUs; 1 asked")


def test_a_quota_of_any_kind_closes_no_single_gpu():
    assert left_of(Quota(ANN, gpu_parts=0), nodes=[a_node()]).closed(a_session()) == {}


@pytest.mark.parametrize(
    ("who", "named"), [("user:ann", "ann"), ("team:nlp", "team nlp"), ("team:a:b", "team a:b")]
)
def test_whom_a_quota_is_about_in_words(who, named):
    assert subject(who) == named


@pytest.mark.parametrize(
    ("over", "why"),
    [
        (
            Over(Rule("team:nlp", Quota("team:nlp", "A100", sessions=2)), Bound.SESSIONS, 2, 2, 1),
            "team nlp has 2 of its 2 sessions with A100 GPUs at once. It starts when one of the team's ends.",
        ),
        (
            Over(Rule(ANN, Quota(ANN, sessions=2)), Bound.SESSIONS, 2, 2, 1),
            "ann has 2 of their 2 sessions at once. It starts when one of theirs ends.",
        ),
        (
            Over(Rule(ANN, Quota(ANN, "A100", gpu_parts=PARTS)), Bound.GPUS, 1, 0.5, 1),
            "ann holds 0.5 of their 1 A100 GPUs; 1 asked. It starts when one of theirs ends; with --preemptible it may borrow.",
        ),
    ],
)
def test_who_waits_for_a_quota_is_told_whose_and_how_much_is_used(over, why):
    assert over.why == why


def test_ones_own_quota_of_a_kind_takes_the_place_of_that_for_each_and_of_no_other():
    each, each_a100 = Quota("user:*", gpu_parts=PARTS), Quota("user:*", "A100", gpu_parts=PARTS)
    own, team = Quota(ANN, gpu_parts=2 * PARTS), Quota("team:*", sessions=1)
    found = rules_for((each, each_a100, own, team, Quota("user:bob", gpu_parts=0)), "ann", "nlp")
    assert found == (Rule(ANN, own), Rule(ANN, each_a100), Rule("team:nlp", team))
    assert rules_for((team,), "ann", None) == ()


def test_a_kind_of_which_one_session_may_be_held_is_open_until_that_one_is():
    quota, nodes = Quota(ANN, "A100", sessions=1), [a_node()]
    held = replace(a_session("held"), seat=a_seat(), placed_at=NOW)
    assert left_of(quota, nodes=nodes).closed(a_session()) == {}
    assert list(left_of(quota, holding=[held], nodes=nodes).closed(a_session())) == ["GPU-gpu01-0"]


def test_a_session_without_gpu_counts_as_a_session_of_any_kind_and_of_no_single_one():
    held = replace(a_session("held", "0"), seat=a_seat(0), placed_at=NOW)
    any_kind, a100 = Quota(ANN, sessions=1), Quota(ANN, "A100", sessions=1)
    left = left_of(any_kind, a100, holding=[held])
    assert (left.used(Rule(ANN, any_kind)).sessions, left.used(Rule(ANN, a100)).sessions) == (1, 0)
