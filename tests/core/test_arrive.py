"""Nodes that are only coming: who may be seated there, who moves when the node is there, and who gives way."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.arrive import arrivals, arrived, stranded
from gpufairy.core.cluster import Policy
from gpufairy.core.ledger import hold_ended
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Node
from gpufairy.core.plan import plan
from gpufairy.core.pool import Cloud, Machine, Pool, PoolState, coming_nodes, coming_words, learnt, pool_coming, price_words
from gpufairy.core.reconcile import Deed
from gpufairy.core.room import rooms
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS
from gpufairy.core.workload import Workload, WorkloadState, workload_id
from scenes import GIB, NOW, a_cluster, a_gpu, a_node, a_session, names, seated

A_MINUTE = timedelta(minutes=1)
G5 = Machine("g5.xlarge", "A10", 1, 24 * GIB, 4000, 16 * GIB, 1_006_000, "AWS")
POLICY = Policy()


def a_pool(most: int = 4, gpus: int = 1, **fields) -> Pool:
    machine = replace(G5, gpus=gpus)
    return replace(Pool("train-gpu", Cloud.EKS, "lab", machine, 0, most, "admin", NOW, PoolState.READY), **fields)


def coming(pool: Pool, there: int = 0, used=()) -> list[Node]:
    return coming_nodes(pool, there, used)


def bound(session: Session, node: str, state=WorkloadState.STARTING) -> Workload:
    return Workload(workload_id(session), node, state)


def unbound(session: Session) -> Workload:
    return Workload(workload_id(session), session.seat.node, WorkloadState.STARTING, bound=False)


def starting(name: str, nodes, holding=(), **fields) -> Session:
    session = seated([a_session(name, **fields)], nodes, holding=holding)[0]
    return replace(session, phase=Phase.STARTING, started_at=None)


def moved(found: list[Session], others, workloads, nodes):
    return arrivals(arrived(found, workloads), holding=[*found, *others], workloads=workloads, nodes=nodes, now=NOW, policy=POLICY)


def test_a_pool_offers_as_many_nodes_as_it_may_still_grow_by_under_names_no_node_has():
    offered = coming(a_pool(most=4), there=1, used={"train-gpu+2"})
    assert [node.name for node in offered] == ["train-gpu+1", "train-gpu+2", "train-gpu+3"]
    assert all(node.pool == "train-gpu" and node.coming_s == 180 and pool_coming(node.name) == "train-gpu" for node in offered)
    assert pool_coming("ip-10-0-0-1.ec2.internal") is None


def test_a_pool_that_is_full_or_not_ready_offers_only_what_somebody_waits_for():
    assert [node.name for node in coming(a_pool(most=1), there=1, used={"train-gpu+1"})] == ["train-gpu+1"]
    assert coming(a_pool(state=PoolState.REMOVING)) == []


def test_a_node_is_woken_only_when_none_that_is_there_will_do():
    nodes = [a_node("real", gpus=1), *coming(a_pool())]
    waiting = [a_session("first"), a_session("second")]
    seats = {one.session.name: one.seat.node for one in plan(a_cluster(nodes, waiting), NOW).placed}
    assert seats == {"first": "real", "second": "train-gpu+1"}


def test_of_many_nodes_too_the_real_ones_go_first():
    nodes = [*coming(a_pool(most=30)), *(a_node(f"zz{number}", gpus=1) for number in range(20))]
    placed = plan(a_cluster(nodes, [a_session(f"one-{number}") for number in range(22)]), NOW).placed
    woken = [one for one in placed if pool_coming(one.seat.node)]
    assert (len(placed), len(woken)) == (22, 2)
    assert woken[0].why == "waited 10 min, a node of pool train-gpu is woken for it"


def test_no_node_is_woken_for_a_session_without_gpu_unless_it_names_the_pool():
    nodes = coming(a_pool())
    assert names(plan(a_cluster(nodes, [a_session("plain", "0")]), NOW)) == []
    assert names(plan(a_cluster(nodes, [a_session("named", "0", pool="train-gpu")]), NOW)) == ["named"]


def test_who_waited_for_a_node_moves_to_it_and_the_ledger_closes_what_was_held_before():
    offered, real = coming(a_pool()), a_node("ip-1", gpus=1, pool="train-gpu")
    session = starting("train", offered)
    orders = moved([session], [], [bound(session, "ip-1")], [real])
    after = orders[0].change.after
    assert (after.seat.node, after.seat.gpus[0].uuid, after.placed_at, after.phase) == ("ip-1", "GPU-ip-1-0", NOW, Phase.STARTING)
    assert (after.seat.cpus_milli, after.seat.memory_bytes) == (session.seat.cpus_milli, session.seat.memory_bytes)
    hold = hold_ended(orders[0].change)
    assert (hold.seat.node, hold.until, hold.goes_on) == ("train-gpu+1", NOW, True)


def test_nobody_moves_before_the_node_is_known_or_the_place_is_said():
    offered = coming(a_pool())
    session = starting("train", offered)
    assert moved([session], [], [unbound(session)], [a_node("ip-1")]) == []
    assert moved([session], [], [bound(session, "ip-1")], []) == []
    assert moved([session], [], [], [a_node("ip-1")]) == []


def test_two_who_came_with_one_node_get_each_a_gpu_of_their_own():
    offered, real = coming(a_pool(gpus=2)), a_node("ip-1", gpus=2)
    one = starting("one", offered)
    two = starting("two", offered, holding=[one])
    assert two.seat.node == one.seat.node
    orders = moved([one, two], [], [bound(one, "ip-1"), bound(two, "ip-1")], [real])
    assert {order.change.after.seat.gpus[0].index for order in orders} == {0, 1}


def test_who_was_given_the_place_and_is_not_there_goes_back_into_the_queue():
    offered, real = coming(a_pool()), a_node("ip-1", gpus=1)
    session, late = starting("train", offered), starting("late", [real])
    orders = moved([session], [late], [bound(session, "ip-1"), unbound(late)], [real])
    back, here = orders
    assert (back.change.after.phase, back.change.after.comes_back, back.deed) == (Phase.STOPPING, True, Deed.STOP)
    assert "Kubernetes gave its place on ip-1" in back.change.after.why
    assert here.change.after.seat.node == "ip-1"


def test_one_that_is_only_placed_there_is_placed_anew_at_once():
    offered, real = coming(a_pool()), a_node("ip-1", gpus=1)
    session, late = starting("train", offered), replace(starting("late", [real]), phase=Phase.PLACED)
    back, _ = moved([session], [late], [bound(session, "ip-1")], [real])
    assert (back.change.after.phase, back.deed) == (Phase.QUEUED, None)


def test_who_runs_there_keeps_the_place_and_the_one_that_came_is_looked_at_again():
    offered, real = coming(a_pool()), a_node("ip-1", gpus=1)
    session, there = starting("train", offered), replace(starting("there", [real]), phase=Phase.RUNNING)
    assert moved([session], [there], [bound(session, "ip-1"), bound(there, "ip-1", WorkloadState.RUNNING)], [real]) == []


def test_whose_node_went_before_they_were_on_it_go_back_and_others_do_not():
    real = a_node("ip-1", gpus=1)
    session = starting("train", [real])
    assert stranded([session], [unbound(session)], [real], NOW, POLICY) == []
    assert stranded([session], [bound(session, "ip-1")], [], NOW, POLICY) == []
    coming_too = starting("waits", coming(a_pool()))
    orders = stranded([session, coming_too], [unbound(session), unbound(coming_too)], [], NOW, POLICY)
    assert [(one.change.after.name, one.change.after.comes_back, one.deed) for one in orders] == [("train", True, Deed.STOP)]
    assert orders[0].change.after.why == "node ip-1 went away before it had started there"


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPING, Phase.LOST])
def test_it_moves_in_whatever_phase_it_is(phase):
    offered = coming(a_pool())
    session = replace(starting("train", offered), phase=phase)
    orders = moved([session], [], [bound(session, "ip-1", WorkloadState.RUNNING)], [a_node("ip-1")])
    assert (orders[0].change.after.seat.node, orders[0].change.after.phase) == ("ip-1", phase)


@given(shape=st.lists(st.tuples(st.sampled_from(["bound", "unbound", "placed", "arrives"]), st.sampled_from([1, 2])), max_size=8), gpus=st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_never_two_on_one_gpu(shape, gpus):
    """However they came: after the orders nobody shares a whole GPU, and who is there stays."""
    pool, real = a_pool(most=20, gpus=4), a_node("ip-1", gpus=gpus, cpus=999, memory_gib=999)
    found, others, workloads = [], [], []
    for number, (what, count) in enumerate(shape):
        on = coming(pool) if what == "arrives" else [real]
        placed = plan(a_cluster(on, [a_session(f"one-{number}", str(count))], [*found, *others]), NOW).placed
        if not placed:
            continue
        session = replace(placed[0].session, seat=placed[0].seat, placed_at=NOW, phase=Phase.PLACED if what == "placed" else Phase.STARTING)
        (found if what == "arrives" else others).append(session)
        if what == "unbound":
            workloads.append(unbound(session))
        elif what != "placed":
            workloads.append(bound(session, "ip-1"))
    orders = moved(found, others, workloads, [real])
    after = {one.id: one for one in [*found, *others]} | {order.change.after.id: order.change.after for order in orders}
    left = [one for one in after.values() if one.seat is not None and not one.comes_back]
    assert all(0 <= gpu.free_parts <= PARTS for gpu in rooms([real], left)["ip-1"].gpus)
    assert all(after[one.id].seat == one.seat for one in others if any(w.id == workload_id(one) and w.bound for w in workloads))


def test_who_waits_is_told_how_long_by_what_was_seen():
    pool = a_pool()
    assert coming_words(pool, 0) == "node is coming, about 3 min"
    assert coming_words(pool, 65) == "node is coming, about 2 min"
    assert coming_words(pool, 150) == "node is coming, less than a minute"
    assert coming_words(pool, 200) == "node is coming, any moment now"
    assert coming_words(pool, 500) == "node is coming, but takes long: others of pool train-gpu took about 3 min"
    learned = replace(pool, boots_s=learnt(replace(pool, boots_s=(300, 310, 290, 305, 4000)), 302))
    assert (learned.boots_s, learned.boot_s) == ((310, 290, 305, 4000, 302), 305)
    assert coming_words(learned, 0) == "node is coming, about 5 min"


def test_what_it_costs_is_told_or_that_nobody_knows():
    assert price_words(G5, 4) == "$4.02 an hour"
    assert price_words(replace(G5, price_micros=None), 4) == "price not known"


def test_a_part_of_a_gpu_wakes_no_node_and_is_told_why():
    offered = coming_nodes(a_pool(), 0, (), closed="only whole ones")
    made = plan(a_cluster(offered, [session := a_session("half", "0.5")]), NOW)
    assert not made.placed
    assert "only whole ones" in made.refusals_of(session)[0].why


def test_a_mig_instance_is_found_again_on_the_node_that_came():
    real = a_node("ip-1", gpus=1, mig=True)
    session = starting("cut", [a_node("train-gpu+1", mig=True, coming_s=60)], gpus="mig:1g.5gb")
    assert session.seat.node == "train-gpu+1"
    seat = moved([session], [], [bound(session, "ip-1")], [real])[0].change.after.seat
    assert (seat.gpus[0].profile, seat.gpus[0].uuid) == ("1g.5gb", a_gpu(0, "ip-1").uuid)
