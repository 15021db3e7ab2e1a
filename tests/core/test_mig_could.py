"""Who asks for an instance that no GPU is cut into is told how one could be, and by whom."""
from dataclasses import replace

import pytest

from gpufairy.core.admit import check_ever_fits
from gpufairy.core.errors import NeverFits
from gpufairy.core.explain import explain, outlook
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_could import how_to_cut
from gpufairy.core.plan import plan
from scenes import A100_CUTS, NOW, a_cluster, a_gpu, a_node, a_session

WHOLE = (MigInstance("7g.40gb", 0, 8, "MIG-0"),)
TABLES = {"A100-40GB": A100_CUTS}


def a_cut_node(**fields):
    return replace(a_node(), gpus=(a_gpu(mig=A100_CUTS, **{"instances": WHOLE, **fields}),))


def asked(share="mig:1g.5gb", **fields):
    return a_session("a", gpus=share, **fields).request


def test_a_gpu_in_mig_mode_may_be_cut_anew_or_follow_the_queue():
    node = a_cut_node()
    said = how_to_cut(asked(), [a_node("other"), node], TABLES)
    assert f"`fairy mig apply --gpu {node.gpus[0].uuid} --want 1g.5gb`" in said
    assert f"`fairy mig auto on {node.gpus[0].uuid}`" in said


def test_one_that_is_not_in_mig_mode_can_only_be_cut_by_hand():
    said = how_to_cut(asked(), [a_node()], TABLES)
    assert "`fairy mig apply --gpu " in said
    assert "mig auto" not in said


@pytest.mark.parametrize(
    ("request_", "tables"),
    [(asked("mig:1g.18gb"), TABLES), (asked(), {}), (asked(cpus_milli=999_000), TABLES), (asked(gpu_kind="H200"), TABLES), (asked("0.5"), TABLES)],
)
def test_what_no_cut_would_help_is_given_no_false_hope(request_, tables):
    assert how_to_cut(request_, [a_node()], tables) is None


def next_step(node):
    waiting = a_session("a", gpus="mig:1g.5gb")
    cluster = a_cluster([node], [waiting])
    return explain(waiting, outlook(cluster, plan(cluster, NOW), NOW, 100), [], NOW).next_step


def test_one_who_waits_while_the_cut_was_changed_under_it_is_told_that_it_does_not_start_by_itself():
    assert next_step(a_cut_node()) == (
        "No GPU is cut for mig:1g.5gb now. An admin can cut one (`fairy mig apply`), or let cuts follow the queue (`fairy mig auto`)."
    )
    assert next_step(a_cut_node(mig_auto=True)) == "It starts by itself when room appears."


@pytest.mark.parametrize("node", [a_node(), a_cut_node()])
def test_the_door_does_not_call_never_what_an_admin_can_cut(node):
    with pytest.raises(NeverFits, match="no GPU here is cut for mig:") as refused:
        check_ever_fits(asked(), [node], TABLES)
    assert "fairy mig apply" in refused.value.next_step
    with pytest.raises(NeverFits, match="can ever hold this"):
        check_ever_fits(asked("mig:1g.18gb"), [node], TABLES)
