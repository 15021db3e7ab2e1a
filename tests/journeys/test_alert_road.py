"""Alerts as a lab meets them: the server as it is shipped, agents on a fake driver, endpoints that take messages or do not."""
import http.cookiejar
import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from bench.server import LiveServer
from collector_scene import Collector

from endpoints import HttpEndpoint, SmtpEndpoint, http_endpoint, smtp_endpoint
from fake_nvml import FakeGpu, FakeMachine, FakeNvml, FakeXid
from waits import until

pytestmark = pytest.mark.slow  # reports come every five seconds
SETTINGS = """
[node]
name = 'box'
cpus = 16
memory = '32GiB'
[alerts]
gather = '1s'
off = ['memory_low', 'disk_filling', 'inodes_low', 'host_hot']
[[channels]]
name = 'hook'
kind = 'webhook'
url = '{hook}/alerts'
secret_env = 'HOOK_SECRET'
[[channels]]
name = 'mail'
kind = 'email'
host = '127.0.0.1'
port = {port}
security = 'none'
sender = 'fairy@lab.example'
to = ['ops@lab.example']
severity = 'critical'
"""
SECRET = "not-to-be-shown-anywhere"
SOON_S = 20


@pytest.fixture(scope="module")
def hook() -> Iterator[HttpEndpoint]:
    with http_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def smtp() -> Iterator[SmtpEndpoint]:
    with smtp_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, hook: HttpEndpoint, smtp: SmtpEndpoint) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS.format(hook=hook.url, port=smtp.port))
    server.env["HOOK_SECRET"] = SECRET
    with server:
        yield server


class Host(Collector):
    def __init__(self, folder: Path, live: LiveServer, name: str) -> None:
        self.name, self._live, self.driver = name, live, FakeNvml(folder)
        super().__init__(folder, "agent", "--server", live.url, "--name", name, "--every", "0.5s", fake=self.driver)
        self.machine = FakeMachine((FakeGpu(uuid=f"GPU-{name}-0", temperature_c=60),))
        self.driver.write(self.machine)

    def error(self, code: int, number: int) -> None:
        self.machine = replace(self.machine, xids=(*self.machine.xids, FakeXid(0, code, number)))
        self.driver.write(self.machine)

    def state(self) -> str:
        return next((node["state"] for node in self._live.client().nodes() if node["name"] == self.name), "unknown")

    def accepted(self) -> "Host":
        client = self._live.client()
        until(lambda: any(agent["name"] == self.name for agent in client.agents()), f"it to ask: {self.log}", SOON_S)
        client.accept_agent(self.name)
        until(lambda: self.state() == "watched", f"it to report: {self.log}", SOON_S)
        return self


@pytest.fixture(scope="module")
def gpu07(tmp_path_factory: pytest.TempPathFactory, live: LiveServer) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("gpu07"), live, "gpu07") as host:
        yield host.accepted()


def alerts(live: LiveServer, **wanted: str) -> list[dict[str, Any]]:
    found = live.client().alerts()
    return [one for one in found if all(one[name] == value for name, value in wanted.items())]


def told(hook: HttpEndpoint, what: str, state: str = "firing") -> list[dict[str, Any]]:
    return [item for request in list(hook.requests) for item in request.json["items"] if item["what"] == what and item["state"] == state]


def test_an_xid_of_a_watched_host_reaches_the_webhook_the_mail_the_command_line_and_the_page(live, gpu07, hook, smtp):
    gpu07.error(79, 1)
    [item] = until(lambda: told(hook, "gpu_xid"), f"the webhook to be called: {live.log[-2000:]}", SOON_S)
    assert (item["severity"], item["node"]) == ("critical", "gpu07")
    assert item["sentence"] == "gpu07 GPU 0: XID 79: the GPU fell off the bus: the host cannot reach it"
    assert "switch it off and on" in item["todo"]
    assert hook.requests[0].headers["Fairy-Signature"].startswith("sha256=")
    until(lambda: smtp.mails, "the mail", SOON_S)
    assert "XID 79" in smtp.mails[0]["Subject"]
    shown = live.fairy("alerts").stdout
    assert "gpu07 GPU 0: XID 79: the GPU fell off the bus" in shown
    assert "switch it off and on" in shown
    [alert] = alerts(live, rule="gpu_xid")
    assert json.loads(live.fairy("alerts", "--json").stdout)["items"][0]["id"] == alert["id"]
    page = page_of(live, "/admin/alerts")
    assert "gpu07 GPU 0: XID 79" in page
    assert "Take note" in page


