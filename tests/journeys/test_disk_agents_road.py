"""Disk use of watched hosts: a real agent walks through real folders, and its users, the admin and whoever wants to be told hear of it."""
import base64
import json
import os
import pwd
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bench.commands import resident_mb
from bench.server import LiveServer
from collector_scene import Collector
from test_agent_reports import AGENTS, Speaker, refused
from test_web import cookie_of, get, link_of, text

from endpoints import HttpEndpoint, http_endpoint
from gpufairy.client import Fairy
from gpufairy.client.errors import Problem
from raw_http import Answer, ask
from waits import until

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="files are given to others")]

MIB = 2**20
OTHER = pwd.getpwuid(1).pw_name  # an account that every host has
SETTINGS = """
[node]
name = 'box'
[alerts]
gather = '1s'
ntfy = '{url}'
users = ['ntfy']
off = ['memory_low', 'disk_filling', 'inodes_low', 'host_hot']
[[channels]]
name = 'hook'
kind = 'webhook'
url = '{url}/alerts'
"""


@pytest.fixture(scope="module")
def hook() -> Iterator[HttpEndpoint]:
    with http_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hook: HttpEndpoint) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS.format(url=hook.url), ("--simulate", "1xA100-40GB")) as live:
        for name in ("kim", OTHER):
            live.client().add_user({"name": name})
        yield live


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lies on the disks of gpu07."""
    folder = tmp_path_factory.mktemp("host")
    put(folder / "home/kim/.cache/pip/wheel", 120)
    put(folder / "home/kim/runs" / os.fsdecode(b"best\xff.ckpt"), 30)
    put(folder / "home/stranger/x", 5)
    os.chown(put(folder / "data/sets/theirs.bin", 7), 1, 1)
    put(folder / "data/sets/roots.bin", 9)
    return folder


@pytest.fixture(scope="module")
def gpu07(server: LiveServer, host: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    options = ("--name", "gpu07", "--simulate", "1xA100-40GB", "--disk", str(host / "home"), "--disk", str(host / "data"))
    with Collector(tmp_path_factory.mktemp("gpu07"), "agent", "--server", server.url, *options) as agent:
        client = server.client()
        until(lambda: [one for one in client.agents() if one["name"] == "gpu07"], f"the agent to ask: {agent.log}")
        client.accept_agent("gpu07")
        until(lambda: "reports are taken" in agent.log, "a report", 30)
        yield agent


def put(path: Path, mib: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * mib * MIB)
    return path


def looked_at(server: LiveServer) -> dict[str, str]:
    return {place["place"]: place["as_of"] for place in server.client().disk()["places"] if place["node"] == "gpu07"}


def walked(server: LiveServer, agent: Collector) -> dict[str, Any]:
    """As an admin asks for it: what is known when gpu07 has told anew of both folders."""
    before = looked_at(server)
    assert "walked through now" in server.fairy("disk", "--again").stderr
    until(lambda: len(now := looked_at(server)) == 2 and all(now[name] not in (None, before.get(name)) for name in now), f"gpu07 to tell: {agent.log[-2000:]}", 90)
    return server.client().disk()


@pytest.fixture(scope="module")
def seen(server: LiveServer, gpu07: Collector) -> dict[str, Any]:
    return walked(server, gpu07)


def client_of(server: LiveServer, name: str) -> Fairy:
    return server.client(server.client().create_token({"user": name})["token"])


def command_as(server: LiveServer, name: str, *arguments: str) -> Any:
    token = server.client().create_token({"user": name})["token"]
    return json.loads(server.fairy(*arguments, "--json", env={**server.env, "FAIRY_URL": server.url, "FAIRY_TOKEN": token}).stdout)


def test_an_admin_sees_whose_files_fill_the_disks_of_a_watched_host(server, host, seen):
    sizes = {one["user"]: one["bytes"] // MIB for one in seen["items"]}
    assert sizes["kim"] == 150
    assert sizes[OTHER] == 7  # by the account that has them there
    assert "root" not in sizes
    places = {one["place"]: one for one in seen["places"]}
    assert places[f"gpu07:{host}/home"]["bytes"] >= 155 * MIB
    out = server.fairy("disk", "--node", "gpu07").stdout
    assert f"gpu07:{host}/data" in out
    assert "homes" not in out
    assert "runs" in server.fairy("disk", "--folder", f"gpu07:{host}/home/kim").stdout


def test_a_user_finds_theirs_by_the_name_of_the_host_and_an_admin_the_whole_path(server, host, seen):
    (one,) = command_as(server, "kim", "disk")["items"]
    assert [thing["path"] for thing in one["largest"]] == ["gpu07:~/.cache/pip/wheel", r"gpu07:~/runs/best\xff.ckpt"]
    assert one["advice"][0]["what"] == "Packages that pip and uv fetched take 120 MiB"
    (same,) = server.client().disk("kim")["items"]
    assert same["largest"][0]["path"] == f"gpu07:{host}/home/kim/.cache/pip/wheel"
    (theirs,) = client_of(server, OTHER).disk(node="gpu07")["items"]
    assert [thing["path"] for thing in theirs["largest"]] == [f"gpu07:{host}/data/sets/theirs.bin"]
    for call in (lambda kim: kim.disk(OTHER), lambda kim: kim.disk_folders(f"gpu07:{host}/home"), lambda kim: kim.disk(node="gpu99")):
        with pytest.raises(Problem):
            call(client_of(server, "kim"))


def test_pages_show_the_same_and_one_host_by_itself(server, host, seen):
    cookie = cookie_of(get(server, link_of(server)))
    assert f"gpu07:{host}/home" in text(server, "/admin/disk", cookie)
    chosen = text(server, "/admin/disk?node=gpu07", cookie)
    assert "kim/.cache/pip" in chosen
    assert f"gpu07:{host}/home/kim/.cache/pip" in text(server, "/disk?user=kim", cookie)


def test_an_agent_that_walks_stays_small(gpu07, seen):
    assert gpu07.process is not None
    assert resident_mb(gpu07.process.pid) < 110


def test_who_is_over_a_limit_is_told_where_they_want_and_so_is_the_admin(server, gpu07, hook, seen):
    client_of(server, "kim").set_messages({"kind": "ntfy", "address": "kims-secret-topic", "about": ["quota"]})
    assert "100 MiB" in server.fairy("quota", "set", "user:kim", "--disk", "100MiB").stdout
    words = "150 MiB of 100 MiB on disk on gpu07: nothing stops you there, but others need room too"
    until(lambda: [one for one in hook.requests if words.encode() in one.body], f"kim to be told: {server.log[-2000:]}", 60)

    def told_admins() -> list[Any]:
        letters = [one.json for one in hook.requests if one.path == "/alerts"]
        return [item for letter in letters for item in letter["items"] if item["what"] == "disk_over"]

    item = until(told_admins, "the admins to be told", 60)[0]
    assert item["sentence"] == "kim has 150 MiB on disk on gpu07, and may have 100 MiB"
    assert [one["rule"] for one in server.client().alerts()] == ["disk_over"]


def test_what_was_found_while_the_server_was_away_is_told_when_it_is_back(server, gpu07, host, seen):
    before, said = looked_at(server), len(gpu07.log)
    put(host / "home/kim/runs/new.bin", 10)
    server.client().walk_disk()
    until(lambda: gpu07.log[said:].count("walked through in") >= 2, "the walks", 60)
    server.kill()
    server.start()
    until(lambda: all(now != before[name] for name, now in looked_at(server).items()), f"gpu07 to tell: {gpu07.log[-2000:]}", 90)
    (one,) = server.client().disk("kim")["items"]
    assert one["bytes"] // MIB == 160


class Teller(Speaker):
    """An agent made by hand that tells of disks."""

    def tell(self, body: bytes, stamp: dict[str, str] | None = None, name: str | None = None) -> Answer:
        path = f"{AGENTS}/{name or self.name}/disk"
        return ask(self.server.url, "POST", path, body=body, headers=self.stamp(body) if stamp is None else stamp)

    def known(self) -> list[dict[str, Any]]:
        return [place for place in self.server.client().disk()["places"] if place["node"] == self.name]


def a_body(**other: Any) -> bytes:
    now = datetime.now(UTC).isoformat()
    owner = {"top": "kim", "uid": 1000, "bytes": 5, "inodes": 1, "old_bytes": 0}
    figures = {"took_s": 0.1, "full": True, "bytes": 5, "inodes": 1, "listed": 1, "trusted": 0, "unread": 0}
    look = {"place": {"name": "/home", "path": "/home"}, "at": now, **figures, "owners": [owner], **other.pop("look", {})}
    return json.dumps({"sent_at": now, "places": ["/home"], "look": look, **other}).encode()


@pytest.fixture(scope="module")
def gpu08(server: LiveServer) -> Teller:
    teller = Teller(server, "gpu08").accepted()
    assert isinstance(teller, Teller)
    assert teller.tell(a_body()).json == {"kept": True}
    return teller


def test_a_report_that_was_recorded_altered_or_is_anothers_is_refused(gpu08, server):
    body, before = a_body(), gpu08.known()
    stamp = gpu08.stamp(body)
    refused(gpu08.tell(body.replace(b'"bytes": 5', b'"bytes": 6'), stamp), 403, "not signed by")
    refused(gpu08.tell(body, stamp, "gpu07"), 403, "not signed by the agent of 'gpu07'")
    forger = Teller(server, "gpu08")
    forger.epoch, forger.sequence = gpu08.epoch, gpu08.sequence + 10
    refused(forger.tell(body), 403, "not signed by")
    refused(gpu08.tell(body, {}), 401, "must be signed")
    assert gpu08.known() == before
    assert gpu08.tell(body, stamp).status == 200
    refused(gpu08.tell(body, stamp), 403, "is not newer than")
    refused(gpu08.tell(body, {**stamp, "Fairy-Signature": base64.b64encode(b"x" * 64).decode()}), 403, "not signed by")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"{}", b"[" * 500_000, a_body(sent_at="yesterday"), a_body(sent_at="2026-11-15T08:00:00"), a_body(places=["home"]), a_body(places=["/a"] * 200),
        a_body(look={"bytes": -1}), a_body(look={"bytes": 10**30}), a_body(look={"took_s": float("nan")}), a_body(look={"place": {"name": "x", "path": "../etc"}}),
        a_body(look={"at": "2020-01-01T00:00:00Z"}), a_body(look={"at": "9999-12-31T23:59:59-12:00"}), a_body(look={"owners": [{"top": "kim"}]}),
        a_body(look={"owners": [{"top": "\ud800", "uid": 1, "bytes": 5, "inodes": 1, "old_bytes": 0}]}),
    ],
    ids=(f"body {number}" for number in count()),
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words_and_changes_nothing(gpu08, body):
    before = gpu08.known()
    refused(gpu08.tell(body), 400, "disk report of gpu08: ")
    assert gpu08.known() == before


def test_more_than_a_mebibyte_is_not_even_read(gpu08):
    refused(gpu08.tell(a_body() + b" " * MIB), 413, "larger than 1 MiB")


def test_a_host_whose_clock_is_wrong_is_put_right(gpu08):
    away = "2031-01-01T00:00:00+00:00"
    assert gpu08.tell(a_body(sent_at=away, look={"at": away})).status == 200
    assert gpu08.known()[0]["as_of"][:13] == datetime.now(UTC).isoformat()[:13]


def test_a_place_that_is_walked_through_no_more_is_forgotten_and_so_is_a_host_that_was_removed(gpu08, server, gpu07):
    assert gpu08.tell(json.dumps({"sent_at": datetime.now(UTC).isoformat(), "places": []}).encode()).status == 200
    assert gpu08.known() == []
    assert gpu08.tell(a_body()).status == 200
    server.client().remove_agent("gpu08")
    assert gpu08.known() == []
    assert looked_at(server)
