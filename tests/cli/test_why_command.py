"""`fairy why` and `fairy queue`: when, in what range, who has to leave, and what would help."""
import pytest
from fake_server import a_session

WHY = {
    "session": a_session(state="PENDING"), "summary": "no room", "place": 3, "of": 10, "next": "It starts by itself. With --time 50m it would.",
    "forecast_start": "2030-01-02T03:04:00Z", "forecast_low": "2030-01-02T02:00:00Z", "forecast_high": "2030-01-02T05:00:00Z",
    "forecast_why": "2 GPUs come free on gpu01 when a session of ann ends", "own_time": "without --time it is taken to run 2 h",
    "nodes": [{"node": "gpu01", "refusal": "has 0 GPUs free"}], "more_nodes": 40,
    "helps": ["With --time 50m it would.", "With --gpus 1 it would start now."],
}  # fmt: skip
PLACE = {"place": 1, "name": None, "owner": "x", "gpus": "1", "since": None, "why": "", **{key: WHY[key] for key in WHY if "forecast" in key}}


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")


def why(server, fairy, **fields):
    server.answers["GET", "/sessions/brave-otter/why"] = {**WHY, **fields}
    done = fairy("why", "brave-otter")
    assert done.code == 0
    return done.out


def test_why_tells_when_in_what_range_and_who_has_to_leave(server, fairy):
    said = why(server, fairy)
    assert "starts about 2030-01-02 03:04 (2030-01-02 02:00 to 2030-01-02 05:00), in " in said
    assert ": 2 GPUs come free on gpu01 when a session of ann ends" in said
    assert "without --time it is taken to run 2 h" in said
    assert "and 40 more nodes" in said


def test_why_tells_what_would_help_once(server, fairy):
    said = why(server, fairy)
    assert said.count("With --time 50m it would.") == 1
    assert "  or: With --gpus 1 it would start now." in said


def test_a_start_of_which_nobody_knows_how_late_it_may_be_is_told_so(server, fairy):
    assert "03:04 (2030-01-02 02:00 or later), in" in why(server, fairy, forecast_high=None)
    unknown = why(server, fairy, forecast_start=None, forecast_high=None, forecast_why="not known: it waits for others")
    assert "start not known: it waits for others; not before 2030-01-02 02:00" in unknown


def test_a_server_that_tells_no_range_is_understood(server, fairy):
    server.answers["GET", "/sessions/brave-otter/why"] = {key: WHY[key] for key in ("session", "summary", "place", "of", "forecast_start")}
    said = fairy("why", "brave-otter").out
    assert "starts about 2030-01-02 03:04, in" in said


def test_the_queue_tells_the_range_or_that_nobody_knows(server, fairy):
    unknown = {**PLACE, "forecast_start": None, "forecast_low": None, "forecast_high": None}
    server.answers["GET", "/queue"] = {"items": [PLACE, unknown], "waiting": 2}
    said = " ".join(fairy("queue").out.split())
    assert "03:04" in said
    assert "not known" in said
