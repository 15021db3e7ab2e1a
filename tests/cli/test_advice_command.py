"""`fairy advice`, and what `show` and `run` tell of a session that is over."""
import json

from fake_server import Job, ended, running

ITEM = {
    "session": "brave-otter", "id": "id-brave-otter", "owner": "student1", "state": "RUNNING", "simulated": False, "code": "loader_starves",
    "sentence": "The data loader starves the GPU: GPU 23 % while its 4 CPUs are at 98 %.", "next": "Ask for 8 CPUs.", "confidence": 0.93,
    "evidence": [{"what": "gpu", "value": 0.23, "unit": "ratio", "of": None}, {"what": "cpus", "value": 3.92, "unit": "cpus", "of": 4.0}],
    "window_s": 1800, "saves_gpus": 0.77,
}  # fmt: skip
LINES = ["held 2.00 GPU-hours, used 0.46 GPU-hours (23 %)", "would have sufficed: --gpus 0.5"]
SUMMARY = {"session": "brave-otter", "summary": {"ran_s": 7200, "lines": LINES}}
TIMES = {"started_at": "2026-11-15T08:00:00Z", "ended_at": "2026-11-15T10:00:00Z"}


def test_advice_is_a_sentence_what_to_do_and_the_figures(server, fairy):
    server.answers["GET", "/advice"] = {"items": [ITEM], "looked_at": 1, "next": None}
    done = fairy("advice")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "brave-otter: The data loader starves the GPU: GPU 23 % while its 4 CPUs are at 98 %.",
        "  Ask for 8 CPUs.",
        "  sure, by the last 30 min: GPU 23 %, CPUs 3.9 of 4",
    ]


def test_one_session_and_those_of_others_are_asked_for_by_name(server, fairy):
    server.answers["GET", "/advice"] = {"items": [{**ITEM, "simulated": True}], "looked_at": 1, "next": None}
    assert "simulated" in fairy("advice", "brave-otter").out
    assert "student1+brave-otter" in fairy("advice", "--all-users").out
    fairy("advice", "--user", "student1")
    assert [call.query for call in server.calls("GET", "/advice")] == [{"session": "brave-otter"}, {"all_users": "1"}, {"user": "student1"}]


def test_where_nothing_is_to_be_said_that_is_said(server, fairy):
    server.answers["GET", "/advice"] = {"items": [], "looked_at": 0, "next": None}
    assert "None of your sessions runs" in fairy("advice").out
    server.answers["GET", "/advice"] = {"items": [], "looked_at": 2, "next": None}
    assert "Nothing to improve is seen in 2 sessions" in fairy("advice").out


def test_scripts_get_what_the_server_said(server, fairy):
    server.answers["GET", "/advice"] = answer = {"items": [ITEM], "looked_at": 1, "next": None}
    assert json.loads(fairy("advice", "--json").out) == answer


def test_show_tells_advice_and_summary_and_does_without_them(server, fairy):
    server.jobs["brave-otter"] = Job([ended(**TIMES)])
    assert fairy("show", "brave-otter").code == 0, "a server that knows nothing of advice"
    server.answers["GET", "/advice"] = {"items": [ITEM], "looked_at": 1, "next": None}
    server.answers["GET", "/sessions/id-brave-otter/summary"] = SUMMARY
    shown = fairy("show", "brave-otter").out
    assert "would have sufficed: --gpus 0.5" in shown
    assert "The data loader starves the GPU" in shown
    plain = json.loads(fairy("show", "brave-otter", "--json").out)
    assert (plain["advice"], plain["summary"]) == ([ITEM], SUMMARY["summary"])


def test_a_job_that_ran_for_a_while_ends_with_its_summary_on_the_error_output(server, fairy):
    server.add(Job([running(), ended(**TIMES)], [b"trained\n"]))
    server.answers["GET", "/sessions/id-brave-otter/summary"] = SUMMARY
    done = fairy("run", "--", "python", "train.py")
    assert (done.code, done.out) == (0, "trained\n")
    for line in LINES:
        assert f"fairy: brave-otter {line}" in done.err


def test_a_short_job_ends_without_a_word(server, fairy):
    server.add(Job([running(), ended(**{**TIMES, "ended_at": "2026-11-15T08:00:30Z"})]))
    assert "held" not in fairy("run", "--", "true").err
    assert not server.calls("GET", "/sessions/id-brave-otter/summary")
