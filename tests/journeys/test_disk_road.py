"""Disk use on the real server: files are made, walked through, told to whom they belong by command, API and page; limits are told as they are."""
import json
import os

import pytest
from bench.server import LiveServer
from test_web import cookie_of, get, link_of, text

from gpufairy.client import Fairy
from gpufairy.client.errors import Problem
from waits import until

pytestmark = [pytest.mark.slow, pytest.mark.system]

MIB = 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    shared = folder / "sets"
    shared.mkdir()
    (shared / "set.bin").write_bytes(b"x" * 5 * MIB)
    with LiveServer(folder / "fairy", f'[disk]\nfolders = ["{shared}"]\n[node]\nname = "box"\n', ("--simulate", "1xA100-40GB")) as live:
        homes = live.data / "sessions" / "home"
        put(homes / "kim" / ".cache" / "pip" / "wheel", 120)
        put(homes / "kim" / "runs" / os.fsdecode(b"best\xff.ckpt"), 30)
        live.fairy("user", "add", "kim")
        yield live


def put(path, mib):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * mib * MIB)


def walked(server):
    """As an admin asks for it; returns what is known of everybody when all places were walked through since."""
    client = server.client()
    before = {place["place"]: place["as_of"] for place in client.disk()["places"]}
    assert "walked through now" in server.fairy("disk", "--again").stderr

    def all_anew():
        seen = client.disk()
        return seen if all(place["as_of"] not in (None, before.get(place["place"])) for place in seen["places"]) else None

    return until(all_anew, "all places to be walked through", 60)


@pytest.fixture(scope="module")
def seen(server):
    return walked(server)


def kim(server):
    token = json.loads(server.fairy("token", "create", "--user", "kim", "--json").stdout)["token"]
    return Fairy(server.url, token)


def test_an_admin_sees_who_has_how_much_and_where(server, seen):
    (one,) = [item for item in seen["items"] if item["user"] == "kim"]
    assert 150 * MIB <= one["bytes"] < 151 * MIB
    assert {place["place"] for place in seen["places"]} == {"homes", "results", str(server.folder.parent / "sets")}
    out = server.fairy("disk").stdout
    assert "kim" in out
    assert "150 MiB" in out
    assert "runs" in server.fairy("disk", "--folder", "homes/kim").stdout


def test_a_user_finds_their_own_with_advice_and_nobody_elses(server, seen):
    with kim(server) as client:
        (one,) = client.disk()["items"]
        assert one["advice"][0]["what"] == "Packages that pip and uv fetched take 120 MiB"
        assert [thing["path"] for thing in one["largest"]] == ["~/.cache/pip/wheel", r"~/runs/best\xff.ckpt"]
        for call in (lambda: client.disk("root"), lambda: client.disk_folders("homes"), client.walk_disk):
            with pytest.raises(Problem):
                call()


def test_what_was_written_since_is_found_by_the_next_walk_which_looks_at_little(server, seen):
    put(server.data / "sessions" / "home" / "kim" / "runs" / "new.bin", 10)
    again = walked(server)
    (one,) = [item for item in again["items"] if item["user"] == "kim"]
    assert 160 * MIB <= one["bytes"] < 161 * MIB
    assert {place["full"] for place in again["places"]} == {False}


def test_nothing_is_ever_removed(server, seen):
    kept = [path for path in (server.data / "sessions" / "home" / "kim").rglob("*") if path.is_file()]
    assert len(kept) >= 2


def test_a_limit_that_nothing_holds_is_said_to_be_only_told(server, seen):
    done = server.fairy("quota", "set", "user:kim", "--disk", "100MiB")
    assert "100 MiB" in done.stdout
    told = until(lambda: (one := server.client().disk("kim")["items"][0])["why_not_enforced"].startswith("sessions are") and one, "the limit to be tried")
    assert (told["limit_bytes"], told["enforced"]) == (100 * MIB, False)
    assert told["next_step"] == "Run them in containers: --engine docker."
    assert "100 MiB (only told)" in server.fairy("disk", "--user", "kim").stdout


def test_pages_show_the_same(server, seen):
    cookie = cookie_of(get(server, link_of(server)))
    page = text(server, "/admin/disk", cookie)
    assert "kim" in page
    assert "best\\xff.ckpt" in text(server, "/disk?user=kim", cookie)


def test_the_walk_is_among_the_events_with_who_asked(server, seen):
    assert any(event["what"] == "disk_walk_asked" for event in server.client().events())
