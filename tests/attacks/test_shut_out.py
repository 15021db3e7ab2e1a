"""Revoked, disabled, ended: whoever loses a right loses every channel that it held open, within five seconds; and no other channel ends."""
import asyncio
import sys
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from apps_browser import SCRIPT, SETTINGS, Tab
from attacked import a_server
from bench.ports import free_port
from channels import Forward, Person, Program, Socket, Stream
from intruders import sign_in

from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.system

NUMBERS = count(1)  # each test has somebody of its own
WITHIN_S = 5
ESTABLISHED = "01"  # as /proc/net/tcp writes it
BY_SSH = {"shell", "sftp", "forward"}
BY_TOKEN = {"terminal", "app", "events", "log"}
BY_BROWSER = {"terminal of the page", "log of the page", "live"}
IN_SESSION = {"shell", "sftp", "forward", "terminal", "app", "log", "terminal of the page", "log of the page"}


@pytest.fixture(scope="module")
def server():
    with a_server(SETTINGS.format(ports="18780-18799")) as live:
        yield live


@pytest.fixture
def held(server, fairy):
    """A person with a session that runs, and every channel there is into it, open."""
    person, port = Person(server, fairy, f"kim{next(NUMBERS)}"), free_port()
    person.client.submit({"name": "held", "gpus": "0", "command": ["sh", "-c", f"echo begun; exec {sys.executable} {SCRIPT} {port}"]})
    session = wait_for_state(person.client, "held", "RUNNING")
    until(lambda: person.client.open_app("held", f"port:{port}")["state"] == "ready", "the app to answer")
    person.lent = person.client.create_token({"label": "lent"})
    opened = open_all(server, person, session["id"], port)
    yield person, opened
    for channel in opened:
        channel.close()
    fairy.stop(session["id"])


def open_all(server, person, session_id, port):
    token = person.lent["token"]
    bearer, cookie = {"Authorization": f"Bearer {token}"}, {"Cookie": f"fairy_page={sign_in(server, person.client._token)}"}
    tab = Tab(server.client(token).open_app("held", f"port:{port}")["url"])
    terminal = f"/api/v1/sessions/{session_id}/terminal"
    return [
        Program("shell", person.ssh("echo in; exec sleep 600", session="held"), b"in"),
        Program("sftp", person.sftp("held"), b"\x02\x00\x00\x00\x03", b"\0\0\0\x05\x01\0\0\0\x03"),  # its first words, and the answer to them
        Forward(person, "held", port),
        Socket("terminal", server.url, terminal, bearer),
        Socket("terminal of the page", server.url, terminal, {**cookie, "Origin": server.url}),
        Socket("app", tab.origin, "/echo", {"Cookie": tab.cookie, "Origin": tab.origin}),
        Stream("events", server, "/api/v1/events?follow=1&after=0", bearer),
        Stream("live", server, f"/live?of={session_id}", cookie),
        Stream("log", server, f"/api/v1/sessions/{session_id}/logs?follow=1", bearer),
        Stream("log of the page", server, f"/sessions/{session_id}/log", cookie),
    ]  # fmt: skip


@contextmanager
def ends(opened, wanted: set[str]):
    """Around the deed: before it all are open, within five seconds after it those are closed, and no others."""
    assert {channel.name for channel in opened if not channel.is_open()} == set()
    yield
    with suppress(AssertionError):  # which of them stayed is told below
        until(lambda: not {channel.name for channel in opened if channel.is_open()} & wanted, "all to end", WITHIN_S)
    assert {channel.name for channel in opened if channel.is_open()} == {channel.name for channel in opened} - wanted


def test_whoever_is_disabled_loses_every_channel(held, fairy):
    person, opened = held
    with ends(opened, {channel.name for channel in opened}):
        fairy.change_user(person.name, {"disabled": True})


def test_a_key_that_is_removed_takes_shell_files_and_forwards_along(held):
    person, opened = held
    with ends(opened, BY_SSH):
        person.client.remove_key(person.fingerprint)


def test_a_token_that_is_revoked_takes_terminal_app_and_streams_along(held):
    person, opened = held
    with ends(opened, BY_TOKEN):
        person.client.revoke_token(person.lent["id"])


def test_a_browser_that_is_signed_out_loses_its_terminal_and_its_live_page(held):
    person, opened = held
    with ends(opened, BY_BROWSER):
        for token in person.client.tokens():
            if token["scope"] == "page":
                person.client.revoke_token(token["id"])


def test_a_session_that_is_over_takes_all_that_leads_into_it_along(held):
    person, opened = held
    with ends(opened, IN_SESSION):
        person.client.stop("held")
        wait_for_state(person.client, "held", "ENDED", limit_s=60)  # it is given a while to end by itself


async def test_a_long_poll_answers_nobody_who_was_shut_out_meanwhile(server, fairy, make_user):
    poll = make_user("poll")
    poll.submit({"name": "polled", "gpus": "0", "command": ["sleep", "600"]})
    session = wait_for_state(poll, "polled", "RUNNING")
    path = f"/api/v1/sessions/{session['id']}?wait=60&unlike={session['revision']}"
    before = connections(server)
    asked = asyncio.create_task(asyncio.to_thread(ask, server.url, "GET", path, token=poll._token))
    await asyncio.to_thread(until, lambda: connections(server) > before, "the question to arrive")
    fairy.me()  # answered after it was taken up
    fairy.change_user("poll", {"disabled": True})
    fairy.stop(session["id"])
    answer = await asked
    assert answer.status == 401, answer.body


def connections(server) -> int:
    """How many the server has now, by the kernel's own list."""
    rows = [line.split() for line in Path(f"/proc/{server.pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{server.port:04X}") and row[3] == ESTABLISHED for row in rows)
