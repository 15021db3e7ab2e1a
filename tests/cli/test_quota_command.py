"""`fairy quota`, `fairy team` and `fairy user share`: what they ask the server, what they print, how they end."""
import json

import pytest

QUOTA = {
    "of": "user:ann", "who": "user:ann", "gpu_kind": "*", "gpus": 4, "gpu_hours": 100, "sessions": None,
    "used": {"gpus": 2.5, "gpu_hours": 33.25, "sessions": 3}, "notes": [],
}  # fmt: skip
EACH = {**QUOTA, "of": "user:*", "who": "user:*", "gpu_kind": "A100", "gpus": 1, "gpu_hours": None, "sessions": 5, "used": None}
TEAM = {"name": "nlp", "share": 2, "users": ["ann", "bob"], "gpus_held": 1.5, "sessions": 3, "created_at": None}


def test_quotas_are_listed_with_what_is_used_of_each(server, fairy):
    mine = {**EACH, "who": "user:ann", "used": {"gpus": 1, "gpu_hours": 0.0, "sessions": 1}}
    server.answers["GET", "/quotas"] = {"items": [QUOTA, EACH, mine], "next": None}
    lines = fairy("quota", "list").out.splitlines()
    assert lines[0].split() == ["OF", "KIND", "GPUS", "GPU-HOURS", "IN", "7", "DAYS", "SESSIONS", "DISK"]
    assert lines[1].split() == ["user:ann", "any", "2.5", "of", "4", "33.25", "of", "100"]
    assert lines[2].split() == ["user:*", "A100", "1", "5"]
    assert lines[3].split() == ["user:*", "(ann)", "A100", "1", "of", "1", "1", "of", "5"]
    assert json.loads(fairy("quota", "list", "--json").out)["items"][0] == QUOTA
    fairy("quota", "list", "--user", "ann")
    assert server.calls("GET", "/quotas")[-1].query == {"user": "ann"}


def test_without_a_quota_that_is_said(server, fairy):
    server.answers["GET", "/quotas"] = {"items": [], "next": None}
    assert fairy("quota", "list").out == "No quotas: GPUs are shared by turns alone.\n"


def test_a_quota_is_set_with_what_is_said_alone_and_its_notes_are_told(server, fairy):
    server.answers["PUT", "/quotas"] = {**QUOTA, "notes": ["4 GPUs by the quota of team:nlp, any kind: that one, the smaller, counts"]}
    done = fairy("quota", "set", "user:ann", "--gpus", "4", "--gpu-hours", "none", "--gpu-kind", "A100")
    assert server.calls("PUT", "/quotas")[0].body == {"of": "user:ann", "gpus": "4", "gpu_hours": "none", "gpu_kind": "A100"}
    assert (done.code, "that one, the smaller, counts" in done.err) == (0, True)


def test_a_quota_is_taken_away(server, fairy):
    server.answers["DELETE", "/quotas"] = (204, None)
    assert fairy("quota", "unset", "team:nlp", "--gpu-kind", "A100").out == "The quota of team:nlp for A100 is gone.\n"
    assert server.calls("DELETE", "/quotas")[0].query == {"of": "team:nlp", "gpu_kind": "A100"}


def test_a_submit_over_the_quota_ends_with_3_and_says_what_helps(server, fairy):
    refused = {"title": "Over the quota", "status": 422, "detail": "quota: ann may hold 4 GPUs at once; 8 asked", "next": "Ask for 4 or fewer."}
    server.answers["POST", "/sessions"] = (422, refused)
    done = fairy("run", "--gpus", "8", "--", "true")
    assert done.code == 3
    assert "ann may hold 4 GPUs at once; 8 asked" in done.err
    assert "Ask for 4 or fewer." in done.err


def test_teams_are_listed_shown_made_changed_and_removed(server, fairy):
    server.answers["GET", "/teams"] = {"items": [TEAM], "next": None}
    server.answers["GET", "/teams/nlp"] = server.answers["POST", "/teams"] = server.answers["PATCH", "/teams/nlp"] = TEAM
    server.answers["DELETE", "/teams/nlp"] = (204, None)
    assert fairy("team", "list").out.splitlines()[1].split() == ["nlp", "2", "1.5", "3", "ann,", "bob"]
    assert json.loads(fairy("team", "list", "--json").out) == {"items": [TEAM]}
    assert "share      2" in fairy("team", "show", "nlp").out
    fairy("team", "add", "nlp", "--share", "2")
    assert server.calls("POST", "/teams")[0].body == {"name": "nlp", "share": 2.0}
    fairy("team", "share", "nlp", "0.5")
    assert server.calls("PATCH", "/teams/nlp")[0].body == {"share": 0.5}
    assert fairy("team", "remove", "nlp").out == "Team nlp is gone.\n"


def test_a_users_share_and_team_are_changed(server, fairy):
    server.answers["PATCH", "/users/ann"] = {"name": "ann", "role": "user", "team": "nlp", "share": 2, "disabled": False}
    assert "share  2" in fairy("user", "share", "ann", "2").out
    fairy("user", "team", "ann", "nlp")
    fairy("user", "team", "ann", "none")
    assert [call.body for call in server.calls("PATCH", "/users/ann")] == [{"share": 2.0}, {"team": "nlp"}, {"team": ""}]


@pytest.mark.parametrize("share", ["nan", "inf", "0"])
@pytest.mark.parametrize("command", [("team", "share", "nlp"), ("team", "add", "nlp", "--share"), ("user", "share", "ann")])
def test_what_is_no_share_is_refused_before_it_is_sent(server, fairy, command, share):
    done = fairy(*command, share)
    assert (done.code, "share: " in done.err) == (2, True)
    assert [asked for asked in server.asked if asked.method != "GET"] == []
