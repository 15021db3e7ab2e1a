"""Automatic mode: which GPU is cut anew for those who wait."""
from dataclasses import replace

from gpufairy.core.admit import check_ever_fits
from gpufairy.core.holders import holders_by_gpu
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_cut import Cut, cut_now, with_cuts
from gpufairy.core.mig_demand import cut_for_waiting
from gpufairy.core.node import NodeState
from gpufairy.core.room import rooms
from scenes import A100_CUTS, a_gpu, a_node, a_session, seated


def cut(*parts: tuple[str, int]) -> tuple[MigInstance, ...]:
    return tuple(MigInstance(name, start, A100_CUTS.profile(name).size, f"MIG-{start}") for name, start in parts)


SMALL = tuple(("1g.5gb", start) for start in range(7))


def a_cut_node(*parts: tuple[str, int], auto: bool = True, name: str = "gpu01", **fields):
    gpu = a_gpu(node=name, mig=A100_CUTS, instances=cut(*parts), mig_auto=auto)
    return replace(a_node(name), gpus=(gpu,), **fields)


def wish(node, waiting, holding=(), busy=(), more=()):
    free = rooms([node, *more], holding)
    return cut_for_waiting(free, waiting, holders_by_gpu(holding), busy)


def test_an_idle_gpu_is_cut_for_what_waits():
    found = wish(a_cut_node(*SMALL), [a_session("big", gpus="mig:3g.20gb")])
    assert found.wanted == ("3g.20gb",)
    assert [(one.profile, one.start) for one in found.plan.made] == [("3g.20gb", 4)]
    assert len(found.plan.touched) == 3


def test_as_many_as_fit_are_served_by_one_cut_in_turn():
    waiting = [a_session(f"big-{n}", gpus="mig:3g.20gb") for n in range(3)]
    found = wish(a_cut_node(*SMALL), waiting)
    assert found.serves == (waiting[0].id, waiting[1].id)
    assert found.wanted == ("3g.20gb", "3g.20gb")


def test_what_is_held_is_in_the_mix_and_stays():
    node = a_cut_node(*SMALL)
    holding = seated([a_session("small", gpus="mig:1g.5gb")], [node])
    found = wish(node, [a_session("big", gpus="mig:3g.20gb")], holding)
    held = holding[0].seat.gpus[0].start
    assert held not in {one.start for one in found.plan.touched}
    assert sorted(found.wanted) == ["1g.5gb", "3g.20gb"]


def test_an_instance_with_a_strangers_process_stays():
    node = a_cut_node(*SMALL)
    found = wish(node, [a_session("big", gpus="mig:3g.20gb")], busy={"MIG-4"})
    assert [one.start for one in found.plan.made] == [0]


def test_nothing_is_cut_where_nobody_allowed_it():
    assert wish(a_cut_node(*SMALL, auto=False), [a_session("big", gpus="mig:3g.20gb")]) is None


def test_nothing_is_cut_for_those_who_could_sit_down_already():
    assert wish(a_cut_node(("3g.20gb", 4)), [a_session("big", gpus="mig:3g.20gb")]) is None


def test_nothing_is_cut_for_one_who_could_not_start_even_then():
    assert wish(a_cut_node(*SMALL), [a_session("greedy", gpus="mig:3g.20gb", cpus_milli=99_000)]) is None
    assert wish(a_cut_node(*SMALL, state=NodeState.DRAINED), [a_session("big", gpus="mig:3g.20gb")]) is None
    assert wish(a_cut_node(*SMALL), [a_session("other", gpus="mig:3g.71gb")]) is None
    assert wish(a_cut_node(*SMALL), [a_session("whole", gpus="1"), a_session("part", gpus="0.5")]) is None


def test_the_gpu_that_loses_the_fewest_instances_is_cut():
    spare = a_cut_node(("1g.5gb", 0), name="gpu02")
    found = wish(a_cut_node(*SMALL), [a_session("big", gpus="mig:3g.20gb")], more=[spare])
    assert (found.node, found.plan.touched) == ("gpu02", ())


def test_one_who_is_blocked_does_not_keep_those_behind_from_their_cut():
    node = a_cut_node(*SMALL)
    holding = seated([a_session("small", gpus="mig:1g.5gb")], [node])
    waiting = [a_session("all", gpus="mig:7g.40gb"), a_session("big", gpus="mig:3g.20gb")]
    assert wish(node, waiting, holding).serves == (waiting[1].id,)


def test_a_request_for_another_cut_is_admitted_where_the_cut_follows_the_queue():
    check_ever_fits(a_session("big", gpus="mig:3g.20gb").request, [a_cut_node(*SMALL)])


def test_a_node_takes_its_new_cut():
    node = a_cut_node(*SMALL, auto=False)
    after = with_cuts(node, {node.gpus[0].uuid: Cut(A100_CUTS, cut(("7g.40gb", 0)))}, {node.gpus[0].uuid})
    assert ([one.profile for one in after.gpus[0].instances], after.gpus[0].mig_auto) == (["7g.40gb"], True)
    assert with_cuts(node, {}) is node


def test_a_gpu_that_is_cut_on_demand_has_the_instances_that_are_held():
    node = a_node(mig=True)
    holding = seated([a_session("small", gpus="mig:2g.10gb")], [node])
    now = cut_now(node.gpus[0], A100_CUTS, holders_by_gpu(holding)[node.gpus[0].uuid])
    assert [one.profile for one in now.used] == ["2g.10gb"]
    assert not now.idle