def test_an_alert_is_taken_note_of_and_silences_and_channels_are_managed_from_the_command_line(live, gpu07, hook):
    until(lambda: alerts(live, rule="gpu_xid"), "the alert", SOON_S)
    [alert] = alerts(live, rule="gpu_xid")
    assert live.fairy("alerts", "ack", alert["id"]).stdout.startswith("Noted: gpu07 GPU 0: XID 79")
    assert "noted by" in live.fairy("alerts").stdout
    done = live.fairy("alerts", "silence", "--node", "gpu99", "--for", "1h", "--why", "new disk", "--json")
    silence = json.loads(done.stdout)
    assert (silence["node"], silence["why"]) == ("gpu99", "new disk")
    assert "new disk" in live.fairy("alerts", "silences").stdout
    assert live.fairy("alerts", "unsilence", silence["id"]).returncode == 0
    assert live.fairy("alerts", "silences").stdout == "Nothing is kept silent.\n"
    before = len(hook.requests)
    assert live.fairy("alerts", "test", "hook").stdout == f"A test went to {hook.url}.\n"
    assert "This is a test" in hook.wait_for(before + 1)[before].json["text"]
    missing = live.fairy("alerts", "test", "hok")
    assert missing.returncode == 4
    assert "did you mean hook?" in missing.stderr
    listed = live.fairy("alerts", "channels").stdout
    assert hook.url in listed
    assert "/alerts" not in listed
    rules = live.fairy("alerts", "rules").stdout
    assert "gpu_lost" in rules
    assert any("off" in line for line in rules.splitlines() if line.startswith("memory_low"))
    audit = {event["what"] for event in live.client().events()}
    assert {"alert_acknowledged", "alerts_silenced", "silence_ended", "channel_tested"} <= audit


def test_no_secret_is_in_the_log_an_answer_or_a_page(live, gpu07):
    shown = live.log + live.fairy("alerts", "channels", "--json").stdout + page_of(live, "/admin/alerts") + page_of(live, "/admin/settings")
    assert SECRET not in shown


def test_a_user_is_told_of_a_failed_session_where_they_want(live, smtp):
    client = live.client()
    client.add_user({"name": "kim"})
    kim = live.client(client.create_token({"user": "kim"})["token"])
    kim.set_messages({"kind": "email", "address": "kim@lab.example", "about": ["failed"]})
    kim.submit({"name": "bad", "gpus": "0", "command": ["sh", "-c", "exit 3"]})
    mail = until(lambda: [one for one in smtp.mails if one["To"] == "kim@lab.example"], f"the mail: {live.log[-2000:]}", SOON_S)[0]
    assert "session bad failed with code 3" in mail["Subject"]
    assert "fairy logs bad" in mail.get_content()
    refused = live.fairy("messages", "set", "webhook", "http://169.254.169.254/latest")
    assert refused.returncode == 0, "it is a URL"
    tried = live.fairy("messages", "test", "webhook")
    assert tried.returncode != 0
    assert "inside this network" in tried.stderr


