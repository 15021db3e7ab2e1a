"""ScenarioFit: what fits is never refused, nothing is over-full, and what is kept between placements equals an answer from scratch."""
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from bench.openb import Cluster, Machine, Pod
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.placement_host import COARSE, FINE, grains_for, hosts_of, scarcer
from gpufairy.core.placement_mix import NodeKind, Shape, device_shares, scarcities, worths
from gpufairy.core.placement_recent import FIRST_LEARNT, WINDOW, RecentPods, differ
from gpufairy.core.placement_rooms import Rooms, Taking
from gpufairy.core.placement_worth import DEVICE_GRAINS, ClassWorth, RoomClass
from gpufairy.core.scenario_fit import ScenarioFit

HALF = Pod(cpu=4000, memory=100, num_gpu=1, gpu_milli=500)
WHOLE_GPU = Pod(cpu=8000, memory=100, num_gpu=1, gpu_milli=1000)
KINDS = ("A100", "T4")
machines = st.builds(Machine, st.sampled_from([8000, 32000, 96000]), st.sampled_from([500, 4000]), st.integers(0, 4), st.sampled_from(KINDS))
fractions = st.builds(lambda milli: (1, milli), st.one_of(st.integers(1, 999), st.sampled_from([250, 330, 500])))
shapes = st.one_of(st.just((0, 0)), fractions, st.tuples(st.integers(1, 4), st.just(1000)))
models = st.sets(st.sampled_from(KINDS)).map(frozenset)
pods = st.builds(
    lambda cpu, memory, shape, models: Pod(cpu, memory, *shape, models), st.integers(0, 12000), st.integers(0, 300), shapes, models
)


def a_cluster(*there: Machine) -> Cluster:
    return Cluster(list(there), [f"node-{place}" for place in range(len(there))])


def a_placer(cluster: Cluster, hint: list[Pod] = (), seed: int = 1) -> ScenarioFit:
    placer = ScenarioFit()
    placer.prepare(cluster, hint, seed)
    return placer


@st.composite
def days(draw):
    """Nodes, a mix, and pods that come and go: None means that somebody leaves."""
    there = draw(st.lists(machines, min_size=1, max_size=5))
    there.append(Machine(32000, 4000, 2, "A100"))
    kinds = draw(st.lists(pods, min_size=1, max_size=6))
    coming = draw(st.lists(st.one_of(st.none(), st.sampled_from(kinds), pods), min_size=1, max_size=40))
    return there, kinds, coming, draw(st.integers(0, 3))


def lived(placer: ScenarioFit, cluster: Cluster, coming, seed: int, check=lambda pod, found: None) -> list:
    """`take` itself fails where a pod does not fit."""
    seats, answers, rng = [], [], np.random.default_rng(seed)
    for pod in coming:
        if pod is None:
            if seats:
                cluster.give_back(*seats.pop(int(rng.integers(len(seats)))))
            continue
        found = placer.place(pod, cluster)
        check(pod, found)
        answers.append(found)
        if found is not None:
            cluster.take(pod, *found)
            seats.append((pod, *found))
    return answers


@settings(max_examples=150, deadline=None)
@given(days())
def test_what_fits_is_placed_and_what_does_not_is_refused(day):
    there, kinds, coming, seed = day
    cluster = a_cluster(*there)

    def check(pod, found):
        assert (found is not None) == bool(cluster.feasible(pod).any())

    lived(a_placer(cluster, kinds * FIRST_LEARNT, seed), cluster, coming, seed, check)


@settings(max_examples=100, deadline=None)
@given(days())
def test_what_is_kept_between_placements_equals_an_answer_from_scratch(day):
    there, kinds, coming, seed = day
    cluster, hint = a_cluster(*there), kinds * FIRST_LEARNT
    cluster.mem_cap = cluster.mem_free.copy()  # a fresh look at a node in use shall know how much it has
    placer = a_placer(cluster, hint, seed)
    placer._recent.note = lambda pod: False  # both shall know the same mix

    def check(pod, found):
        fresh = ScenarioFit()
        fresh.prepare(cluster, hint, seed)
        assert fresh.place_again(pod, cluster) == found

    lived(placer, cluster, coming, seed, check)


