"""Reports as somebody else would send them: forged, recorded, altered, absurd. Each is refused in words, and changes nothing."""
import asyncio
import base64
import contextlib
import http.client
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bench.commands import resident_mb
from bench.server import LiveServer

from gpufairy.client.errors import Problem
from gpufairy.core.sample_plain import to_plain
from gpufairy.node.identity import Identity
from gpufairy.node.reporter import Reporter
from gpufairy.node.spool import Spool
from prometheus import a_sample
from raw_http import Answer, ask

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

AGENTS = "/api/v1/agents"


class Speaker:
    """An agent, made by hand: it signs what it likes."""

    def __init__(self, server: LiveServer, name: str) -> None:
        self.server, self.name, self.identity = server, name, Identity(os.urandom(32))
        self.epoch, self.sequence = "", 0

    def hello(self, **other: Any) -> Answer:
        answer = ask(self.server.url, "POST", f"{AGENTS}/hello", body={"name": self.name, "key": self.identity.public, **other})
        self.epoch, self.sequence = answer.json.get("epoch") or "", 0
        return answer

    def accepted(self) -> "Speaker":
        self.hello()
        self.server.client().accept_agent(self.name)
        assert self.hello().json["state"] == "accepted"
        return self

    def stamp(self, body: bytes, name: str | None = None) -> dict[str, str]:
        self.sequence += 1
        signature = self.identity.signature(name or self.name, self.epoch, self.sequence, body)
        return {"Fairy-Epoch": self.epoch, "Fairy-Sequence": str(self.sequence), "Fairy-Signature": signature}

    def send(self, body: bytes, stamp: dict[str, str] | None = None, name: str | None = None) -> Answer:
        path = f"{AGENTS}/{name or self.name}/reports"
        return ask(self.server.url, "POST", path, body=body, headers=self.stamp(body) if stamp is None else stamp)

    def known(self) -> dict[str, Any] | None:
        """All that the server tells of it."""
        return next((node for node in self.server.client().nodes() if node["name"] == self.name), None)

    def kept(self) -> list[str]:
        """The times of its reports."""
        times: list[str] = self.server.client().readings("node", self.name, step="raw")["times"]
        return times


def report_of(name: str, **fields: Any) -> bytes:
    return body_of(plain(name, **fields))


def plain(name: str, **fields: Any) -> dict[str, Any]:
    """As JSON has it, so that a test can spoil it anywhere."""
    made = {"node": name, "at": datetime.now(UTC), **fields}
    return json.loads(json.dumps(to_plain(replace(a_sample(), **made))))


def body_of(*samples: dict[str, Any]) -> bytes:
    return json.dumps({"version": "1", "samples": samples}).encode()


@pytest.fixture(scope="module")
def gpu07(server: LiveServer) -> Speaker:
    speaker = Speaker(server, "gpu07").accepted()
    assert speaker.send(report_of("gpu07")).json["kept"] == 1
    return speaker


@pytest.fixture
def unchanged(gpu07: Speaker):
    """Whatever is refused leaves the host as it was, and the next true report is taken."""
    before, kept = gpu07.known(), gpu07.kept()
    yield
    assert (gpu07.known(), gpu07.kept()) == (before, kept)
    gpu07.hello()
    assert gpu07.send(report_of("gpu07")).status == 200


def refused(answer: Answer, status: int, words: str) -> None:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json["detail"]
    assert answer.json["next"]
    assert len(answer.json["detail"]) < 600


def unbelieved(speaker: Speaker, body: bytes, words: str) -> None:
    """It is heard, what it says is not used, and both it and whoever looks are told why."""
    answer = speaker.send(body)
    assert (answer.status, answer.json["kept"], len(answer.json["refused"])) == (200, 0, 1), answer.body
    assert words in answer.json["refused"][0]["why"]
    assert len(answer.body) < 1000
    known = speaker.known()
    assert known["state"] == "faulty"
    assert [said for said in known["trouble"] if said.startswith("what it told cannot be: ") and words in said]
    assert not [gpu for gpu in known["gpus"] if (gpu.get("now") or {}).get("free")]


