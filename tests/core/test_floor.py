"""Floor: what is kept from pass to pass equals an answer from scratch; what fits is found, and nothing else; words for few, numbers for the rest."""
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.fit import Refusal, fit
from gpufairy.core.floor import FEW, Floor
from gpufairy.core.floor_arrays import FloorArrays, hundredths
from gpufairy.core.floor_log import ChangeLog
from gpufairy.core.floor_words import NAMED
from gpufairy.core.lifecycle import Phase
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import NodeState, Sharing
from gpufairy.core.placement_recent import FIRST_LEARNT
from gpufairy.core.plan import plan
from gpufairy.core.room import rooms
from gpufairy.core.run_time import FEWEST, RunTimes
from gpufairy.core.session import IdleStep, Outcome, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.timeline import end_of
from scenes import A100_CUTS, GIB, NOW, a_cluster, a_gpu, a_node, a_session, names, seated

HOUR = timedelta(hours=1)
FIXED = (MigInstance("3g.20gb", 0, 4, "MIG-a"), MigInstance("1g.5gb", 4, 1, "MIG-b"), MigInstance("1g.5gb", 5, 1, "MIG-c"))

gpus = st.fixed_dictionaries({}, optional={
    "kind": st.sampled_from(["A100-40GB", "T4"]), "fgpu_parts": st.sampled_from([PARTS, 5 * PARTS, PARTS // 2]), "simulated": st.booleans(),
    "sharing": st.sampled_from([Sharing.MPS, Sharing.TIME]), "closed": st.sampled_from(["", "too many"]),
    "mps_stays": st.sampled_from(["", "in use"]), "mig": st.sampled_from([None, None, A100_CUTS]), "instances": st.sampled_from([None, FIXED]),
})  # fmt: skip
boxes = st.tuples(
    st.lists(gpus, max_size=4), st.sampled_from([2, 16]), st.sampled_from([8, 128]), st.sampled_from([None, None, "big"]),
    st.sampled_from([NodeState.READY] * 5 + [NodeState.DRAINED]),
)  # fmt: skip
SHARES = ["0", "1", "2", "0.5", "0.25", "0.333333", "1fgpu", "2fgpu", "0.5fgpu", "mig:1g.5gb", "mig:1g.5gb+me", "mig:2g.10gb", "mig:3g.20gb"]
sessions = st.builds(
    a_session,
    gpus=st.sampled_from(SHARES), owner=st.sampled_from(["ann", "bob"]), cpus_milli=st.sampled_from([None, 500, 4000]),
    memory_bytes=st.sampled_from([None, GIB, 20 * GIB]), gpu_kind=st.sampled_from([None, None, "A100", "T4"]),
    pool=st.sampled_from([None, None, None, "big"]), gpu_memory_bytes=st.sampled_from([None, None, GIB, 30 * GIB]),
    on_gpu=st.sampled_from([None] * 6 + ["GPU-n0-0"]), preemptible=st.booleans(),
    time_limit=st.sampled_from([None, timedelta(minutes=10), 3 * HOUR]),
)  # fmt: skip


def built(shapes):
    return tuple(a_box(f"n{place}", *shape) for place, shape in enumerate(shapes))


def a_box(name, cards, cpus, memory_gib, pool, state):
    gpus = tuple(a_gpu(index, name, **card) for index, card in enumerate(cards))
    return replace(a_node(name, cpus=cpus, memory_gib=memory_gib, pool=pool, state=state), gpus=gpus)


@st.composite
def days(draw):
    """Passes: the nodes there are, who comes, and of those who sit a number for who leaves, lends or goes on."""
    start = draw(st.lists(boxes, min_size=1, max_size=4))
    passes = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 3)) == 0:
            start = draw(st.permutations([*start, draw(boxes)]))[: draw(st.integers(1, 5))]
        elif draw(st.integers(0, 2)) == 0:
            start = [(*box[:4], draw(st.sampled_from([NodeState.READY, NodeState.DRAINED]))) for box in start]
        passes.append((built(start), draw(st.lists(sessions, max_size=8)), draw(st.integers(0, 6**8))))
    return passes, draw(st.lists(sessions, min_size=1, max_size=4))


