"""Nodes of a cluster as values: kinds, MIG, parts as others have them, foreign use, and what a look at thousands costs."""
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpufairy.core.admit import check_ever_fits
from gpufairy.core.errors import NeverFits
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.others import THEIRS, beside_others, held_on
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, Request, Seat, Session, SessionKind
from gpufairy.core.share import parse_share
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.nvml_words import kind_of
from gpufairy.engines.kube_gpus import KindsKnown, hami_count
from gpufairy.engines.kube_node_list import NodeList
from gpufairy.engines.kube_nodes import slim_node, slim_use
from gpufairy.engines.pod_gpus import gpu_resources
from gpufairy.engines.pod_settings import FractionsBy, GpuNames, PodSettings

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
KINDS = KindsKnown(kind_of, mig_tables())
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
NAMES = GpuNames()


def told(name: str = "gpu01", labels: dict[str, str] | None = None, **resources: str) -> dict[str, Any]:
    has = {"cpu": "64", "memory": "512Gi", **{key.replace("__", "/").replace("_", "."): value for key, value in resources.items()}}
    return {
        "metadata": {"name": name, "labels": labels if labels is not None else A100, "creationTimestamp": "2026-11-15T11:00:00Z"},
        "spec": {}, "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def with_resources(node: dict[str, Any], **resources: str) -> dict[str, Any]:
    node["status"]["allocatable"].update({name.replace("mig_", "nvidia.com/mig-"): value for name, value in resources.items()})
    return node


def a_list(*nodes: dict[str, Any], gpus: GpuNames = NAMES) -> NodeList:
    made = NodeList(PodSettings(gpus=gpus), KINDS)
    for one in nodes:
        made.node_changed(None, slim_node(one))
    return made


def only(made: NodeList) -> Node:
    (node,) = made.nodes(NOW)
    return node


def a_pod(node: str = "gpu01", owner: str = "Job", **requests: str) -> Any:
    asked = {name.replace("gpu", "nvidia.com/gpu").replace("mig_", "nvidia.com/mig-"): value for name, value in requests.items()}
    spec = {"nodeName": node, "containers": [{"resources": {"requests": asked}}]}
    return slim_use({"metadata": {"ownerReferences": [{"kind": owner}]}, "spec": spec, "status": {"phase": "Running"}})


def a_session(node: Node, share: str) -> Session:
    seat = fit(Request(share=parse_share(share), command=("true",)), Room.empty(node))
    assert isinstance(seat, Seat), seat
    return Session("s1", "one", "kim", SessionKind.BATCH, Request(command=("true",)), NOW, NOW, seat=seat)


def why_not(node: Node, share: str) -> str:
    answer = fit(Request(share=parse_share(share), command=("true",)), Room.empty(node))
    assert isinstance(answer, Refusal), answer
    return answer.why


def test_kinds_are_named_as_everywhere_else():
    node = only(a_list(told(nvidia_com__gpu="8")))
    assert ([gpu.kind for gpu in node.gpus], node.gpus[0].memory_bytes, node.came_at) == (["A100-40GB"] * 8, 40 * 2**30, NOW - timedelta(hours=1))


@pytest.mark.parametrize(
    ("product", "memory", "kind"),
    [("Tesla-T4", "15360", "T4"), ("NVIDIA-A10G", "23028", "A10"), ("NVIDIA-H100-80GB-HBM3", "81559", "H100-80GB"), ("NVIDIA-A100-SXM4-80GB", "", "A100-80GB"), ("Radio-9", "1", "RADIO-9"), ("", "", "GPU")],
)  # fmt: skip
def test_products_of_feature_discovery_are_our_kinds(product, memory, kind):
    labels = {name: value for name, value in {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}.items() if value}
    assert only(a_list(told(labels=labels, nvidia_com__gpu="1"))).gpus[0].kind == kind


def test_mig_instances_are_packed_on_as_few_gpus_as_hold_them():
    node = only(a_list(with_resources(told(), **{"mig_1g.5gb": "7", "mig_3g.20gb": "2"})))
    cuts = [sorted(instance.profile for instance in gpu.instances) for gpu in node.gpus]
    assert cuts == [["3g.20gb", "3g.20gb"], ["1g.5gb"] * 7]
    assert len({instance.uuid for gpu in node.gpus for instance in gpu.instances}) == 9
    for gpu in node.gpus:
        slices = [slice_ for one in gpu.instances for slice_ in range(one.start, one.start + one.size)]
        assert len(slices) == len(set(slices))


def test_a_mig_instance_is_asked_for_by_its_resource_and_media_by_a_dot():
    node = only(a_list(with_resources(told(), **{"mig_1g.5gb": "1", "mig_1g.5gb.me": "1"})))
    assert gpu_resources(a_session(node, "mig:1g.5gb"), NAMES) == {"nvidia.com/mig-1g.5gb": "1"}
    assert gpu_resources(a_session(node, "mig:1g.5gb+me"), NAMES) == {"nvidia.com/mig-1g.5gb.me": "1"}


def test_where_all_are_cut_alike_each_gpu_of_the_plugin_is_an_instance():
    single = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"}
    node = only(a_list(told(labels=single, nvidia_com__gpu="14")))
    assert [len(gpu.instances) for gpu in node.gpus] == [7, 7]
    assert gpu_resources(a_session(node, "mig:1g.5gb"), NAMES) == {"nvidia.com/gpu": "1"}


def test_instances_of_a_kind_that_nobody_knows_are_told_and_given_to_nobody():
    node = only(a_list(with_resources(told(labels={}), **{"mig_1g.5gb": "7"})))
    assert (node.gpus, node.state) == ((), NodeState.READY)
    assert node.state_why == "it has MIG instances (1g.5gb) of a kind of GPU that is not known here: it has no label nvidia.com/gpu.product"


def test_whole_gpus_and_instances_on_one_node_are_both_there():
    node = only(a_list(with_resources(told(nvidia_com__gpu="2"), **{"mig_7g.40gb": "1"})))
    assert [(gpu.index, gpu.mig is None) for gpu in node.gpus] == [(0, True), (1, True), (2, False)]


def test_a_part_of_a_gpu_is_refused_with_what_to_install():
    why = why_not(only(a_list(told(nvidia_com__gpu="1"))), "0.5")
    assert "gives out whole GPUs alone" in why
    assert "agents.dra" in why


def test_replicas_give_out_parts_alone():
    names = GpuNames(fractions=FractionsBy.REPLICAS, replicas=4)
    node = only(a_list(with_resources(told(), **{"nvidia.com/gpu.shared": "8"}), gpus=names))
    assert len(node.gpus) == 2
    assert gpu_resources(a_session(node, "0.25"), names) == {"nvidia.com/gpu.shared": "1"}
    assert "parts of GPUs alone" in why_not(node, "1")


@pytest.mark.parametrize(
    "register",
    ['[{"id": "GPU-a", "count": 10, "devmem": 40960, "health": true}, {"id": "GPU-b", "count": 10, "health": true}]', "GPU-a,10,40960,100,NVIDIA-A100,0,true:GPU-b,10,40960,100,NVIDIA-A100,0,true:"],
)  # fmt: skip
def test_hami_counts_each_gpu_several_times_and_its_own_list_once(register):
    names = GpuNames(fractions=FractionsBy.HAMI)
    one = told(nvidia_com__gpu="20")
    one["metadata"]["annotations"] = {"hami.io/node-nvidia-register": register}
    node = only(a_list(one, gpus=names))
    assert (hami_count(register), len(node.gpus)) == (2, 2)
    assert gpu_resources(a_session(node, "0.5"), names) == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20480", "nvidia.com/gpucores": "50"}


def test_what_others_hold_is_taken_from_what_no_session_has():
    made = a_list(told(nvidia_com__gpu="8"))
    made.use_changed(None, a_pod(cpu="4", gpu="2"))
    node = only(made)
    assert (node.of_others, node.cpus_milli, node.others_cpus_milli) == ((("", 2),), 64_000, 4_000)
    ours = GpuSeat(7, node.gpus[7].uuid, 1000, 0)
    session = Session("s1", "one", "kim", SessionKind.BATCH, Request(), NOW, NOW, seat=Seat("gpu01", 1, 1, (ours,)))
    seen = beside_others(node, held_on([session])["gpu01"])
    assert seen.cpus_milli == 60_000
    assert [gpu.index for gpu in seen.gpus if gpu.mps_stays == THEIRS] == [5, 6]
    room = Room.empty(seen)
    room.take(session.seat)
    assert isinstance(fit(Request(share=parse_share("5"), command=("x",)), room), Seat)
    answer = fit(Request(share=parse_share("6"), command=("x",)), room)
    assert isinstance(answer, Refusal)
    assert THEIRS in answer.why


def test_of_mig_instances_too():
    made = a_list(with_resources(told(), **{"mig_1g.5gb": "7"}))
    made.use_changed(None, a_pod(**{"mig_1g.5gb": "3"}))
    node = only(made)
    held = {node.gpus[0].instances[6].uuid}
    seen = beside_others(node, held)
    assert [instance.uuid[-1] for instance in seen.gpus[0].instances] == ["0", "1", "2", "6"]


def test_a_pod_that_ends_gives_back_what_it_held():
    made, use = a_list(told(nvidia_com__gpu="8")), a_pod(cpu="4", gpu="2")
    made.use_changed(None, use)
    made.use_changed(use, None)
    assert (only(made).of_others, only(made).cpus_milli, only(made).others_cpus_milli) == ((), 64_000, 0)


def test_what_others_hold_is_waited_for_and_what_a_daemon_set_holds_is_never_to_be_had():
    made = a_list(told(nvidia_com__gpu="8"))
    made.use_changed(None, a_pod(cpu="4", gpu="8"))
    made.use_changed(None, a_pod(owner="DaemonSet", cpu="1"))
    node = beside_others(only(made), ())
    check_ever_fits(Request(share=parse_share("8"), cpus_milli=63_000, command=("x",)), [node])
    assert isinstance(fit(Request(share=parse_share("1"), command=("x",)), Room.empty(node)), Refusal)
    with pytest.raises(NeverFits, match="63 CPUs free, 64 asked"):
        check_ever_fits(Request(share=parse_share("8"), cpus_milli=64_000, command=("x",)), [node])


def test_where_a_session_leaves_and_others_are_already_nobody_new_is_put():
    made = a_list(told(nvidia_com__gpu="2"))
    made.use_changed(None, a_pod(gpu="2"))
    node = only(made)
    seen = beside_others(node, {node.gpus[0].uuid})
    assert [gpu.closed for gpu in seen.gpus] == [THEIRS, THEIRS]


def test_an_instance_that_others_hold_is_waited_for():
    made = a_list(with_resources(told(), **{"mig_1g.5gb": "7"}))
    made.use_changed(None, a_pod(**{"mig_1g.5gb": "7"}))
    node = beside_others(only(made), ())
    asked = Request(share=parse_share("mig:1g.5gb"), command=("x",))
    assert isinstance(fit(asked, Room.empty(node)), Refusal)
    check_ever_fits(asked, [node])


def test_a_node_is_the_same_value_until_something_changes():
    made = a_list(told("gpu01", nvidia_com__gpu="8"), told("gpu02", nvidia_com__gpu="8"))
    before = made.nodes(NOW)
    assert all(a is b for a, b in zip(before, made.nodes(NOW + timedelta(seconds=5)), strict=True))
    made.use_changed(None, a_pod("gpu02", gpu="1"))
    after = made.nodes(NOW + timedelta(seconds=7))
    assert (after[0] is before[0], after[1].of_others) == (True, (("", 1),))
    later = made.nodes(NOW + timedelta(minutes=5))
    assert later[0] == replace(before[0], seen_at=NOW + timedelta(minutes=5))


def test_gpus_that_are_known_one_by_one_take_the_place_of_counted_ones_but_not_on_nodes_of_pools():
    made = a_list(told("gpu01", nvidia_com__gpu="2"), told("gpu02", {**A100, "gpufairy.io/pool": "train-gpu"}, nvidia_com__gpu="2"))
    made.known_gpus = lambda node: (Gpu(0, f"GPU-{node}", "A100-40GB", 1),)
    assert [[gpu.uuid for gpu in node.gpus] for node in made.nodes(NOW)] == [["GPU-gpu01"], ["kube:gpu02/gpu/0", "kube:gpu02/gpu/1"]]


def test_nodes_that_went_or_were_not_chosen_are_not_there():
    made = NodeList(PodSettings(node_selector="gpufairy.io/sessions=yes"), KINDS)
    one, other = slim_node(told("gpu01", {"gpufairy.io/sessions": "yes"})), slim_node(told("gpu02"))
    for seen in (one, other):
        made.node_changed(None, seen)
    assert [node.name for node in made.nodes(NOW)] == ["gpu01"]
    made.node_changed(one, None)
    assert made.nodes(NOW) == []


@pytest.mark.slow
def test_a_look_at_five_thousand_nodes_of_which_few_changed_takes_less_than_50_ms():
    made = a_list(*(told(f"gpu{number:04}", nvidia_com__gpu="8") for number in range(5000)))
    assert sum(len(node.gpus) for node in made.nodes(NOW)) == 40_000
    took_s = []
    for look in range(5):
        for number in range(20):
            made.use_changed(None, a_pod(f"gpu{number + look * 20:04}", gpu="1"))
        began = time.process_time()
        made.nodes(NOW + timedelta(seconds=look))
        took_s.append(time.process_time() - began)
    assert min(took_s) < 0.05, took_s
