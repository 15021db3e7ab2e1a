"""Replaying traces: worked by hand where that can be done, and never over-full, nobody lost, nobody twice, whatever comes."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import GIB, a_gpu, a_node
from gpufairy.core import replay as replay_module
from gpufairy.core.cluster import Weights
from gpufairy.core.errors import BadInput
from gpufairy.core.node import Node
from gpufairy.core.plan import Plan, plan
from gpufairy.core.replay import Replayed, Run, replay
from gpufairy.core.replay_chances import Chances
from gpufairy.core.replay_fairness import dealt_fairly, jain, share_ratios
from gpufairy.core.replay_figures import figures_of
from gpufairy.core.replay_job import Trace, with_limits
from gpufairy.core.replay_pass import plan_without_backfill
from gpufairy.core.replay_rules import KNOWN, Rules, parse_rules
from gpufairy.core.replay_trace import read_trace
from gpufairy.core.replay_world import World
from gpufairy.core.share import PARTS

pytestmark = pytest.mark.slow

START = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def trace(*rows: str, columns: str = "submit_min,duration_min,gpus,user,time_limit_min") -> Trace:
    return read_trace([columns, *rows], "jobs.csv")


def nodes(count: int = 1, gpus: int = 2) -> list[Node]:
    there = [a_node(f"node{number}", gpus, cpus_milli=64_000, memory_bytes=512 * GIB) for number in range(count)]
    return [replace(node, gpus=tuple(replace(gpu, uuid=f"{node.name}-{gpu.index}") for gpu in node.gpus)) for node in there]


def minutes(replayed: Replayed) -> dict[int, tuple[float, float]]:
    """By line, from when to when."""
    return {run.job.line: ((run.start - START) / MINUTE, (run.end - START) / MINUTE) for run in replayed.runs}


# Two GPUs. ann's two jobs fill both; bob wants both, so he is first to wait, and promised minute 60. eve's short job fits
# beside ann's second from minute 30 on, and is over before bob's time; her long one is not.
WORKED = trace("0,30,1,ann,30", "0,60,1,ann,60", "10,20,2,bob,20", "12,25,1,eve,25", "13,50,1,eve,50")


def test_a_short_job_passes_a_wide_one_and_a_long_one_does_not():
    found = replay(WORKED, nodes(), KNOWN["fair"])
    assert minutes(found) == {2: (0, 30), 3: (0, 60), 5: (30, 55), 4: (60, 80), 6: (80, 130)}
    assert [run.job.line for run in found.runs if run.passed] == [5]
    assert found.never == ()


def test_without_backfill_all_wait_behind_the_first():
    found = minutes(replay(WORKED, nodes(), KNOWN["fifo-strict"]))
    assert found == {2: (0, 30), 3: (0, 60), 4: (60, 80), 5: (80, 105), 6: (80, 130)}


def test_fair_lets_the_newcomer_in_before_the_one_who_had_all_and_fifo_does_not():
    jobs = trace("0,60,1,ann,60", "1,60,1,ann,60", "2,60,1,bob,60")
    assert minutes(replay(jobs, nodes(gpus=1), KNOWN["fair"]))[4] == (60, 120)
    assert minutes(replay(jobs, nodes(gpus=1), KNOWN["fifo"]))[4] == (120, 180)


def test_a_larger_share_waits_less():
    jobs = trace(*(f"{number},60,1,{user},60" for number, user in enumerate(["eve", *["ann", "bob"] * 6])))
    found = replay(jobs, nodes(gpus=1), KNOWN["fair"], Weights(users={"bob": 4.0}))
    mean = {user: np.mean([(run.start - run.ready) / MINUTE for run in found.runs if run.job.user == user]) for user in ("ann", "bob")}
    assert mean["bob"] < mean["ann"]


def test_a_quota_of_users_holds_them_back_and_nobody_else():
    jobs = trace("0,60,1,ann,60", "0,60,1,ann,60", "1,60,1,bob,60")
    [limited] = parse_rules("fair:user_gpus=1")
    assert minutes(replay(jobs, nodes(), limited)) == {2: (0, 60), 4: (1, 61), 3: (60, 120)}
    [strict] = parse_rules("fair-no-backfill:user_gpus=1")
    assert minutes(replay(jobs, nodes(), strict)) == {2: (0, 60), 4: (1, 61), 3: (60, 120)}


def test_a_job_ends_when_its_time_is_up():
    found = replay(trace("0,60,1,ann,20"), nodes(), KNOWN["fair"])
    assert minutes(found) == {2: (0, 20)}
    assert figures_of(found).cut_short == 1


def test_what_comes_after_another_waits_for_its_end_and_counts_its_wait_from_there():
    jobs = trace("0,30,1,ann,a,", "0,10,1,ann,b,a", "50,10,1,ann,c,a b", columns="submit_min,duration_min,gpus,user,name,after")
    found = replay(jobs, nodes(), KNOWN["fair"])
    assert minutes(found) == {2: (0, 30), 3: (30, 40), 4: (50, 60)}
    assert figures_of(found).wait_s.most == 0


def test_jobs_that_can_never_start_are_told_with_why_and_do_not_hold_up_others():
    rows = ["0,10,3,ann,big,", "0,10,1,bob,small,", "0,10,1,bob,later,big"]
    jobs = trace(*rows, columns="submit_min,duration_min,gpus,user,name,after")
    found = replay(jobs, nodes(), KNOWN["fair"])
    assert minutes(found) == {3: (0, 10)}
    assert [(job.line, why) for job, why in found.never] == [
        (2, "node0 has 2 of 2 GPUs wholly free, 3 asked"), (4, "what it comes after never ended"),
    ]  # fmt: skip


def test_one_over_a_quota_for_ever_is_told_and_the_replay_ends():
    [limited] = parse_rules("fair:user_gpus=1")
    found = replay(trace("0,10,2,ann,10"), nodes(), limited)
    [(job, why)] = found.never
    assert (job.line, found.runs) == (2, ())
    assert "ann" in why


def test_a_kind_that_no_node_has_is_told():
    jobs = trace("0,10,1,ann,H100", columns="submit,duration,gpus,user,kind")
    [(_, why)] = replay(jobs, nodes(), KNOWN["fair"]).never
    assert why == "node0 has A100-40GB, not H100"
    assert figures_of(replay(jobs, nodes(), KNOWN["fair"])) is None


def test_a_job_of_no_length_comes_and_goes():
    assert minutes(replay(trace("5,0,1,ann,", "5,0,2,ann,"), nodes(), KNOWN["fair"])) == {2: (5, 5), 3: (5, 5)}


def test_figures_of_the_worked_example():
    figures = figures_of(replay(WORKED, nodes(), KNOWN["fair"]))
    assert (figures.jobs, figures.never, figures.passed, figures.sent_away) == (5, 0, 1, 0)
    assert [figures.wait_s.mean, figures.wait_s.p50, figures.wait_s.most] == [27 * 60, 18 * 60, 67 * 60]
    assert figures.completion_s.mean == (30 + 60 + 70 + 43 + 117) / 5 * 60
    assert figures.slowdown.most == pytest.approx(70 / 20)
    assert figures.utilisation == pytest.approx((30 + 60 + 40 + 25 + 50) / (2 * 130))
    assert figures.worst.user == "bob"
    assert figures.span == 130 * MINUTE


def test_limits_are_made_up_only_for_those_who_set_none():
    made = with_limits(trace("0,30,1,ann,", "0,30,1,ann,40"), 2.0)
    assert [job.request.time_limit for job in made.jobs] == [60 * MINUTE, 40 * MINUTE]
    assert "1 jobs set no time limit" in made.notes[0]


rows = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 200), st.sampled_from(["0", "0.25", "0.5", "1", "2", "3", "4"]), st.sampled_from("abcde"),
        st.sampled_from([None, 1.0, 3.0]), st.booleans(), st.integers(0, 1),
    ),
    min_size=1, max_size=40,
)  # fmt: skip
rules = st.sampled_from([*KNOWN.values(), *parse_rules("fair:user_gpus=2,fair:preempt=lower,preempt_after=5m,fair:half_life=1h")])


def drawn_trace(drawn: list[tuple]) -> Trace:
    columns = "submit_min,duration_min,gpus,user,time_limit_min,preemptible,priority"
    return trace(
        *(
            f"{at},{length},{gpus},{user},{'' if factor is None else max(1, length) * factor},{int(preemptible)},{priority}"
            for at, length, gpus, user, factor, preemptible, priority in drawn
        ),
        columns=columns,
    )


def most_held(runs: tuple[Run, ...]) -> dict[str, int]:
    """By GPU the most parts held at once; by node likewise of thousandths of CPUs. Written without a look at rooms."""
    changes: dict[str, list[tuple[datetime, int]]] = {}
    for run in runs:
        for name, amount in [(f"cpus of {run.seat.node}", run.seat.cpus_milli), *((gpu.uuid, gpu.parts) for gpu in run.seat.gpus)]:
            changes.setdefault(name, []).extend([(run.start, amount), (run.end, -amount)])
    found = {}
    for name, those in changes.items():
        now = most = 0
        for _, amount in sorted(those):  # what is given back at a moment comes before what is taken then
            now += amount
            most = max(most, now)
        found[name] = most
    return found


@given(rows, rules)
@settings(max_examples=60, deadline=None)
def test_every_job_ends_once_or_is_told_and_nothing_is_ever_over_full(drawn: list[tuple], by: Rules):
    coming = drawn_trace(drawn)
    found = replay(coming, nodes(2, 3), by)
    ended = [run.job.line for run in found.runs if run.finished]
    never = [job.line for job, _ in found.never]
    assert sorted([*ended, *never]) == sorted(job.line for job in coming.jobs)
    for name, most in most_held(found.runs).items():
        assert most <= (64_000 if name.startswith("cpus") else PARTS), name
    for run in found.runs:
        limit = run.job.request.time_limit
        wanted = run.job.duration if limit is None else min(limit, run.job.duration)
        assert run.start >= run.ready >= run.job.submit
        assert run.end - run.start == wanted if run.finished else run.end - run.start <= wanted


@given(rows, rules)
@settings(max_examples=40, deadline=None)
def test_what_is_left_out_of_passes_would_have_changed_nothing(drawn: list[tuple], by: Rules):
    coming = drawn_trace(drawn)
    quick = replay(coming, nodes(2, 3), by)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chances, "any", lambda chances: True)
        patch.setattr(replay_module, "planned", planned_in_full)
        thorough = replay(coming, nodes(2, 3), by)
    assert (quick.runs, [job for job, _ in quick.never]) == (thorough.runs, [job for job, _ in thorough.never])
    assert quick.passes <= thorough.passes


def planned_in_full(world: World, rules: Rules, now: datetime) -> Plan:
    return (plan if rules.backfill else plan_without_backfill)(world.cluster(), now, world.floor)


def test_users_who_want_all_are_dealt_the_same_and_a_small_wish_is_met_whole():
    dealt = dealt_fairly(np.array([6.0, 6.0]), np.array([[1.0, 9.0, 9.0], [9.0, 9.0, 0.0]]), np.array([1.0, 1.0, 1.0]))
    assert dealt.tolist() == [[1.0, 2.5, 2.5], [3.0, 3.0, 0.0]]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 5)), min_size=1, max_size=8), st.floats(0, 1))
def test_all_of_the_total_is_dealt_and_nobody_gets_more_than_they_want(them: list[tuple[float, float]], part: float):
    wanted, weights = np.array([[want for want, _ in them]]), np.array([weight for _, weight in them])
    total = wanted.sum(axis=1) * part
    dealt = dealt_fairly(total, wanted, weights)
    assert dealt.sum() == pytest.approx(total[0], abs=1e-6)
    assert (dealt <= wanted + 1e-9).all()


def test_shares_are_judged_only_while_somebody_waits():
    even = replay(trace("0,60,1,ann,60", "0,30,1,bob,30"), nodes(), KNOWN["fair"])
    assert share_ratios(even.runs, Weights()) == {}
    assert figures_of(even).share_fairness is None
    waits = replay(trace("0,60,2,ann,60", "0,60,2,bob,60"), nodes(), KNOWN["fair"])
    assert share_ratios(waits.runs, Weights()) == {"ann": 2.0, "bob": 0.0}


def test_jain_is_one_for_all_alike_and_a_part_for_one_who_has_all():
    assert (jain([3, 3, 3]), jain([1, 0, 0, 0]), jain([0, 0])) == (1, 0.25, 1)


def test_policies_are_read_with_their_settings_and_compared_by_commas():
    fair, fifo = parse_rules("fair:half_life=1d,entry_penalty=0, fifo")
    assert (fair.policy.half_life, fair.policy.entry_penalty, fair.turns) == (timedelta(days=1), timedelta(), True)
    assert (fifo.name, fifo.turns, fifo.backfill) == ("fifo", False, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fare", "did you mean fair"), ("fair:halflife=1d", "is no setting"), ("fair:half_life=0", "half_life"),
        ("fair:user_gpus=many", "no GPU share"), ("fifo:user_gpus=2", "no quotas"), ("fair:depth=0", "looks"), ("", "is no policy"),
        ("fair:preempt=all", "found 'all'"), ("half_life=1d", "is no policy"), ("fair:user_gpus=mig:1g.5gb", "no number of GPUs"),
    ],
)  # fmt: skip
def test_a_policy_that_is_none_is_refused_in_words(text: str, said: str):
    with pytest.raises(BadInput, match=said):
        parse_rules(text)


def test_a_node_with_other_gpus_is_not_taken_for_one_with_the_right_ones():
    """MIG, kinds and pools are planning's own: a replay knows no more of them than that."""
    there = [*nodes(), replace(a_node("other", 0), gpus=(a_gpu(0, uuid="x", kind="H100-80GB"),), cpus_milli=64_000)]
    jobs = trace("0,10,1,ann,H100", "0,10,1,ann,A100", columns="submit,duration,gpus,user,kind")
    assert {run.job.line: run.seat.node for run in replay(jobs, there, KNOWN["fair"]).runs} == {2: "other", 3: "node0"}
