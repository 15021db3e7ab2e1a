"""`fairy mig` without a server where none is needed, and how a cut is drawn."""
import json
from datetime import UTC, datetime

import pytest

from gpufairy.cli.mig_bar import bar, instance_line, offer_lines, title

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HELD = {"profile": "3g.20gb", "start": 4, "size": 4, "uuid": "MIG-b", "in_use": True, "holder": {"owner": "kim", "session": "train", "since": "2026-11-15T10:00:00Z"}}
FREE = {"profile": "1g.5gb", "start": 0, "size": 1, "uuid": "MIG-a", "in_use": False, "holder": None}
GPU = {
    "node": "box", "index": 0, "uuid": "GPU-1", "kind": "A100-40GB", "simulated": True, "mig": True, "on_demand": False, "auto": True, "cutting": False,
    "memory_slices": 8, "instances": [FREE, HELD], "profiles": [], "held": [], "changes": [],
    "offers": [{"profile": "1g.5gb", "fits": True, "touched": 0}, {"profile": "4g.20gb", "fits": True, "touched": 1}, {"profile": "7g.40gb", "fits": False, "touched": 0}],
}  # fmt: skip


def test_a_cut_is_drawn_where_it_lies_and_is_read_without_colours():
    assert bar(GPU).plain == "[1g.5gb-] ········· ········· ········· #3g.20gb kim==========================# "
    assert title(GPU).plain == "box GPU 0  A100-40GB simulated  3g.20gb + 1g.5gb, follows the queue  GPU-1"
    assert instance_line(HELD, NOW).plain.split() == ["4", "3g.20gb", "held", "by", "kim/train,", "for", "2", "h", "MIG-b"]
    assert [line.plain.strip() for line in offer_lines(GPU)] == ["still fits: 1g.5gb", "one more 4g.20gb: 1 idle instance would go", "not now: 7g.40gb"]


def test_what_strangers_wrote_cannot_move_the_cursor():
    evil = {**HELD, "holder": {"owner": "kim\x1b[2J", "session": "a\nb", "since": None}}
    assert "\x1b" not in bar({**GPU, "instances": [evil]}).plain + instance_line(evil, NOW).plain
    assert "\n" not in instance_line(evil, NOW).plain


def test_a_plan_for_a_kind_asks_no_server(fairy, server):
    done = fairy("mig", "plan", "--kind", "h200", "--want", "3g.71gb,1g.18gb", "--json")
    plan = json.loads(done.out)
    assert (done.code, plan["fits"], plan["touched"]) == (0, True, [])
    assert plan["placements"][0] == {"profile": "3g.71gb", "start": 4, "size": 4}


@pytest.mark.parametrize("options", [("--kind", "H201", "--want", "1g.18gb"), ("--kind", "H200", "--want", "9g.1gb"), ("--kind", "H200", "--gpu", "GPU-1", "--want", "1g.18gb"), ("--kind", "V100", "--want", "1g.5gb")])
def test_mistakes_are_usage(fairy, options):
    done = fairy("mig", "plan", *options)
    assert (done.code, "→" in done.err) == (2, True)


def test_all_that_follow_the_queue_are_those_in_mig_mode_and_the_others_are_named(fairy, server):
    server.answers["GET", "/mig"] = {"items": [GPU, {**GPU, "index": 1, "uuid": "GPU-2", "mig": False}], "next": None}
    server.answers["POST", "/mig/auto"] = {"gpus": [], "on": True}
    done = fairy("mig", "auto", "on", "--all")
    assert (done.code, done.out) == (0, "the cut of 1 GPU follows the queue\n")
    assert "box GPU 1 is not in MIG mode" in done.err
    assert "fairy mig apply --gpu GPU-2" in done.err
    assert fairy("mig", "auto", "off", "--all").out == "the cut of 2 GPUs stays as it is\n"
    assert [call.body["gpus"] for call in server.calls("POST", "/mig/auto")] == [["GPU-1"], ["GPU-1", "GPU-2"]]


def test_without_one_in_mig_mode_nothing_is_changed(fairy, server):
    server.answers["GET", "/mig"] = {"items": [{**GPU, "mig": False}], "next": None}
    done = fairy("mig", "auto", "on", "--all")
    assert (done.code, done.out) == (3, "")
    assert not server.calls("POST", "/mig/auto")