def gone_on(holding, fates: int):
    """Each by one digit of the number: leaves, lends what it has, is told to stop, or goes on."""
    after = []
    for session in holding:
        fates, fate = divmod(fates, 6)
        if fate == 1:
            after.append(replace(session, idle_step=IdleStep.LENT if session.idle_step is IdleStep.NONE else IdleStep.NONE))
        elif fate == 2:
            after.append(replace(session, phase=Phase.STOPPING, since=NOW, revision=session.revision + 1))
        elif fate:
            after.append(session)
    return tuple(after)


def as_seated(made, now):
    return tuple(replace(one.session, seat=one.seat, phase=Phase.RUNNING, placed_at=now, started_at=now) for one in made.placed)


def same_arrays(one: FloorArrays, other: FloorArrays) -> bool:
    def numbers(value):
        return {key: array for key, array in vars(value).items() if isinstance(array, np.ndarray)}

    pairs = [(one, other), (one.to_all, other.to_all), (one.to_guests, other.to_guests)]
    return all(np.array_equal(array, numbers(right)[key]) for left, right in pairs for key, array in numbers(left).items())


def no_lessons(patch: pytest.MonkeyPatch) -> None:
    """Both shall know the same mix, whatever each has seen."""
    patch.setattr("gpufairy.core.placement_recent.RecentPods.note", lambda self, pod: False)
    patch.setattr("gpufairy.core.mig_recent.RecentProfiles.note", lambda self, profile: False)


def by_arrays(patch: pytest.MonkeyPatch, always: bool) -> None:
    """Or as for few nodes, each of which is asked."""
    patch.setattr("gpufairy.core.floor.FEW", 0 if always else FEW)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(days(), st.booleans(), st.booleans())
def test_a_floor_that_is_kept_plans_as_one_made_anew(day, learnt, arrays):
    passes, past = day
    known = [session.request for session in past] * (FIRST_LEARNT if learnt else 0)
    with pytest.MonkeyPatch.context() as patch:
        no_lessons(patch)
        by_arrays(patch, arrays)
        kept, holding, waiting, now = Floor(known), (), [], NOW
        for nodes, coming, fates in passes:
            now, holding, waiting = now + HOUR / 4, gone_on(holding, fates), [*waiting, *coming]
            cluster = a_cluster(nodes, waiting, holding)
            made = plan(cluster, now, kept)
            anew = plan(a_cluster(nodes, waiting, holding), now, Floor(known))
            assert made == anew
            taken = {one.session.id for one in made.placed}
            holding, waiting = (*holding, *as_seated(made, now)), [session for session in waiting if session.id not in taken]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(days())
def test_what_is_kept_equals_rooms_made_anew(day):
    passes, _ = day
    kept, holding, now = Floor(), (), NOW
    for nodes, coming, fates in passes:
        now, holding = now + HOUR / 4, gone_on(holding, fates)
        made = plan(a_cluster(nodes, coming, holding), now, kept)
        kept.follow(nodes, holding)  # what was placed is forgotten
        exact = rooms(nodes, holding)
        assert kept.rooms == exact
        assert same_arrays(kept._there.arrays, FloorArrays([exact[name] for name in sorted(exact)]))
        holding = (*holding, *as_seated(made, now))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(days(), sessions, st.booleans(), st.booleans())
def test_a_seat_is_found_wherever_there_is_one(day, asking, learnt, arrays):
    """No node is left out on which a walk over all of them would find one."""
    passes, past = day
    with pytest.MonkeyPatch.context() as patch:
        by_arrays(patch, arrays)
        check_seats(Floor([one.request for one in past] * (FIRST_LEARNT if learnt else 0)), passes, asking)


