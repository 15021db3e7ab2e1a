"""The fair tree over a long time: what teams get tends to their shares, and so does what users get within theirs."""
import heapq
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.cluster import Policy, Totals, Weights
from gpufairy.core.fair_tree import FairTree
from gpufairy.core.ledger import added, charged_to, hold_ended
from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.plan import plan
from gpufairy.core.queue import shape
from gpufairy.core.session import GpuSeat, Outcome, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.steps import end, place
from gpufairy.core.turn import HELD_COUNTS, charge_parts, in_order, standings
from scenes import GIB, NOW, a_cluster, a_node, a_session, names, seated

pytestmark = pytest.mark.slow

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
FORGETFUL = Policy(half_life=6 * HOUR)


class Lab:
    """GPUs that run day and night: each owner always has something waiting, and each of their sessions takes the next of their times."""

    def __init__(self, gpus, teams, times, weights=Weights(), policy=FORGETFUL):
        """`teams`: of owners; `times`: of an owner, an endless iterator."""
        self.nodes, self.teams, self.times, self.weights, self.policy = [a_node(gpus=gpus, cpus=64)], teams, times, weights, policy
        self.now, self.usage, self.holding, self.ends, self.tie = NOW, {}, {}, [], count()
        self.waiting = {owner: a_session(owner=owner, team=team) for owner, team in teams.items()}
        self.held = defaultdict(timedelta)

    def run(self, time):
        until = self.now + time
        while self.now < until:
            self.start_what_fits()
            ready, _, session = heapq.heappop(self.ends)
            self.now = ready
            self.leave(self.holding.pop(session.id))
        return self.held

    def start_what_fits(self):
        while True:
            made = plan(self.picture(), self.now)
            for placed in made.placed:
                owner = placed.session.owner
                seat_taken = place(placed.session, placed.seat, self.now, "").after
                self.holding[placed.session.id] = replace(seat_taken, phase=Phase.RUNNING, started_at=self.now)
                heapq.heappush(self.ends, (self.now + next(self.times[owner]), next(self.tie), placed.session))
                self.waiting[owner] = a_session(owner=owner, team=self.teams[owner])
            if not made.placed:
                return

    def picture(self):
        return a_cluster(
            self.nodes, self.waiting.values(), self.holding.values(), usage=self.usage, policy=self.policy, weights=self.weights
        )

    def leave(self, session):
        hold = hold_ended(end(session, Happening.EXITED, self.now, outcome=Outcome.DONE, why="", exit_code=0))
        for name in charged_to(session):
            self.usage[name] = added(self.usage.get(name), hold, self.policy.half_life, self.policy.entry_penalty)
            self.held[name] += hold.until - hold.since


def always(*times):
    while True:
        yield from times


def parts(held, of):
    whole = sum((held[name] for name in of), timedelta())
    return [held[name] / whole for name in of]


@pytest.mark.slow
def test_teams_get_their_shares_however_many_they_are_and_users_theirs_within():
    teams = {"ann": "nlp", "bob": "nlp", "cy": "nlp", "dan": "vision", "eve": "vision", "fay": None}
    weights = Weights({"nlp": 3.0}, {"ann": 2.0})
    lab = Lab(4, teams, {owner: always(HOUR, 40 * MINUTE, 80 * MINUTE) for owner in teams}, weights)
    held = lab.run(timedelta(days=12))
    assert parts(held, ["team:nlp", "team:vision", "fay"]) == pytest.approx([0.6, 0.2, 0.2], abs=0.02)
    assert parts(held, ["ann", "bob", "cy"]) == pytest.approx([0.5, 0.25, 0.25], abs=0.02)
    assert parts(held, ["dan", "eve"]) == pytest.approx([0.5, 0.5], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share_a", "share_b", "minutes_a", "minutes_b"),
    [(1, 1, [20], [90]), (1, 3, [20], [20]), (4, 1, [35, 80], [60]), (2, 3, [90, 20, 20], [45, 70]), (1, 2, [120], [10])],
)
def test_what_two_teams_get_tends_to_their_shares_whatever_their_sessions_are_like(share_a, share_b, minutes_a, minutes_b):
    teams = {"ann": "a", "al": "a", "bob": "b"}
    times = {"ann": always(*(n * MINUTE for n in minutes_a)), "al": always(HOUR), "bob": always(*(n * MINUTE for n in minutes_b))}
    held = Lab(3, teams, times, Weights({"a": float(share_a), "b": float(share_b)})).run(timedelta(days=6))
    assert parts(held, ["team:a", "team:b"])[0] == pytest.approx(share_a / (share_a + share_b), abs=0.03)


def test_nobody_starves_by_turn_however_small_their_share():
    teams = {"poor": None, **{f"rich{n}": "rich" for n in range(5)}}
    held = Lab(1, teams, {owner: always(HOUR) for owner in teams}, Weights({"rich": 50.0})).run(timedelta(days=10))
    assert held["poor"] > 2 * HOUR
    assert min(parts(held, [f"rich{n}" for n in range(5)])) > 0.15


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_a_flood_of_sessions_of_a_second_gets_no_more_than_its_share(gpus):
    lab = Lab(gpus, {"flood": None, "long": None}, {"flood": always(SECOND), "long": always(5 * MINUTE)})
    held = lab.run(timedelta(hours=2))
    assert parts(held, ["flood", "long"])[0] <= 0.52
    charged = {owner: usage.gpu_seconds for owner, usage in lab.usage.items()}
    assert charged["flood"] > 20 * held["flood"].total_seconds()


