"""`fairy ledger`: who is ahead, who behind; what the caller may not see is left blank, what nobody knows is a question mark."""
import json

ROW = {
    "team": "nlp", "held_gpu_hours": 8, "charged_gpu_hours": 9.5, "entitled_gpu_hours": 4.5, "ahead_gpu_hours": 3.5, "used_gpu_hours": 3,
    "unknown_gpu_hours": 0, "used_shown": True, "held_part_us": 0, "entitled_part_us": 0, "lent": 0, "shrunk": 0, "reclaimed": 2, "preempted": 0,
}  # fmt: skip
HIDDEN = {"used_gpu_hours": None, "unknown_gpu_hours": None, "used_shown": False}
LEDGER = {
    "by": "user", "since": "2026-11-08T08:00:00Z", "until": "2026-11-15T08:00:00Z", "total": {"held_gpu_hours": 9}, "next": None,
    "items": [
        {"name": "bob", **ROW, "team": None, "held_gpu_hours": 1, "ahead_gpu_hours": -3.5, "reclaimed": 0, **HIDDEN},
        {"name": "eve", **ROW, "used_gpu_hours": None, "held_gpu_hours": 0, "ahead_gpu_hours": 0, "reclaimed": 0},
        {"name": "ann", **ROW},
    ],
}  # fmt: skip


def test_ahead_and_behind_have_their_sign_and_only_what_happened_is_counted(server, fairy):
    server.answers["GET", "/ledger"] = LEDGER
    done = fairy("ledger", "--since", "7d")
    assert done.code == 0, done.err
    head, bob, eve, ann, *_ = [line.split() for line in done.out.splitlines()]
    assert head == ["USER", "TEAM", "HELD", "GPU-H", "ENTITLED", "AHEAD", "CHARGED", "USED", "RECLAIMED"]
    assert bob == ["bob", "1.00", "4.50", "-3.50", "9.50", "0"]
    assert eve == ["eve", "nlp", "0.00", "4.50", "+0.00", "9.50", "?", "0"]
    assert ann == ["ann", "nlp", "8.00", "4.50", "+3.50", "9.50", "3.00", "2"]
    assert "9.00 GPU-hours in all" in done.out
    assert server.calls("GET", "/ledger")[0].query == {"since": "7d", "by": "user"}


def test_teams_have_no_team(server, fairy):
    server.answers["GET", "/ledger"] = {**LEDGER, "by": "team", "items": [{"name": "nlp", **ROW}]}
    assert fairy("ledger", "--by", "team").out.splitlines()[1].split()[:2] == ["nlp", "8.00"]


def test_nothing_held_is_said(server, fairy):
    server.answers["GET", "/ledger"] = {**LEDGER, "items": []}
    assert "Nobody held or wanted a GPU" in fairy("ledger").out


def test_scripts_get_what_the_server_said(server, fairy):
    server.answers["GET", "/ledger"] = LEDGER
    assert json.loads(fairy("ledger", "--until", "1h", "--json").out) == LEDGER
    assert server.calls("GET", "/ledger")[0].query == {"until": "1h", "by": "user"}
