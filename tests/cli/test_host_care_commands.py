"""`fairy leaks`, `fairy node maintenance` and `fairy alerts uptime`: what is asked, and what of the answer is printed."""
import json

import pytest

LEAK = {
    "kind": "memory held by nobody", "thing": "gpu01 GPU 0", "node": "gpu01", "sentence": "gpu01 GPU 0 has 26 GiB in use that no process has",
    "todo": "Look there.", "since": "2026-11-15T08:00:00Z", "seen_at": "2026-11-15T08:02:00Z", "looks": 3, "looks_needed": 3, "sure": True,
    "mending_since": None,
}  # fmt: skip
REPORT = {
    "items": [LEAK, {**LEAK, "looks": 1, "sure": False, "sentence": "gpu01 GPU 1 has 2 GiB in use that no process has"}], "next": None,
    "mended": [{"at": "2026-11-15T07:00:00Z", "about": "node here", "what": "on here ran what was session x of ann, which is over: it was stopped"}],
    "looked_at": "2026-11-15T08:02:00Z", "engine_answers": True, "repair": "mend",
}  # fmt: skip
WINDOW = {
    "id": "a1b2c3", "node": "gpu01", "start": "2026-11-20T09:00:00Z", "end": "2026-11-20T11:00:00Z", "made_by": "kim", "why": "new disk", "open": False,
}  # fmt: skip


def test_leaks_are_told_with_how_sure_they_are_what_to_do_and_what_was_put_right(fairy, server):
    server.answers["GET", "/leaks"] = REPORT
    out = fairy("leaks").out
    assert "gpu01 GPU 0 has 26 GiB in use that no process has" in out
    assert "seen 1 of 3 times" in out
    assert "Look there." in out
    assert "it was stopped" in out
    assert json.loads(fairy("leaks", "--json").out) == REPORT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"items": []}, "Nothing is held by nobody"),
        ({"items": [], "looked_at": None}, "Nobody has looked yet"),
        ({"items": [], "engine_answers": False}, "The engine did not answer"),
    ],
)
def test_where_there_is_nothing_or_nobody_answered_that_is_said(fairy, server, changed, words):
    server.answers["GET", "/leaks"] = {**REPORT, "mended": [], **changed}
    assert words in fairy("leaks").out


def test_maintenance_is_planned_in_the_users_own_time_listed_and_ended(fairy, server):
    server.answers["POST", "/nodes/gpu01/maintenance"] = WINDOW
    out = fairy("node", "maintenance", "gpu01", "--from", "2026-11-20T09:00:00Z", "--for", "2h", "--why", "new disk").out
    assert "gpu01 is worked on from" in out
    assert "Call it off: fairy node maintenance --end a1b2c3" in out
    assert server.calls("POST", "/nodes/gpu01/maintenance")[0].body == {"start": "2026-11-20T09:00:00+00:00", "time": "2h", "why": "new disk"}
    server.answers["GET", "/maintenance"] = {"items": [WINDOW], "next": None}
    assert "new disk" in fairy("node", "maintenance").out
    assert json.loads(fairy("node", "maintenance", "--json").out)["items"] == [WINDOW]
    server.answers["GET", "/maintenance"] = {"items": [], "next": None}
    assert "No maintenance is planned" in fairy("node", "maintenance").out
    server.answers["DELETE", "/maintenance/a1b2c3"] = WINDOW
    assert "The window of gpu01 is over." in fairy("node", "maintenance", "--end", "a1b2c3").out


def test_a_time_that_is_none_is_refused_before_the_server_is_asked(fairy, server):
    done = fairy("node", "maintenance", "gpu01", "--from", "someday", "--for", "2h", "--why", "x")
    assert (done.code, "is no time" in done.err) == (2, True)
    assert server.calls("POST", "/nodes/gpu01/maintenance") == []


def test_uptime_tells_what_was_planned_and_what_nobody_watched(fairy, server):
    down = {"since": "2026-11-15T08:00:00Z", "until": None, "why": "it is back; the host was started anew", "planned": False}
    record = {"node": "gpu01", "since": "2026-11-01T00:00:00Z", "part": 0.99, "downtimes": [down], "planned_s": 3600.0, "unwatched_s": 0.0}
    server.answers["GET", "/alerts/uptime"] = {"items": [record], "next": None}
    out = fairy("alerts", "uptime").out
    assert "99.000 %" in out
    assert "1 h" in out
    assert "started anew" in out
