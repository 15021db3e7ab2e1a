"""The SDK against a real HTTP server with canned answers: pages, streams, dropped connections, problems; both clients alike."""
import inspect
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from fake_server import DROP, TOKEN, FakeServer, Job, ended, running

from gpufairy.client import Fairy, Problem, ServerNotReached
from gpufairy.client.aio import AsyncFairy
from gpufairy.client.connection import Connection, config_folder, find, save
from gpufairy.client.protocol import ServerSentEvents, path_of
from gpufairy.core.errors import BadInput, NotSignedIn


@pytest.fixture
def server():
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture
def fairy(server):
    with Fairy(server.url, TOKEN) as client:
        yield client


@pytest.fixture
async def async_fairy(server):
    async with AsyncFairy(server.url, TOKEN) as client:
        yield client


def public(kind):
    return {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_have_the_same_methods():
    sync, aio = public(Fairy), public(AsyncFairy)
    assert sync.keys() - aio.keys() == {"again"}
    for name in aio:
        assert list(inspect.signature(aio[name]).parameters) == list(inspect.signature(sync[name]).parameters), name


async def test_both_follow_the_pages_of_a_list(server, fairy, async_fairy):
    server.answers["GET", "/sessions"] = {"items": [running("a"), running("b")], "next": None}
    assert [session["name"] for session in fairy.sessions()] == ["a", "b"]
    assert [session["name"] async for session in async_fairy.sessions()] == ["a", "b"]


async def test_both_stream_a_log_and_notice_a_broken_line(server, fairy, async_fairy):
    server.add(Job([running()], [b"one\n", DROP, b"two\n"]))
    server.add(Job([running("other")], [b"one\n", DROP]))
    with pytest.raises(ServerNotReached):
        list(fairy.logs("brave-otter", follow=True))
    assert b"".join(fairy.logs("brave-otter", from_bytes=2)) == b"e\ntwo\n"
    with pytest.raises(ServerNotReached):
        [chunk async for chunk in async_fairy.logs("other", follow=True)]
    assert b"".join([chunk async for chunk in async_fairy.logs("other")]) == b"one\n"


async def test_both_raise_what_the_server_said(fairy, async_fairy):
    with pytest.raises(Problem) as sync:
        fairy.session("nobody")
    with pytest.raises(Problem) as aio:
        await async_fairy.session("nobody")
    for problem in (sync.value, aio.value):
        assert (problem.status, problem.detail, problem.next_step) == (404, "no session 'nobody'", "See `fairy ps -a`.")


async def test_both_say_that_no_server_is_there(server):
    server.close()
    with pytest.raises(ServerNotReached, match="no answer from the server at"):
        Fairy(server.url, TOKEN).me()
    async with AsyncFairy(server.url, TOKEN) as client:
        with pytest.raises(ServerNotReached, match="no answer from the server at"):
            await client.me()


async def test_both_send_a_submit_again_with_the_same_key_when_the_idle_connection_was_dropped(server, fairy, async_fairy):
    server.answers["GET", "/me"] = {"name": "x"}
    for name in ("a", "b"):
        server.add(Job([ended(name)]))
    fairy.me()
    server.drop_next = 1
    assert fairy.submit({"command": ["ls"]})["name"] == "a"
    await async_fairy.me()
    server.drop_next = 1
    assert (await async_fairy.submit({"command": ["ls"]}))["name"] == "b"
    keys = [asked.headers["Idempotency-Key"] for asked in server.calls("POST", "/sessions")]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_what_may_not_be_done_twice_is_not_sent_twice(server, fairy):
    server.answers["GET", "/me"] = {"name": "x"}
    fairy.me()
    server.drop_next = 1
    with pytest.raises(ServerNotReached):
        fairy.create_token({})
    assert len(server.calls("POST", "/tokens")) == 1


def test_plain_calls_share_one_connection(server, fairy):
    server.answers["GET", "/me"] = {"name": "x"}
    fairy.me()
    kept = fairy._transport._kept.sock
    fairy.me()
    assert fairy._transport._kept.sock is kept


def test_events_are_read_whatever_the_pieces_they_come_in():
    stream = b': hello\n\nid: 1\nevent: session\ndata: {"number": 1}\n\ndata: {"number":\r\ndata: 2}\r\n\r\n'
    for size in (1, 3, 1000):
        reader = ServerSentEvents()
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [event["number"] for piece in pieces for event in reader.feed(piece)] == [1, 2]


def test_names_are_quoted_whole():
    assert path_of("sessions", "../a?b", follow=True, after=None) == "/api/v1/sessions/..%2Fa%3Fb?follow=1"


@pytest.mark.parametrize("url", ["gpu01:8420", "ftp://x", "http://", "http://x:99999", "http://user:secret@x", "http://x/?token=1", "http://x\n"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(BadInput):
        Fairy(url + "\nX: y" if url.endswith("\n") else url)


def test_a_token_with_a_line_break_is_refused_and_not_shown():
    with pytest.raises(BadInput) as refused:
        Fairy("http://x", "secret\r\nX-Evil: 1")
    assert "secret" not in str(refused.value)


def an_environment(tmp_path, **more):
    return {"HOME": str(tmp_path), **more}


def test_options_come_before_the_environment_and_that_before_what_is_stored(tmp_path):
    stored = an_environment(tmp_path)
    save(Connection("http://stored", "s"), stored)
    (tmp_path / "token").write_text("f\n")
    assert find(None, None, stored) == Connection("http://stored", "s")
    assert find(None, None, {**stored, "FAIRY_URL": "http://env", "FAIRY_TOKEN": "e"}) == Connection("http://env", "e")
    in_session = {**stored, "FAIRY_URL": "http://env/", "FAIRY_TOKEN_FILE": str(tmp_path / "token")}
    assert find(None, None, in_session) == Connection("http://env", "f")
    assert find("http://option", tmp_path / "token", in_session) == Connection("http://option", "f")


def test_a_token_goes_to_no_server_but_its_own(tmp_path):
    stored = an_environment(tmp_path)
    save(Connection("http://stored", "s"), stored)
    for env in (stored, {**stored, "FAIRY_URL": "http://env", "FAIRY_TOKEN": "e"}):
        with pytest.raises(NotSignedIn):
            find("http://elsewhere", None, env)


def test_what_is_stored_is_for_its_owner_alone_and_survives_odd_characters(tmp_path):
    env = an_environment(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    path = save(Connection("http://h/a\\b\"c", "t\"\\x"), env)
    assert path == config_folder(env) / "config.toml" == tmp_path / "xdg/gpufairy/config.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert find(None, None, env).token == "t\"\\x"
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]


def test_a_connection_never_prints_its_token():
    assert "secret" not in repr(Connection("http://x", "secret"))
