"""What an agent tells its server, and what it does when that cannot be told."""
import base64
import logging
import random
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from report_scene import EPOCH, FakeServer, listening

from gpufairy.core.agent import signed_bytes
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.sample_plain import to_plain
from gpufairy.node import reporter as reporter_module
from gpufairy.node.identity import Identity
from gpufairy.node.pace import FIRST_LATE, MOST_LATE, Pace
from gpufairy.node.reporter import Reporter, Told
from gpufairy.node.spool import Spool
from prometheus import NOON, a_sample, many_processes

pytestmark = pytest.mark.slow

KEY = Identity(b"k" * 32)
NOWHERE = "http://127.0.0.1:1"  # nobody listens there


def a_reporter(folder: Path, url: str, **more: object) -> Reporter:
    return Reporter("gpu01", url, KEY, Spool(folder / "spool"), **{"pace": Pace(lambda: 0.0), **more})


def sample_at(second: int) -> NodeSample:
    return a_sample(at=NOON + timedelta(seconds=second))


def times(report: dict) -> list[int]:
    """The seconds of the samples in a report."""
    return [int(sample["at"][17:19]) for sample in report["samples"]]


async def test_a_report_is_signed_whole_and_numbered(tmp_path):
    with listening(FakeServer()) as server:
        reporter = a_reporter(tmp_path, server.url)
        assert await reporter.report([sample_at(0)])
        assert await reporter.report([sample_at(5)])
        reporter.end()
    assert server.hellos == [{"name": "gpu01", "key": KEY.public}]
    assert [report["headers"]["fairy-sequence"] for report in server.reports] == ["1", "2"]
    for number, report in enumerate(server.reports, 1):
        assert report["path"] == "/api/v1/agents/gpu01/reports"
        signature = base64.b64decode(report["headers"]["fairy-signature"])
        Ed25519PublicKey.from_public_bytes(base64.b64decode(KEY.public)).verify(signature, signed_bytes("gpu01", EPOCH, number, report["raw"]))


async def test_several_samples_are_told_as_their_mean(tmp_path):
    with listening(FakeServer()) as server:
        reporter = a_reporter(tmp_path, server.url)
        await reporter.report([sample_at(second) for second in range(5)])
        assert not await reporter.report([])
        reporter.end()
    [report] = server.reports
    assert times(report) == [4]
    assert report["samples"][0]["seconds"] == 5