def test_what_was_written_down_and_not_sent_goes_out_after_the_server_was_killed(live, gpu07, hook):
    hook.answers[:] = [503]
    gpu07.error(31, 2)  # a note: no channel asks for it
    gpu07.error(95, 3)
    until(lambda: [one for one in alerts(live, rule="gpu_xid") if "XID 95" in one["thing"]], "it to fire", SOON_S)
    until(lambda: told(hook, "gpu_xid")[1:], "a try that failed", SOON_S)
    live.kill()
    hook.answers[:] = [200]
    before = len(hook.requests)
    live.start()
    after = hook.wait_for(before + 1)[before:]
    items = [item["thing"] for request in after for item in request.json["items"]]
    assert "gpu07 GPU 0 XID 95" in items
    assert not [thing for thing in items if "XID 31" in thing]
    assert not [thing for thing in items if "XID 79" in thing], "that one was delivered before"
    until(lambda: gpu07.state() == "watched", "it to be heard again", SOON_S)


def test_a_server_asleep_for_half_a_minute_calls_no_host_dead(live, gpu07, hook):
    os.kill(live.pid, signal.SIGSTOP)
    time.sleep(30)  # sleeping is the thing itself
    os.kill(live.pid, signal.SIGCONT)
    until(lambda: gpu07.state() in ("watched", "silent"), "an answer", SOON_S)
    assert gpu07.state() == "watched"
    assert told(hook, "node_silent") == []
    assert alerts(live, rule="node_silent") == []
    record = record_of(live, "gpu07")
    assert (record["part"], record["downtimes"]) == (1.0, [])
    assert 25 < record["unwatched_s"] < 60, "nobody watched, and that is nobody's downtime"


def test_a_dead_agent_is_told_of_within_twenty_seconds_and_when_it_is_back(live, gpu07, hook):
    gpu07.kill()
    died = time.monotonic()
    until(lambda: alerts(live, rule="node_silent", state="firing"), "it to be missed", SOON_S + 1)
    assert time.monotonic() - died <= 20.5
    assert "gpu07 is silent since" in until(lambda: told(hook, "node_silent"), "somebody to be told", SOON_S)[0]["sentence"]
    gpu07.start()
    over = until(lambda: told(hook, "node_silent", "resolved"), "it to be over", 40)[0]
    assert "it is back; its agent had stopped, the host itself ran on" in over["sentence"]
    record = record_of(live, "gpu07")
    assert record["part"] < 1
    assert "ran on" in record["downtimes"][0]["why"]
    assert "gpu07" in live.fairy("alerts", "uptime").stdout
    until(lambda: gpu07.state() == "watched", "it to be heard again", SOON_S)


def test_a_host_that_is_away_in_its_window_is_shown_and_told_to_nobody(live, gpu07, hook):
    planned = live.fairy("node", "maintenance", "gpu07", "--for", "10m", "--why", "new disk", "--json")
    window = json.loads(planned.stdout)
    assert "new disk" in live.fairy("node", "maintenance").stdout
    before = len(told(hook, "node_silent"))
    gpu07.kill()
    [missed] = until(lambda: alerts(live, rule="node_silent", state="firing"), "it to be missed", SOON_S + 1)
    assert missed["silenced_by"] == window["id"]
    gpu07.start()
    until(lambda: record_of(live, "gpu07")["downtimes"][0]["planned"] and not alerts(live, rule="node_silent"), "it to be over", 40)
    record = record_of(live, "gpu07")
    assert record["planned_s"] > 5
    assert "maintenance by" in record["downtimes"][0]["why"]
    assert "new disk" in page_of(live, "/admin/nodes")
    assert len(told(hook, "node_silent")) == before, "nobody was told"
    assert live.fairy("node", "maintenance", "--end", window["id"]).stdout == "The window of gpu07 is over.\n"


def record_of(live: LiveServer, node: str) -> dict[str, Any]:
    [record] = [one for one in live.client().uptime() if one["node"] == node]
    return dict(record)


def page_of(live: LiveServer, path: str) -> str:
    link = live.client().sign_in_link()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    for address in (link, urljoin(link, path)):
        with opener.open(address, timeout=20) as answer:
            page = answer.read().decode()
    return str(page)