@pytest.mark.usefixtures("unchanged")
def test_a_report_signed_by_another_key_is_refused(gpu07):
    forger = Speaker(gpu07.server, "gpu07")
    forger.epoch, forger.sequence = gpu07.epoch, gpu07.sequence
    refused(forger.send(report_of("gpu07")), 403, "not signed by the agent of 'gpu07'")


def test_recorded_bytes_sent_again_are_refused(gpu07):
    body = report_of("gpu07")
    stamp = gpu07.stamp(body)
    assert gpu07.send(body, stamp).status == 200
    before = gpu07.known()
    refused(gpu07.send(body, stamp), 403, "is not newer than")
    gpu07.hello()
    assert gpu07.known() == before
    refused(gpu07.send(body, stamp), 403, "is not newer than")
    assert gpu07.send(report_of("gpu07")).status == 200
    refused(gpu07.send(body, stamp), 409, "must begin anew")


@pytest.mark.usefixtures("unchanged")
def test_an_altered_report_is_refused(gpu07):
    body = report_of("gpu07")
    refused(gpu07.send(body.replace(b"minji", b"jimin"), gpu07.stamp(body)), 403, "not signed by")


@pytest.mark.parametrize("name", ["box", "gpu08", "nobody"])
def test_an_agent_speaks_for_no_other_host(gpu07, server, name):
    if name == "gpu08":
        Speaker(server, "gpu08").accepted()
    body = report_of(name)
    refused(gpu07.send(body, gpu07.stamp(body, name), name), 403, "not signed by the agent of")
    unbelieved(gpu07, body, f"it says it is of '{name}'")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "stamp",
    [
        {}, {"Fairy-Sequence": "1"}, {"Fairy-Sequence": "-1"}, {"Fairy-Sequence": "9" * 40}, {"Fairy-Sequence": "1", "Fairy-Signature": "not base64!"},
        {"Fairy-Sequence": "1", "Fairy-Signature": "A" * 10_000}, {"Fairy-Sequence": "\u00b2", "Fairy-Signature": "AAAA"},
    ],
)  # fmt: skip
def test_an_unsigned_report_is_refused(gpu07, stamp):
    assert gpu07.send(report_of("gpu07"), stamp).status in (401, 403)


def test_a_made_up_epoch_is_told_to_begin_anew(gpu07):
    for epoch in ("", "x", "1.0.\u00e9", "9" * 30 + ".0.abc"):
        gpu07.epoch = epoch
        refused(gpu07.send(report_of("gpu07")), 409, "must begin anew")
    gpu07.hello()


def spoilt(name: str, *path: str | int, value: Any) -> bytes:
    """A report with one value replaced."""
    sample = plain(name)
    place: Any = sample
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return body_of(sample)


FIGURES = (
    ("readings", 0, "utilisation"), ("readings", 0, "memory_used_bytes"), ("readings", 0, "power_w"), ("processes", 0, "on", "memory_bytes"), ("processes", 0, "on", "pid"),
    ("processes", 0, "process", "started_s"), ("host", "cpu_used"), ("host", "memory_total_bytes"), ("host", "disks", 0, "read_bytes"), ("host", "mounts", 0, "free_bytes"),
    ("host", "users", 0, "cpus"), ("host", "io_pressure", "full"), ("sessions", 0, "cpus"), ("seconds",), ("devices", 0, "index"),
)  # fmt: skip


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: "-".join(map(str, path)))
def test_an_impossible_figure_is_not_believed(gpu07, path):
    kept = gpu07.kept()
    for value in (float("nan"), float("inf"), float("-inf"), -1, -0.5, 1e300, 10**30, 10**4000, "much", True, [], {}):
        unbelieved(gpu07, spoilt("gpu07", *path, value=value), "")
    assert gpu07.kept() == kept
    assert gpu07.send(report_of("gpu07")).json["kept"] == 1
    assert not [said for said in gpu07.known()["trouble"] if "cannot be" in said]