async def test_one_that_is_not_let_in_keeps_what_it_sees_and_says_what_an_admin_must_do(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with listening(FakeServer(accepts=False)) as server:
        reporter = a_reporter(tmp_path, server.url)
        for second in (0, 5):
            assert not await reporter.report([sample_at(second)])
        assert (reporter.standing.accepted, server.reports) == (False, [])
        server.accepts = True
        assert await reporter.report([sample_at(10)])
        reporter.end()
    assert [times(report) for report in server.reports] == [[0, 5, 10]]
    said = [record.message for record in caplog.records if "fairy node accept gpu01" in record.message]
    assert len(said) == 1, "once, not every five seconds"
    assert KEY.fingerprint in said[0]


async def test_what_a_server_that_is_not_reached_misses_is_delivered_later_in_order(tmp_path):
    reporter = a_reporter(tmp_path, NOWHERE)
    for second in (0, 5):
        assert not await reporter.report([sample_at(second)])
    assert (reporter.standing.reached, bool(reporter.spool)) == (False, True)
    with listening(FakeServer()) as server:
        again = a_reporter(tmp_path, server.url)  # started again meanwhile
        assert await again.report([sample_at(10)])
        assert await again.report([sample_at(15)])
        again.end()
    assert [times(report) for report in server.reports] == [[0, 5, 10], [15]]
    assert (again.standing.sent, again.standing.late, bool(again.spool)) == (2, 2, False)


@pytest.mark.parametrize("answer", [(503, {"detail": "the server has as many reports in hand as it can work on"}), None])
async def test_a_server_that_cannot_keep_up_is_sent_half_and_later_more_again(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(reporter_module, "ANSWER_LIMIT_S", 0.1)
    reporter = a_reporter(tmp_path, NOWHERE, pace=Pace(lambda: 0.0, late=8))
    reporter.spool.keep([to_plain(sample_at(0)) for _ in range(40)])
    with listening(FakeServer(answers=[answer, answer])) as server:
        reporter.url = server.url
        assert [await reporter.report([sample_at(second)]) for second in range(5)] == [False, False, True, True, True]
        reporter.end()
    assert [len(report["samples"]) - 1 for report in server.reports] == [8, 4, 2, 4, 8]
    assert len(server.hellos) == 1, "it is known as before"


async def test_a_server_that_is_not_there_at_all_changes_nothing_about_the_pace(tmp_path):
    reporter = a_reporter(tmp_path, NOWHERE)
    for _ in range(5):
        await reporter.report([sample_at(0)])
    assert reporter.pace.late == FIRST_LATE


def test_a_crowd_does_not_move_in_step():
    chance = random.Random(7)
    crowd = [Pace(chance.random) for _ in range(200)]
    for one in crowd:
        for _ in range(4):
            one.went_well(more_waits=True)
    assert {one.late for one in crowd} == {4, 8, 16, MOST_LATE}
    waits = [one.wait_s(5.0, went_well=False) for one in crowd]
    assert 3 <= min(waits) < 4
    assert 6 < max(waits) <= 7
    assert crowd[0].wait_s(5.0, went_well=True) == 5.0


def test_a_pace_that_was_nothing_grows_again_and_the_next_outage_begins_gently():
    pace = Pace(lambda: 0.0, late=1)
    pace.was_too_much()
    pace.was_too_much()
    assert pace.late == 0
    pace.went_well(more_waits=True)
    assert pace.late == 1
    pace.late = MOST_LATE
    pace.went_well(more_waits=False)
    assert pace.late == FIRST_LATE


async def test_a_long_absence_is_delivered_in_parts_that_the_server_takes(tmp_path):
    reporter = a_reporter(tmp_path, NOWHERE)
    for _ in range(40):
        await reporter.report([sample_at(0)])
    with listening(FakeServer()) as server:
        reporter.url = server.url
        reporter._line = None
        for second in range(5):
            assert await reporter.report([sample_at(second)])
        reporter.end()
    assert [len(report["samples"]) - 1 for report in server.reports] == [4, 8, 16, 12, 0]


async def test_large_samples_go_in_reports_of_less_than_a_mebibyte(tmp_path):
    reporter = a_reporter(tmp_path, NOWHERE)
    large = many_processes(500)
    for _ in range(12):
        await reporter.report([large])
    with listening(FakeServer()) as server:
        again = a_reporter(tmp_path, server.url)
        while again.spool:
            assert await again.report([large])
        again.end()
    assert max(len(report["raw"]) for report in server.reports) < 2**20
    assert sum(len(report["samples"]) - 1 for report in server.reports) == 12


async def test_a_server_that_was_started_anew_gets_another_hello_and_the_same_report_at_once(tmp_path):
    with listening(FakeServer()) as server:
        reporter = a_reporter(tmp_path, server.url)
        await reporter.report([sample_at(0)])
        server.answers = [(409, {"detail": "the agent of gpu01 must begin anew"})]
        assert await reporter.report([sample_at(5)])
        reporter.end()
    assert len(server.hellos) == 2
    assert [(times(report), report["headers"]["fairy-sequence"]) for report in server.reports] == [([0], "1"), ([5], "2"), ([5], "1")]
    assert not reporter.spool


async def test_a_server_that_says_begin_anew_for_ever_is_asked_once_a_report(tmp_path):
    with listening(FakeServer()) as server:
        server.answers = [(409, {"detail": "no"})] * 2
        reporter = a_reporter(tmp_path, server.url)
        assert not await reporter.report([sample_at(0)])
        assert len(server.reports) == 2
        assert await reporter.report([sample_at(5)])
        reporter.end()
    assert times(server.reports[-1]) == [0, 5]


@pytest.mark.parametrize("status", [400, 413])
async def test_what_the_server_will_never_take_is_given_up_and_told(tmp_path, caplog, status):
    with listening(FakeServer()) as server:
        reporter = a_reporter(tmp_path, server.url)
        reporter.spool.keep([{"node": "gpu01", "nonsense": True}])
        server.answers = [(status, {"detail": "report of gpu01: nonsense"})]
        assert not await reporter.report([sample_at(0)])
        assert not reporter.spool
        assert await reporter.report([sample_at(5)])
        reporter.end()
    assert times(server.reports[-1]) == [5]
    assert [record.message for record in caplog.records if "2 samples are given up" in record.message and "nonsense" in record.message]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503, 507])