@settings(max_examples=50, deadline=None)
@given(days())
def test_the_same_seed_places_the_same(day):
    there, kinds, coming, seed = day
    first, second = (a_cluster(*there) for _ in range(2))
    assert lived(a_placer(first, kinds * 20, seed), first, coming, seed) == lived(a_placer(second, kinds * 20, seed), second, coming, seed)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(days(), st.randoms(use_true_random=False))
def test_nodes_are_known_by_their_names_not_by_their_order(day, shuffled):
    there, kinds, coming, seed = day
    order = list(range(len(there)))
    shuffled.shuffle(order)
    one = a_cluster(*there)
    other = Cluster([there[place] for place in order], [f"node-{place}" for place in order])
    pods_only = [pod for pod in coming if pod is not None]
    named = [
        [found and (cluster.names[found[0]], found[1]) for found in lived(a_placer(cluster, kinds * FIRST_LEARNT, seed), cluster, pods_only, seed)]
        for cluster in (one, other)
    ]
    assert named[0] == named[1]


def test_two_halves_share_a_device_and_leave_the_other_whole():
    cluster = a_cluster(Machine(32000, 4000, 2, "A100"))
    placer = a_placer(cluster, [HALF, WHOLE_GPU] * FIRST_LEARNT)
    lived(placer, cluster, [HALF, HALF], seed=0)
    assert sorted(cluster.gpu_free[0].tolist()) == [0, 1000]


def test_room_that_only_some_may_use_is_kept_for_them():
    anywhere, picky = replace(WHOLE_GPU, models=frozenset()), replace(WHOLE_GPU, models=frozenset({"T4"}))
    cluster = a_cluster(*[Machine(96000, 4000, 8, "T4")] * 2, *[Machine(96000, 4000, 8, "A100")] * 2)
    placer = a_placer(cluster, [anywhere, *[picky] * 9] * FIRST_LEARNT)
    placed = lived(placer, cluster, [anywhere] * 4, seed=0)
    assert {cluster.model[node] for node, _ in placed} == {"A100"}


def test_a_pod_that_eats_the_cpus_goes_where_no_gpu_needs_them():
    hog = Pod(cpu=30000, memory=10, num_gpu=0, gpu_milli=0)
    cluster = a_cluster(Machine(32000, 4000, 2, "A100"), Machine(32000, 4000, 2, "A100"))
    placer = a_placer(cluster, [WHOLE_GPU] * FIRST_LEARNT)
    cluster.take(WHOLE_GPU, 1, (0,))
    cluster.take(replace(WHOLE_GPU, cpu=1000), 1, (1,))
    cluster.give_back(replace(WHOLE_GPU, cpu=8000, num_gpu=0, gpu_milli=0), 1, ())
    assert placer.place(hog, cluster) == (1, ())


@pytest.mark.parametrize("milli", [991, 995, 999])
def test_a_share_that_is_all_but_whole_gets_a_device_that_has_it(milli):
    cluster = a_cluster(Machine(32000, 4000, 2, "A100"))
    placer = a_placer(cluster, [HALF, WHOLE_GPU] * FIRST_LEARNT)
    cluster.take(replace(HALF, gpu_milli=700), 0, (0,))
    assert placer.place(replace(HALF, gpu_milli=milli), cluster) == (0, (1,))