def check_seats(floor, passes, asking):
    holding = ()
    for number, (nodes, coming, fates) in enumerate(passes):
        holding = gone_on(holding, fates)
        floor.follow(nodes, holding)
        for session in [*coming, replace(asking, id=f"asks-{number}")]:
            found = floor.seat(session, lambda room, prefer, wanted=session.request: fit(wanted, room, prefer=prefer))
            by_walking = [answer for room in floor.rooms.values() if isinstance(answer := fit(session.request, room), Seat)]
            assert isinstance(found, Seat) == bool(by_walking)
            if isinstance(found, Seat):
                assert fit(session.request, floor.rooms[found.node]) in by_walking
                floor.take(session, found)
            else:
                assert sum(refusal.nodes for refusal in found) == len(nodes)
        holding = (*holding, *(one.running(NOW) for one in floor._there._sitting.values() if hasattr(one, "running")))


@settings(max_examples=100, deadline=None)
@given(days(), sessions, st.booleans())
def test_no_node_has_a_seat_sooner_than_is_hoped(day, asking, known):
    """What promises leave out as too late would not have been earlier."""
    passes, _ = day
    floor, holding, now, run_times = Floor(), (), NOW, RunTimes()
    for _ in range(FEWEST * known):
        run_times.ended(replace(a_session(owner="ann"), started_at=NOW, ended_at=NOW + HOUR, outcome=Outcome.DONE))
    for number, (nodes, coming, fates) in enumerate(passes):
        now, holding = now + HOUR / 4, gone_on(holding, fates)
        cluster = a_cluster(nodes, [*coming, replace(asking, id=f"asks-{number}")], holding)
        made = plan(cluster, now, floor)
        holding = (*holding, *as_seated(made, now))
        floor.follow(nodes, holding)
        exact = rooms(nodes, holding)
        for hope in floor.hopes(asking.request, now, run_times, cluster.calendar):
            name = hope.room.node.name
            room = exact.pop(name)
            for session in sorted(holding, key=lambda one: one.id):
                if session.seat.node == name and end_of(session, now, run_times) < hope.when:
                    room.sit(session, -1)
            if hope.when > now:
                assert not isinstance(fit(asking.request, room), Seat)
        for name, room in exact.items():
            for session in holding:
                if session.seat.node == name:
                    room.sit(session, -1)
            assert not isinstance(fit(asking.request, room), Seat)


def test_refusals_are_words_for_the_most_promising_and_a_count_of_the_others():
    nodes = [*(a_node(f"full{n:02}", gpus=1) for n in range(30)), a_node("drained", state=NodeState.DRAINED), a_node("bare", gpus=0)]
    held = seated([a_session(gpus="0.75") for _ in range(30)], nodes)
    made = plan(a_cluster(nodes, [waiting := a_session(gpus="0.5")], held), NOW)
    told = made.refusals_of(waiting)
    assert [refusal.why for refusal in told[:1]] == ["full00 has at most 0.25 of one GPU free, 0.5 asked"]
    assert len(told) == NAMED + 1
    assert told[-1] == Refusal("22 more", "of 22 more nodes 1 not ready, 1 without such a GPU, 20 with too little GPU room", nodes=22)


def test_what_a_pass_placed_is_undone_by_the_next_unless_it_holds_its_seat():
    floor, nodes = Floor(), (a_node(gpus=1),)
    first, second = a_session("first"), a_session("second")
    assert names(plan(a_cluster(nodes, [first]), NOW, floor)) == ["first"]
    assert names(plan(a_cluster(nodes, [second]), NOW, floor)) == ["second"]
    held = as_seated(plan(a_cluster(nodes, [first]), NOW, floor), NOW)
    assert names(plan(a_cluster(nodes, [second], held), NOW, floor)) == []


