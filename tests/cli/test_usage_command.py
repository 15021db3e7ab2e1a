"""`fairy usage`: three figures that are never mixed up, and lines of bars."""
import json

import pytest

from gpufairy.cli.usage import amount, sparkline

ROW = {"held_gpu_hours": 8.0, "used_gpu_hours": 3.0, "unknown_gpu_hours": 2.0, "outside_gpu_hours": 0.5}
USAGE = {
    "by": "user", "since": "2026-11-08T08:00:00Z", "until": "2026-11-15T08:00:00Z", "left_off": 0, "next": None,
    "items": [
        {"name": "ann", **ROW},
        {"name": "bob", "held_gpu_hours": 1.0, "used_gpu_hours": None, "unknown_gpu_hours": 1.0, "outside_gpu_hours": None},
    ],
}  # fmt: skip
SERIES = {
    "kind": "session", "name": "brave-otter", "node": "gpu01", "nodes": ["gpu01"], "step_s": 10,
    "times": ["2026-11-15T08:00:00.000Z", "2026-11-15T08:00:10.000Z", "2026-11-15T08:00:20.000Z"],
    "columns": {
        "gpus_used": {"unit": "gpus", "mean": [0.0, None, 0.5]},
        "gpu_memory_bytes": {"unit": "bytes", "mean": [2**30, 2**30, 2**31], "max": [2**30, 2**30, 2**31]},
        "cpus": {"unit": "cpus", "mean": [None, None, None]},
    },
}  # fmt: skip


def test_held_used_and_not_known_are_columns_of_their_own(server, fairy):
    server.answers["GET", "/usage"] = USAGE
    done = fairy("usage", "--since", "7d")
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[1] == ["ann", "8.00", "3.00", "50%", "2.00", "0.50"]
    assert lines[2] == ["bob", "1.00", "?", "1.00", "?"]
    assert server.calls("GET", "/usage")[0].query == {"since": "7d", "by": "user"}


def test_gpus_and_sessions_are_named_as_people_know_them(server, fairy):
    gpu = {"name": "GPU-1", "uuid": "GPU-1", "node": "gpu01", "index": 0, "kind": "A100-40GB", **ROW, "outside_gpu_hours": None}
    server.answers["GET", "/usage"] = {**USAGE, "by": "gpu", "items": [gpu]}
    assert "gpu01 0 A100-40GB" in fairy("usage", "--by", "gpu").out
    session = {"name": "brave-otter", "id": "1", "owner": "ann", "state": "ENDED", **ROW, "outside_gpu_hours": None}
    server.answers["GET", "/usage"] = {**USAGE, "by": "session", "items": [session]}
    assert fairy("usage", "--by", "session").out.splitlines()[1].split()[:2] == ["brave-otter", "ann"]


def test_a_session_is_shown_as_lines_of_bars_with_blanks_for_what_is_not_known(server, fairy):
    server.answers["GET", "/sessions/brave-otter/readings"] = SERIES
    done = fairy("usage", "--session", "brave-otter", "--since", "1h")
    assert done.code == 0, done.err
    assert "▁ █" in done.out
    assert "2 GiB" in done.out
    assert "cpus" not in done.out
    assert server.asked[-1].query == {"since": "1h"}


def test_nothing_known_yet_is_said(server, fairy):
    server.answers["GET", "/sessions/brave-otter/readings"] = {**SERIES, "times": [], "columns": {}}
    assert "Nothing is known of brave-otter yet" in fairy("usage", "--session", "brave-otter").out
    server.answers["GET", "/usage"] = {**USAGE, "items": []}
    assert "Nothing was held or used" in fairy("usage").out


def test_scripts_get_what_the_server_said(server, fairy):
    server.answers["GET", "/usage"] = USAGE
    assert json.loads(fairy("usage", "--json").out) == USAGE


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0.0, 0.0], "▁▁"), ([None, None], "  "), ([0, 0.5, 1.0], "▁▅█"), ([1.0] * 500, "█" * 60), ([0.0] * 60 + [8.0] * 60, "▁" * 30 + "█" * 30)],
)
def test_bars_go_from_nothing_to_the_highest(values, line):
    assert sparkline(values) == line


def test_amounts_carry_their_unit():
    assert [amount(2**31, "bytes"), amount(0.25, "ratio"), amount(1.5, "gpus"), amount(3.0, "cpus")] == ["2 GiB", "25%", "1.5", "3"]