def test_one_impossible_sample_among_many_costs_itself_alone(gpu07):
    now = datetime.now(UTC)
    late = [plain("gpu07", at=now - timedelta(hours=2, seconds=10 * number)) for number in (4, 3, 2, 1)]
    late[1]["readings"][0]["utilisation"] = 17
    answer = gpu07.send(body_of(*late, plain("gpu07"))).json
    assert answer["kept"] == 4
    assert [(one["at"], "utilisation: 17" in one["why"]) for one in answer["refused"]] == [(late[1]["at"], True)]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b"\xff\xfe", b"{" * 500_000, b"[" * 1_000_000, b'{"samples": ' * 80_000, b'{"samples": []}', b'{"samples": [5]}', b'{"samples": [' + b"{}," * 64 + b"{}]}",
    ],
    ids=lambda body: str(body[:30]),
)  # fmt: skip
def test_what_is_no_report_is_refused(gpu07, body):
    refused(gpu07.send(body), 400, "report of gpu07: ")


@pytest.mark.parametrize(("away", "words"), [(timedelta(hours=1), "ahead: set it"), (timedelta(days=-8), "behind: set it"), (timedelta(days=3650), "ahead: set it")], ids=str)
def test_a_host_whose_clock_is_wrong_is_heard_all_the_same_and_told(gpu07, away, words):
    assert gpu07.send(report_of("gpu07", at=datetime.now(UTC) + away)).status == 200
    assert [said for said in gpu07.known()["trouble"] if words in said]
    assert gpu07.known()["state"] == "watched"


@pytest.mark.parametrize(
    "body", [b'{"samples": [{}]}', b'{"samples": [{"node": "gpu07", "at": "yesterday", "seconds": 1}]}', b'{"samples": [{"node": "gpu07", "at": "2026-11-15T08:00:00", "seconds": 1}]}'], ids=str
)  # fmt: skip
def test_a_host_that_tells_nonsense_is_there_and_nothing_else(gpu07, body):
    unbelieved(gpu07, body, "")


@pytest.mark.parametrize("late", ["2020-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2099-01-01T00:00:00Z"])
def test_what_is_said_to_be_late_must_have_been_of_late(gpu07, late):
    answer = gpu07.send(body_of({**plain("gpu07"), "at": late}, plain("gpu07"))).json
    assert (answer["kept"], [one["why"].startswith("at: ") for one in answer["refused"]]) == (1, [True])


@pytest.mark.parametrize("now", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_the_ends_of_time_are_no_error_of_ours(gpu07, now):
    for earlier in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert gpu07.send(body_of({**plain("gpu07"), "at": earlier}, {**plain("gpu07"), "at": now})).status in (200, 400)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-11-15T08:00:00"])
def test_one_host_with_times_beyond_all_reckoning_spoils_no_page(gpu07, at):
    for body in (spoilt("gpu07", "host", "at", value=at), spoilt("gpu07", "readings", 0, "at", value=at), spoilt("gpu07", "xids", value=[{"uuid": "GPU-0", "code": 79, "at": at}])):
        unbelieved(gpu07, body, "at: ")


@pytest.mark.usefixtures("unchanged")
def test_a_body_of_more_than_a_mebibyte_is_not_even_read(gpu07):
    refused(gpu07.send(report_of("gpu07") + b" " * 2**20), 413, "larger than 1 MiB")


@pytest.mark.usefixtures("unchanged")
def test_a_body_that_does_not_say_its_size_is_cut_off_too(gpu07):
    body = report_of("gpu07") + b" " * 2**21
    connection = http.client.HTTPConnection("127.0.0.1", gpu07.server.port, timeout=30)
    with contextlib.closing(connection), contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may not wait for all of it
        connection.request("POST", f"{AGENTS}/gpu07/reports", iter([body]), gpu07.stamp(body), encode_chunked=True)
        assert connection.getresponse().status in (400, 413)


@pytest.mark.usefixtures("unchanged")
def test_a_line_cut_in_the_middle_of_a_report_is_nobodys_error(gpu07, server):
    said, body = len(server.log), report_of("gpu07")
    with socket.create_connection(("127.0.0.1", server.port)) as cut:
        stamp = "".join(f"{name}: {value}\r\n" for name, value in gpu07.stamp(body).items())
        cut.sendall(f"POST {AGENTS}/gpu07/reports HTTP/1.1\r\nHost: box\r\nContent-Length: {len(body)}\r\n{stamp}\r\n".encode() + body[:100])
    assert ask(server.url, "GET", "/healthz").status == 200
    assert "Traceback" not in server.log[said:]


def test_a_newer_agent_may_say_more_than_is_understood(gpu07):
    sample = {**plain("gpu07"), "colour": {"of": ["the", "case"]}}
    assert gpu07.send(json.dumps({"version": "99", "samples": [sample], "mood": "good"}).encode()).json["kept"] == 1
    assert gpu07.known()["agent_version"] == "99"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "../etc"}, 400), ({"name": "x" * 200}, 400), ({"name": ""}, 400), ({"key": "short"}, 400), ({"key": base64.b64encode(b"k" * 31).decode()}, 400),
        ({"more": 1}, 400), ({"name": "box"}, 409),
    ],
)  # fmt: skip
def test_a_hello_that_cannot_be_is_refused(server, body, status):
    stranger = Speaker(server, "stranger")
    assert stranger.hello(**body).status == status
    assert "stranger" not in [agent["name"] for agent in server.client().agents()]