def test_a_session_counts_once_however_often_it_is_tried():
    floor, nodes = Floor(), (a_node(gpus=1),)
    held = tuple(seated([a_session()], nodes))
    for _ in range(3):
        plan(a_cluster(nodes, [waits := a_session("waits", id="same")], held), NOW, floor)
    assert len(floor._placer._recent._kept) == 1
    assert waits.id in floor._counted


def test_what_was_asked_before_is_known_from_the_start():
    floor = Floor([a_session(gpus="0.5").request, a_session(gpus="1").request] * FIRST_LEARNT)
    floor.follow((a_node(gpus=2),), ())
    assert floor._placer.has_learnt


def test_a_floor_without_nodes_seats_nobody_and_learns_when_they_come():
    floor, waiting = Floor([a_session().request] * FIRST_LEARNT), a_session("waits")
    empty = replace(a_cluster([a_node()], [waiting]), nodes=())
    assert plan(empty, NOW, floor).placed == ()
    assert names(plan(a_cluster([a_node()], [waiting]), NOW, floor)) == ["waits"]
    assert names(plan(empty, NOW, floor)) == []
    assert names(plan(a_cluster([a_node(gpus=2)], [waiting]), NOW, floor)) == ["waits"]


def test_thirds_share_one_gpu():
    floor, nodes = Floor([a_session(gpus="0.333333").request, a_session(gpus="1").request] * FIRST_LEARNT), (a_node(gpus=4), a_node("gpu02", gpus=4))
    made = plan(a_cluster(nodes, [a_session(gpus="0.333333") for _ in range(3)]), NOW, floor)
    assert len({placed.seat.gpus[0].uuid for placed in made.placed}) == 1
    assert [hundredths(parts) for parts in (0, 333_333, 333_334, 666_666, PARTS)] == [0, 33, 33, 67, 100]


def test_nodes_all_of_whose_gpus_are_closed_are_not_tried(monkeypatch):
    by_arrays(monkeypatch, always=True)
    floor, nodes, tried = Floor(), (a_node("a"), a_node("b", gpus=2)), []
    floor.follow(nodes, ())

    def fitted(room, prefer):
        tried.append(room.node.name)
        return fit(session.request, room, closed, prefer)

    session, closed = a_session(), {"GPU-a-0": "booked", "GPU-b-1": "booked", "GPU-elsewhere": "booked"}
    assert floor.seat(session, fitted, closed).node == "b"
    assert tried == ["b"]


def test_a_log_that_is_cut_short_tells_who_is_too_far_behind():
    log = ChangeLog()
    for node in range(2500):
        log.append(node)
    assert log.since(2498).tolist() == [2498, 2499]
    assert (log[2499], log[2498:]) == (2499, [2498, 2499])
    log.forget()
    assert log.since(2499) is None
    log.append(7)
    assert (len(log), log.since(2500).tolist()) == (2501, [7])


def test_a_long_life_with_a_short_log_plans_the_same(monkeypatch):
    monkeypatch.setattr("gpufairy.core.floor.LOG_KEPT", 0)
    nodes, floor, holding = (a_node(gpus=4), a_node("gpu02", gpus=4)), Floor([a_session(gpus="0.5").request] * FIRST_LEARNT), ()
    for _ in range(6):
        waiting = [a_session(gpus="0.5"), a_session(gpus="1")]
        made = plan(a_cluster(nodes, waiting, holding), NOW, floor)
        assert len(made.placed) == 2
        holding = (*holding[-2:], *as_seated(made, NOW))


def test_shapes_without_end_are_forgotten_by_the_floor(monkeypatch):
    monkeypatch.setattr("gpufairy.core.floor.MOST_CELLS", 4)
    floor, nodes = Floor(), (a_node(gpus=4), a_node("gpu02", gpus=4))
    waiting = [a_session(gpus="0.1", cpus_milli=100 + n) for n in range(20)]
    assert len(plan(a_cluster(nodes, waiting), NOW, floor).placed) == 20
    assert len(floor._wishes) <= 2