async def test_what_is_refused_for_now_is_kept(tmp_path, status):
    with listening(FakeServer()) as server:
        server.answers = [(status, {"detail": "not now"})]
        reporter = a_reporter(tmp_path, server.url)
        assert not await reporter.report([sample_at(0)])
        assert reporter.standing.words == "not now"
        assert await reporter.report([sample_at(5)])
        reporter.end()
    assert times(server.reports[-1]) == [0, 5]


@pytest.mark.parametrize("odd", [5, True, "USER_*", {"a": 1}, [1, None, ["x"]], [["USER_*"]]], ids=str)
async def test_an_odd_answer_does_not_end_the_agent(tmp_path, odd):
    heard: list[Told] = []
    with listening(FakeServer(told={"name_rules": odd, "users": odd, "refused": odd})) as server:
        reporter = a_reporter(tmp_path, server.url, on_told=heard.append)
        assert await reporter.report([sample_at(0)])
        reporter.end()
    assert heard == [Told()]


@pytest.mark.parametrize("epoch", [5, ["x"], {}, "1.0\r\nHost: elsewhere", "\u00e9", "x" * 1000], ids=range(6))
async def test_an_odd_epoch_is_none(tmp_path, epoch):
    with listening(FakeServer(told={"epoch": epoch})) as server:
        reporter = a_reporter(tmp_path, server.url)
        assert not await reporter.report([sample_at(0)])
        assert not reporter.standing.accepted
        reporter.end()


async def test_what_the_server_did_not_believe_is_in_the_log_and_is_not_sent_again(tmp_path, caplog):
    told = {"kept": 1, "refused": [{"at": "2026-11-15T12:00:00+00:00", "why": "seconds: -1 is not between 0 and 3600"}] * 50}
    with listening(FakeServer(answers=[(200, told)])) as server:
        reporter = a_reporter(tmp_path, server.url)
        reporter.spool.keep([to_plain(sample_at(0))])
        assert await reporter.report([sample_at(5)])
        assert not reporter.spool
        reporter.end()
    assert len([record for record in caplog.records if "seconds: -1" in record.message]) == 3


async def test_the_rules_of_the_server_are_heard(tmp_path):
    heard: list[Told] = []
    with listening(FakeServer(told={"name_rules": ["USER_*"], "user_labels": ["owner"]})) as server:
        reporter = a_reporter(tmp_path, server.url, on_told=heard.append)
        await reporter.report([sample_at(0)])
        reporter.end()
    assert set(heard) == {Told(("USER_*",), ("owner",))}


async def test_what_was_seen_and_not_told_at_the_end_is_told_after_the_next_start(tmp_path):
    with listening(FakeServer()) as server:
        reporter = a_reporter(tmp_path, server.url)
        await reporter.report([sample_at(0)])
        reporter.end([sample_at(1), sample_at(2)])
        again = a_reporter(tmp_path, server.url)
        await again.report([sample_at(5)])
        again.end()
    assert [times(report) for report in server.reports] == [[0], [2, 5]]


async def test_a_server_that_is_gone_for_days_fills_no_log(tmp_path, caplog):
    reporter = a_reporter(tmp_path, NOWHERE)
    for _ in range(20):
        await reporter.report([sample_at(0)])
    assert len(caplog.records) == 1