def test_a_start_counts_at_once_and_its_end_changes_nothing_before_the_entry_penalty_is_over():
    policy = Policy(entry_penalty=MINUTE)
    session = replace(a_session(team="nlp"), phase=Phase.RUNNING, seat=Seat("gpu01", 0, 0, charge_parts=PARTS), placed_at=NOW)
    hold = hold_ended(end(session, Happening.EXITED, NOW + SECOND, outcome=Outcome.DONE, why=""))
    ended = {name: added(None, hold, policy.half_life, MINUTE) for name in charged_to(session)}
    still = standings(a_cluster(holding=[session], policy=policy), NOW + SECOND)
    after = standings(a_cluster(usage=ended, policy=policy), NOW + SECOND)
    for name in ("ann", "team:nlp"):
        assert still[name] - HELD_COUNTS == pytest.approx(after[name], rel=1e-6)
        assert after[name] * policy.half_life.total_seconds() / 0.693147 == pytest.approx(60, rel=1e-3)


def test_a_clock_that_ran_back_gives_nobody_a_standing_below_nothing():
    ahead = replace(a_session(), phase=Phase.RUNNING, seat=Seat("gpu01", 0, 0, charge_parts=PARTS), placed_at=NOW + HOUR)
    assert standings(a_cluster(holding=[ahead]), NOW)["ann"] >= HELD_COUNTS


def test_one_teams_seat_moves_all_of_its_members_back():
    waiting = [a_session("ann-1", team="nlp"), a_session("ann-2", team="nlp"), a_session("bob-1", owner="bob", team="nlp")]
    waiting += [a_session("eve-1", owner="eve", team="vision"), a_session("fay-1", owner="fay"), a_session("fay-2", owner="fay")]
    order = [session.name for session in in_order(a_cluster([a_node(gpus=8)], waiting), NOW, 10)]
    assert order == ["ann-1", "eve-1", "fay-1", "bob-1", "fay-2", "ann-2"]


def test_priority_comes_before_every_share():
    waiting = [a_session("low", owner="ann", team="nlp", priority=-10), a_session("high", owner="bob", team="rich", priority=10)]
    usage_of_rich = seated([a_session("held", owner="bob", team="rich")], [a_node()])
    order = in_order(a_cluster([a_node(gpus=4)], waiting, usage_of_rich, weights=Weights({"nlp": 100.0})), NOW, 10)
    assert [session.name for session in order] == ["high", "low"]


def test_an_owner_with_sessions_in_two_teams_waits_for_each_in_its_teams_turn():
    waiting = [a_session("old-team", team="nlp"), a_session("new-team", team="vision"), a_session("eve-1", owner="eve", team="vision")]
    holding = seated([a_session("held", owner="bob", team="nlp")], [a_node(gpus=1)])
    made = plan(a_cluster([a_node(gpus=4)], waiting, holding), NOW)
    assert sorted(names(made)) == ["eve-1", "new-team", "old-team"]
    assert names(made)[0] == "eve-1"


SESSIONS = st.builds(
    lambda owner, team, priority: a_session(owner=owner, team=team, priority=priority),
    st.sampled_from("abcde"), st.sampled_from([None, "nlp", "vision"]), st.sampled_from([0, 0, 0, 10]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(SESSIONS, max_size=20), st.dictionaries(st.sampled_from(["a", "b", "team:nlp"]), st.floats(0, 5)), st.lists(st.floats(0, 2), min_size=1))
def test_the_tree_gives_whom_a_sort_of_all_would_give(sessions, had, charges):
    weights = Weights({"nlp": 2.0}, {"a": 3.0, "b": 0.5})
    tree, had, left = FairTree(had, weights), defaultdict(float, had), {}
    queues = {owner: [s for s in sessions if s.owner == owner] for owner in {s.owner for s in sessions}}
    for owner, queue in queues.items():
        left[owner] = queue.pop(0)
        tree.add(left[owner], shape(left[owner].request))
    for turn in range(len(sessions)):
        first = tree.pop()
        assert first.session.id == min(left.values(), key=lambda session: sort_key(session, had, weights)).id
        tree.charge(first.session, charges[turn % len(charges)])
        for name in charged_to(first.session):
            had[name] += charges[turn % len(charges)]
        del left[first.owner]
        if queues[first.owner]:
            left[first.owner] = queues[first.owner].pop(0)
            tree.add(left[first.owner], shape(left[first.owner].request))
    assert tree.pop() is None


def sort_key(session, had, weights):
    own = had[session.owner] / weights.users.get(session.owner, 1.0)
    team = own if session.team is None else had[f"team:{session.team}"] / weights.teams.get(session.team, 1.0)
    return -session.priority, team, own, session.number


@given(st.integers(1, 64), st.integers(0, 8), st.integers(1, 512))
def test_a_cpu_hog_is_charged_the_gpus_it_strands(cpus, gpus, memory_gib):
    totals = Totals.of([a_node(gpus=8, cpus=64, memory_gib=512)])
    seat = Seat("gpu01", cpus * 1000, memory_gib * GIB, tuple(GpuSeat(n, f"GPU-{n}", PARTS, GIB) for n in range(gpus)))
    stranded = max(cpus / 64, memory_gib / 512) * 8 * PARTS
    assert charge_parts(seat, totals) >= max(gpus * PARTS, int(stranded))
    assert charge_parts(seat, totals) <= 8 * PARTS