def test_a_stranger_learns_nothing_of_the_lab(server, gpu07):
    told = Speaker(server, "stranger2").hello().json
    assert set(told) == {"state", "epoch", "fingerprint"}
    assert set(gpu07.hello().json) == {"state", "epoch", "fingerprint"}
    assert {"name_rules", "user_labels", "users"} <= set(gpu07.send(report_of("gpu07")).json)


def test_a_second_report_while_the_first_is_worked_on_is_put_off(gpu07):
    """Both are on their way at once; whichever is begun first is taken, and nothing is kept twice."""
    now = datetime.now(UTC)
    late = [plain("gpu07", at=now - timedelta(hours=5, seconds=5 * number), seconds=5.0) for number in range(60, 0, -1)]
    bodies = [body_of(*late, plain("gpu07", at=now - second * timedelta(seconds=1))) for second in (1, 0)]
    stamps = [gpu07.stamp(body) for body in bodies]
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(gpu07.send, bodies, stamps))
    for answer in answers:
        assert answer.status in (200, 403, 503), answer.body
        assert answer.status != 503 or answer.headers["retry-after"] == "5"
    assert 200 in [answer.status for answer in answers]


@pytest.mark.slow
async def test_a_crowd_of_agents_recovers_from_an_outage_and_each_sample_counts_once(server, tmp_path):
    """Each with more kept than goes with one report, all at the same moment, as fast as they can."""
    now, crowd = datetime.now(UTC), []
    for number in range(24):
        speaker = Speaker(server, f"crowd{number:02}").accepted()
        reporter = Reporter(speaker.name, server.url, speaker.identity, Spool(tmp_path / speaker.name))
        reporter.spool.keep([plain(speaker.name, at=now - timedelta(seconds=5 * late), seconds=5.0) for late in range(60, 0, -1)])
        crowd.append(reporter)

    async def recover(reporter: Reporter) -> None:
        while reporter.spool:
            await reporter.report([replace(a_sample(), node=reporter.name, at=datetime.now(UTC), seconds=0.0)])
            assert reporter.standing.reached or "in hand" in reporter.standing.words

    async with asyncio.timeout(60):
        await asyncio.gather(*map(recover, crowd))
    for reporter in crowd:
        reporter.end()
        times = server.client().readings("node", reporter.name, since="10m", step="10s")["columns"]["gpus_used"]["mean"]
        assert sum(value is not None for value in times) in (30, 31, 32)
    assert resident_mb(server.pid) < 400


def test_only_admins_accept_and_see_who_asks(server, make_user):
    Speaker(server, "gpu11").hello()
    user = make_user("kim")
    for forbidden in (lambda: user.accept_agent("gpu11"), user.agents, lambda: user.remove_agent("gpu07")):
        with pytest.raises(Problem) as caught:
            forbidden()
        assert caught.value.status == 403
    assert ask(server.url, "POST", f"{AGENTS}/gpu11/accept", body={}).status == 401