def test_shapes_without_end_are_forgotten(monkeypatch):
    monkeypatch.setattr("gpufairy.core.scenario_fit.MOST_LOOKS", 5)
    cluster = a_cluster(*[Machine(96000, 4000, 4, "A100")] * 3)
    placer = a_placer(cluster, [HALF, WHOLE_GPU] * FIRST_LEARNT)
    assert None not in lived(placer, cluster, [replace(HALF, cpu=cpu, gpu_milli=100) for cpu in range(100, 130)], seed=0)
    assert len(placer._looks) <= 7


def test_it_learns_by_itself_what_is_worth_keeping():
    cluster = a_cluster(*[Machine(96000, 4000, 4, "A100")] * 40)
    placer = a_placer(cluster)
    lived(placer, cluster, [HALF, WHOLE_GPU] * 60, seed=0)
    assert placer._rooms is not None


def test_nodes_that_come_are_used_and_what_was_learnt_stays():
    full, larger = a_cluster(Machine(8000, 4000, 1, "A100")), a_cluster(*[Machine(8000, 4000, 1, "A100")] * 2)
    placer = a_placer(full, [HALF, WHOLE_GPU] * FIRST_LEARNT)
    full.take(WHOLE_GPU, *placer.place(WHOLE_GPU, full))
    assert placer.place(WHOLE_GPU, full) is None
    larger.take(WHOLE_GPU, 0, (0,))
    placer.renew(larger)
    assert placer.place(WHOLE_GPU, larger) == (1, (0,))


def test_rooms_are_forgotten_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr("gpufairy.core.placement_rooms.MOST_ROOMS", 3)
    cluster = a_cluster(*[Machine(96000, 4000, 4, "A100")] * 3)
    placer = a_placer(cluster, [replace(HALF, gpu_milli=milli) for milli in (130, 270, 410)] * FIRST_LEARNT)
    assert None not in lived(placer, cluster, [replace(HALF, gpu_milli=milli) for milli in (130, 270, 410, 130, 270)], seed=0)
    assert len(placer._rooms.rooms) < 10


# the worth of room


