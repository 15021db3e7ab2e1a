"""`fairy selftest`: progress, a table for each GPU, and an exit code that scripts can ask."""
import json

import pytest

ATTEMPT = {"way": "cuMemAlloc", "of": "memory", "verdict": "enforced", "found": "refused after 69 GiB of a share of 70 GiB"}
TEST = {
    "node": "gpu01", "gpu": "GPU-1", "sharing": "mps", "at": "2026-11-15T08:00:00Z", "driver": "580.159.04",
    "memory": "enforced", "sm": "enforced", "devices": "untried", "evasion": "accounted", "attempts": [ATTEMPT],
}  # fmt: skip
FAILED = {**TEST, "memory": "failed", "attempts": [{**ATTEMPT, "way": "cuMemCreate", "verdict": "failed", "found": "got 71 GiB"}]}
PATH = ("POST", "/selftests/isolation")


@pytest.fixture
def told(server):
    """What the server says, one record a line."""
    def say(*lines):
        server.told[PATH] = lines

    return say


def test_every_way_is_a_row_and_the_last_line_says_it_in_short(told, fairy, server):
    told({"words": "GPU 0 of gpu01"}, {"test": TEST}, {"done": True})
    done = fairy("selftest", "isolation")
    assert done.code == 0, done.err
    assert "gpu01 GPU-1, shared by mps, driver 580.159.04" in done.out
    assert done.out.splitlines()[2].split()[:4] == ["cuMemAlloc", "memory", "enforced", "refused"]
    assert done.out.splitlines()[-1] == "memory: enforced, sm: enforced, devices: untried, evasion: accounted"
    assert "GPU 0 of gpu01" in done.err
    assert server.calls(*PATH)[0].body == {}


def test_what_got_through_is_told_to_scripts_by_the_exit_code(told, fairy, server):
    told({"test": FAILED}, {"done": True})
    done = fairy("selftest", "isolation", "--gpu", "GPU-1", "--json")
    assert done.code == 1
    assert json.loads(done.out) == [FAILED]
    assert server.calls(*PATH)[0].body == {"gpu": "GPU-1"}


def test_a_gpu_that_is_left_out_is_no_failure_and_is_said(told, fairy):
    told({"untested": {"node": "gpu01", "gpu": "GPU-1", "why": "untried: sessions are on it"}}, {"done": True})
    done = fairy("selftest", "isolation")
    assert (done.code, done.out.strip()) == (0, "gpu01 GPU-1: untried: sessions are on it")


def test_without_a_real_gpu_there_is_nothing_to_test(told, fairy):
    told({"done": True})
    assert fairy("selftest", "isolation").out == "No real GPU here; nothing to test.\n"
    done = fairy("selftest", "isolation", "--json")
    assert (done.code, json.loads(done.out)) == (0, [])


def test_an_error_on_the_way_keeps_what_was_found(told, fairy):
    told({"test": TEST}, {"error": "the server is leaving", "next": "Run it again."})
    done = fairy("selftest", "isolation")
    assert done.code == 1
    assert "memory: enforced" in done.out
    assert "the server is leaving" in done.err


def test_the_last_results_are_shown(fairy, server):
    server.answers["GET", "/selftests/isolation"] = {"items": [TEST], "next": None}
    assert "memory: enforced" in fairy("selftest", "show").out
    assert json.loads(fairy("selftest", "show", "--json").out) == [TEST]
    server.answers["GET", "/selftests/isolation"] = {"items": [], "next": None}
    assert "Nothing was tested yet" in fairy("selftest", "show").out


def test_scripts_are_told_of_every_gpu_and_why_one_was_not_tested(told, fairy):
    told({"untested": {"node": "gpu01", "gpu": "GPU-2", "why": "untried: sessions are on it"}}, {"test": TEST}, {"done": True})
    tested, left = json.loads(fairy("selftest", "isolation", "--json").out)
    assert tested == TEST
    assert left == {
        "node": "gpu01", "gpu": "GPU-2", "sharing": None, "at": None, "driver": None, "memory": "untried", "sm": "untried",
        "devices": "untried", "evasion": "untried", "attempts": [], "why": "untried: sessions are on it",
    }  # fmt: skip


def test_nobody_is_told_to_run_what_only_admins_may(fairy, server):
    server.answers["GET", "/selftests/isolation"] = {"items": [], "next": None}
    assert fairy("selftest", "show").out == "Nothing was tested yet. Ask an admin to run `fairy selftest isolation`.\n"
    server.answers["GET", "/me"] = {"name": "boss", "role": "admin"}
    assert fairy("selftest", "show").out == "Nothing was tested yet. Run `fairy selftest isolation`.\n"


def test_one_at_a_time_is_a_refusal(fairy, server):
    server.answers[PATH] = 409, {"title": "In the way", "status": 409, "detail": "a self-test is under way", "next": "Wait for it."}
    done = fairy("selftest", "isolation")
    assert (done.code, "a self-test is under way" in done.err) == (3, True)