def brute(host: int, devices: tuple[int, ...], items: list[tuple[int, int, int, int]]) -> int:
    """The most that fits, by trying everything. items: (host, device grains, gpus, worth)."""
    best = 0
    for need, grains, gpus, value in items:
        if need > host:
            continue
        if gpus > 1:
            idle = [place for place, left in enumerate(devices) if left == DEVICE_GRAINS][:gpus]
            options = [tuple(0 if place in idle else left for place, left in enumerate(devices))] if len(idle) == gpus else []
        else:
            options = {tuple(sorted((*devices[:at], left - grains, *devices[at + 1 :]))) for at, left in enumerate(devices) if left >= grains}
        best = max([best, *(value + brute(host - need, after, items) for after in options)])
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(10, 40), st.sampled_from([(1, 300), (1, 500), (1, 700), (1, 1000), (2, 1000)]), st.integers(1, 90)), min_size=1, max_size=4),
    st.lists(st.sampled_from([0, 300, 450, 700, 1000]), min_size=1, max_size=3),
    st.integers(0, COARSE),
)  # fmt: skip
def test_the_worth_of_a_room_is_the_best_packing_of_it(wanted, left, free):
    worth = {Shape(host, *gpus, ()): value for host, gpus, value in wanted}
    table = ClassWorth(RoomClass(frozenset(worth), 1, COARSE, 3), [frozenset(worth)], worth)
    rooms = Rooms([table], 3, COARSE)
    room = rooms.rooms[rooms.number(0, tuple(left))]
    items = [(shape.host, shape.gpu_milli // 10, shape.num_gpu, value) for shape, value in worth.items()]
    assert rooms.worth[room.row + free] == brute(free, tuple(one // 10 for one in left), items)


def test_a_room_after_taking_is_the_room_one_would_meet():
    shape = Shape(10, 1, 300, ())
    rooms = Rooms([ClassWorth(RoomClass(frozenset({shape}), 1, COARSE, 2), [frozenset({shape})], {shape: 7})], 2, COARSE)
    before, after = rooms.number(0, (1000, 600)), rooms.number(0, (300, 1000))
    rows = rooms.after(Taking.of(1, 300), np.array([before], dtype=np.int32))
    assert rows[0, 0] == rooms.rooms[after].row


# the mix


def test_what_pairs_badly_is_charged_for_the_waste():
    shares = device_shares({Shape(1, 1, 600, ()): 10, Shape(1, 1, 500, ()): 10})
    assert shares == {Shape(1, 1, 600, ()): 1.0, Shape(1, 1, 500, ()): 0.5}


def test_several_gpus_are_charged_in_full():
    assert device_shares({Shape(1, 4, 1000, ()): 3}) == {Shape(1, 4, 1000, ()): 4.0}


def test_what_may_use_few_nodes_is_scarce():
    kinds = {NodeKind("A100", 8, 96000): 80, NodeKind("T4", 8, 96000): 20}
    anywhere, picky = Shape(1, 1, 1000, ()), Shape(1, 1, 1000, ("T4",))
    scarce = scarcities({anywhere: 50, picky: 50}, kinds)
    assert scarce[picky] == pytest.approx(2.5, rel=0.01)
    assert scarce[anywhere] == pytest.approx(0.625, rel=0.01)


def test_what_needs_no_gpu_or_fits_nowhere_is_worth_nothing():
    kinds = {NodeKind("A100", 2, 8000): 2}
    assert set(worths({Shape(1, 0, 0, ()): 1, Shape(1, 4, 1000, ()): 1, Shape(9000, 1, 500, ()): 1}, kinds).values()) == {0.0}


def test_memory_is_counted_where_it_is_the_shorter():
    cluster = a_cluster(Machine(96000, 1000, 4, "A100"))
    cpu, memory = hosts_of(cluster)
    assert scarcer([Pod(1000, 500, 1, 500)], [cpu, memory]) is memory
    assert scarcer([Pod(48000, 10, 1, 500)], [cpu, memory]) is cpu


def test_the_host_is_counted_finely_where_it_runs_out_first():
    cpu = hosts_of(a_cluster(Machine(96000, 1000, 4, "A100")))[0]
    assert grains_for([Pod(48000, 10, 1, 500)], cpu, gpus=4) == FINE
    assert grains_for([Pod(4800, 10, 1, 500)], cpu, gpus=4) == COARSE


# what is remembered


def drawn(parts: dict[int, float], count: int, seed: int) -> list[Pod]:
    rng = np.random.default_rng(seed)
    return [replace(HALF, gpu_milli=int(milli)) for milli in rng.choice(list(parts), size=count, p=list(parts.values()))]


def test_it_learns_often_at_first_and_then_seldom():
    recent, even = RecentPods(()), dict.fromkeys(range(100, 1100, 100), 0.1)
    learnt = []
    for place, pod in enumerate(drawn(even, 20_000, seed=3), start=1):
        if recent.note(pod):
            learnt.append(place)
            recent.learnt()
    assert learnt[:3] == [100, 400, 1600]
    assert len(learnt) <= 5


def test_a_mix_that_changes_is_noticed_and_the_old_one_forgotten():
    recent = RecentPods(drawn({100: 0.5, 500: 0.5}, 5000, seed=1))
    recent.learnt()
    changed = [recent.note(pod) for pod in drawn({100: 0.1, 900: 0.9}, WINDOW, seed=2)]
    assert changed == [False] * (WINDOW - 1) + [True]
    assert {pod.gpu_milli for pod in recent.learnt()} == {100, 900}


def test_two_samples_of_one_mix_do_not_differ():
    even = dict.fromkeys(range(100, 1100, 100), 0.1)
    counted = [Counter(pod.gpu_milli for pod in drawn(even, 400, seed)) for seed in range(60)]
    assert sum(differ(counted[place], counted[place + 1]) for place in range(0, 60, 2)) <= 1
