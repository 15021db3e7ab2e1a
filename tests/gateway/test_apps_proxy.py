"""The proxy before apps of sessions: what passes, what does not, and who is let in. Real HTTP servers stand behind it."""
import asyncio
import base64
import contextlib
import json
import os
import stat

import aiohttp
import pytest
from apps_scene import GO_ON, LIMIT_S, Browser, a_street, an_app, fields_seen, serving
from bench.ports import free_port

pytestmark = pytest.mark.slow  # real sockets, many connections

SOCKET = {
    "Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode(),
}  # fmt: skip


@pytest.fixture
async def street(tmp_path):
    async with a_street(tmp_path) as scene:
        yield scene


async def test_a_ticket_signs_the_browser_in_once(street):
    stall = street.stall()
    street.house.tell(stall)
    browser, ticket = Browser(stall), street.house.ticket(stall)
    answer = await browser.ask("GET", f"/?ticket={ticket}")
    assert (answer.status, answer.fields["location"]) == (303, "/")
    cookie = answer.fields["set-cookie"]
    assert cookie.startswith(f"fairy_app_{stall.id}=")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert "Secure" not in cookie
    assert (await browser.ask("GET", "/seen", cookie=cookie.partition(";")[0])).status == 200
    again = await browser.ask("GET", f"/?ticket={ticket}")
    assert again.status == 401
    assert b"works once" in again.body


async def test_the_cookie_is_for_https_alone_where_the_browser_came_by_it(street):
    stall = street.stall()
    street.house.tell(stall)
    answer = await Browser(stall).ask("GET", f"/?ticket={street.house.ticket(stall)}", {"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.fields["set-cookie"].split("; ")


async def test_a_browser_that_only_looks_ahead_uses_no_ticket_up(street):
    stall = street.stall()
    street.house.tell(stall)
    ticket = street.house.ticket(stall)
    assert (await Browser(stall).ask("GET", f"/?ticket={ticket}", {"Sec-Purpose": "prefetch"})).status == 503
    assert (await Browser(stall).ask("GET", f"/?ticket={ticket}")).status == 303


async def test_nobody_comes_in_without_a_ticket_or_with_one_for_another_app(street):
    mine, other = street.stall("mine"), street.stall("other")
    street.house.tell(mine, other)
    browser = Browser(mine)
    for target in ("/", "/seen", "/?ticket=fairyt_wrong", f"/?ticket={street.house.ticket(other)}"):
        answer = await browser.ask("GET", target)
        assert answer.status == 401
        assert b"fairy open NAME" in answer.body
        assert "default-src 'none'" in answer.fields["content-security-policy"]
        assert b"mine" not in answer.body


async def test_a_ticket_of_the_apps_own_sign_in_is_the_apps(street):
    browser = await street.opened()
    assert (await browser.ask("GET", "/?ticket=ST-1-cas")).status == 200


async def test_the_cookie_of_one_session_opens_no_other(street):
    mine, other = await street.opened("mine"), await street.opened("other")
    value = mine.cookie.partition("=")[2]
    for cookie in (mine.cookie, f"fairy_app_{other.stall.id}={value}", f"fairy_app_{other.stall.id}=", f"fairy_app={value}", "fairy_app_=x"):
        assert (await other.ask("GET", "/seen", cookie=cookie)).status == 401
    assert (await other.ask("GET", "/seen", cookie=f"{mine.cookie}; {other.cookie}")).status == 200


async def test_no_cookie_of_ours_reaches_an_app_and_no_app_sets_one(street):
    browser = await street.opened()
    mixed = f"a=1; fairy_page=secret; {browser.cookie};  fairy_app_x=y; b=2;fairy_odd"
    seen = fields_seen(await browser.ask("GET", "/seen", cookie=mixed))
    assert seen["cookie"] == "a=1; b=2"
    assert (await browser.ask("GET", "/cookies")).fields["set-cookie"] == "theirs=1; Path=/"
    assert "cookie" not in fields_seen(await browser.ask("GET", "/seen"))


async def test_the_app_learns_who_asks_and_gets_the_host_as_it_was_sent(street):
    browser = await street.opened()
    seen = fields_seen(await browser.ask("GET", "/seen", {"X-Forwarded-Host": "evil", "TE": "x", "Keep-Alive": "1", "X-Drop": "1", "Connection": "close, x-drop, host"}))
    assert seen["host"] == browser.host
    assert seen["x-forwarded-host"] == browser.host
    assert (seen["x-forwarded-for"], seen["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert not {"te", "keep-alive", "x-drop"} & seen.keys()


async def test_bodies_pass_both_ways_with_their_length_or_in_chunks(street):
    browser = await street.opened()
    sent = os.urandom(300_000)
    assert gzip_free(await browser.ask("POST", "/echo", body=sent)) == sent
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (sent[:7], sent[7:1000], sent[1000:])) + b"0\r\n\r\n"
    said = await browser.raw(browser.head("POST", "/echo", {"Transfer-Encoding": "chunked", "Connection": "close"}) + chunks)
    assert unchunked(said.partition(b"\r\n\r\n")[2]) == sent


def gzip_free(answer) -> bytes:
    return unchunked(answer.body) if answer.fields.get("transfer-encoding") == "chunked" else answer.body


def unchunked(said: bytes) -> bytes:
    whole = b""
    while said:
        size, _, said = said.partition(b"\r\n")
        whole, said = whole + said[: int(size, 16)], said[int(size, 16) + 2 :]
    return whole


@pytest.mark.slow
async def test_300_mb_are_uploaded(street):
    browser = await street.opened()
    block, blocks = os.urandom(2**20), 300

    async def body():
        for _ in range(blocks):
            yield block

    async with asyncio.timeout(60), aiohttp.ClientSession() as client:
        answer = await client.put(f"http://{browser.host}/count", data=body(), headers={"Cookie": browser.cookie})
        assert await answer.json() == {"bytes": blocks * 2**20}


async def test_what_an_app_does_not_read_is_not_kept_for_it(street):
    read_nothing, ended = asyncio.Event(), asyncio.Event()

    async def deaf(_, writer):
        read_nothing.set()
        await ended.wait()
        writer.close()

    async with await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024) as server:
        browser = await street.opened(inside=server.sockets[0].getsockname()[1])
        _, writer = await browser.connect()
        writer.write(browser.head("PUT", "/count", {"Content-Length": str(2**30)}))
        sent, block = 0, b"x" * 2**18
        await read_nothing.wait()
        with contextlib.suppress(TimeoutError):
            while sent < 2**30:
                writer.write(block)
                async with asyncio.timeout(1):  # until nobody takes any more
                    await writer.drain()
                sent += len(block)
        writer.close()
        ended.set()  # first: from Python 3.12 on the server ends with its last connection
        assert sent < 64 * 2**20


async def test_ranges_and_heads_pass(tmp_path):
    (tmp_path / "data.bin").write_bytes(bytes(range(256)) * 4)
    app = an_app()
    app.router.add_static("/files", tmp_path)
    async with a_street(tmp_path, app=app) as street:
        browser = await street.opened()
        part = await browser.ask("GET", "/files/data.bin", {"Range": "bytes=10-19"})
        assert (part.status, part.body) == (206, bytes(range(10, 20)))
        assert part.fields["content-range"] == "bytes 10-19/1024"
        head = await browser.ask("HEAD", "/files/data.bin")
        assert (head.status, head.body, head.fields["content-length"]) == (200, b"", "1024")


async def test_events_come_as_they_are_sent_and_end_with_their_reader(tmp_path):
    app = an_app()
    async with a_street(tmp_path, app=app) as street:
        browser = await street.opened()
        reader, writer = await browser.connect()
        writer.write(browser.head("GET", "/events"))
        async with asyncio.timeout(LIMIT_S):
            assert b"data: 0" in await reader.readuntil(b"data: 0\n\n")
            app[GO_ON].release()
            await reader.readuntil(b"data: 1\n\n")
            writer.close()
            await street.door.empty.wait()  # the app's side is ended too, though nothing was sent any more


async def test_a_client_that_waits_for_leave_to_send_gets_it(street):
    browser = await street.opened()
    reader, writer = await browser.connect()
    async with asyncio.timeout(LIMIT_S):
        writer.write(browser.head("PUT", "/count", {"Expect": "100-continue", "Content-Length": "5", "Connection": "close"}))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        assert (await reader.read()).endswith(b'{"bytes": 5}')
    writer.close()


async def test_an_answer_before_the_whole_body_is_passed_on(street):
    browser = await street.opened()
    reader, writer = await browser.connect()
    writer.write(browser.head("POST", "/refuse", {"Content-Length": str(2**40)}) + b"x" * 100)
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_one_connection_serves_many_requests_also_if_sent_ahead(street):
    browser = await street.opened()
    reader, writer = await browser.connect()
    async with asyncio.timeout(LIMIT_S):
        writer.write(browser.head("GET", "/seen") * 3 + browser.head("GET", "/seen", {"Connection": "close"}))
        assert (await reader.read()).count(b"HTTP/1.1 200") == 4
    writer.close()


async def test_websockets_pass(street):
    browser = await street.opened()
    headers = {"Cookie": browser.cookie, "Origin": f"http://{browser.host}"}
    async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as client, client.ws_connect(f"http://{browser.host}/socket", headers=headers) as ours:
        for word in ("hello", "x" * 100_000):
            await ours.send_str(word)
            assert await ours.receive_str() == word.upper()


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "https://{host}", "null", "", "http://{host}.evil.example", "http://{host}/"])
async def test_a_websocket_is_refused_to_pages_of_any_other_origin(street, origin):
    browser = await street.opened()
    answer = await browser.ask("GET", "/socket", {**SOCKET, "Origin": origin.format(host=browser.host)})
    assert answer.status == 403


@pytest.mark.parametrize(
    "fields",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
async def test_pages_of_other_apps_cannot_use_this_one_with_its_users_cookie(street, fields):
    browser = await street.opened()
    assert (await browser.ask("POST", "/echo", fields, b"x")).status == 403
    assert (await browser.ask("GET", "/seen", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})).status == 200
    assert (await browser.ask("POST", "/echo", {"Origin": f"http://{browser.host}"}, b"x")).status == 200


@pytest.mark.parametrize(
    "smuggled",
    [
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: +5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n",
        "GET /seen HTTP/1.1\r\nHost: {host}\r\nHost: other\r\n\r\n",
        "GET /seen HTTP/1.1\r\n\r\n",
        "GET http://other/seen HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT other:80 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET /seen HTTP/1.1\r\nHost: {host}\r\nX\r\n\r\n",
        "\x16\x03\x01 hello\r\n\r\n",
    ],
)
async def test_what_two_readers_could_take_for_two_things_is_refused(street, smuggled):
    browser = await street.opened()
    sent = smuggled.format(host=browser.host).replace("\r\n", f"\r\nCookie: {browser.cookie}\r\n", 1)
    said = await browser.raw(sent.encode("latin-1") + browser.head("GET", "/seen"))
    assert said.split()[1] in (b"400", b"501")
    assert said.count(b"HTTP/1.1") == 1


async def test_no_other_protocol_is_switched_to(street):
    browser = await street.opened()
    seen = fields_seen(await browser.ask("GET", "/seen", {"Connection": "close, Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "x"}))
    assert not {"upgrade", "http2-settings"} & seen.keys()


async def test_a_head_without_end_is_refused(street):
    browser = await street.opened()
    said = await browser.raw(b"GET /seen HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000)
    assert said.startswith(b"HTTP/1.1 431")


async def test_an_app_that_does_not_answer_yet_is_waited_for_by_the_page(street):
    browser = await street.opened(inside=free_port())
    answer = await browser.ask("GET", "/lab")
    assert answer.status == 503
    assert "Jupyter is starting…" in answer.body.decode()
    assert b'http-equiv="refresh" content="2"' in answer.body


async def test_an_app_that_speaks_no_http_is_told_as_such(street):
    async def nonsense(reader, writer):
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    async with server:
        browser = await street.opened(inside=server.sockets[0].getsockname()[1])
        assert (await browser.ask("GET", "/")).status == 502


async def test_live_connections_end_when_the_session_or_its_owner_is_no_longer_told_of(street):
    browser, stays = await street.opened("ends"), await street.opened("stays")
    headers = {"Origin": f"http://{browser.host}", **SOCKET}
    reader, writer = await browser.connect()
    other_reader, other_writer = await stays.connect()
    async with asyncio.timeout(5):
        writer.write(browser.head("GET", "/socket", headers))
        other_writer.write(stays.head("GET", "/socket", {**SOCKET, "Origin": f"http://{stays.host}"}))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        assert (await other_reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        street.house.tell(stays.stall)
        await to_the_end(reader)
        other_writer.write(b"\x89\x80\0\0\0\0")  # a ping
        assert await other_reader.readexactly(2) == b"\x8a\x00"
    writer.close()
    other_writer.close()


async def test_whoever_came_in_by_a_token_goes_with_it_and_others_stay(street):
    first = await street.opened("train")
    browser, stays = await street.browser(first.stall, "t1"), await street.browser(first.stall, "t2")
    reader, writer = await browser.connect()
    other_reader, other_writer = await stays.connect()
    async with asyncio.timeout(5):
        for one, its_writer, its_reader in ((browser, writer, reader), (stays, other_writer, other_reader)):
            its_writer.write(one.head("GET", "/socket", {**SOCKET, "Origin": f"http://{one.host}"}))
            assert (await its_reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        street.house.revoke("t1")
        await to_the_end(reader)
        other_writer.write(b"\x89\x80\0\0\0\0")  # a ping
        assert await other_reader.readexactly(2) == b"\x8a\x00"
    assert [(await one.ask("GET", "/seen")).status for one in (browser, stays, first)] == [401, 200, 200]
    assert "t1" not in (street.folder / "ssh" / "apps.json").read_text()
    late = await street.browser(first.stall, "t1")  # a ticket used at the very moment of the news
    assert (await late.ask("GET", "/seen")).status == 401
    writer.close()
    other_writer.close()


async def to_the_end(reader) -> None:
    """Ended or cut: both will do."""
    with contextlib.suppress(ConnectionResetError):
        await reader.read()


async def until_news(street) -> None:
    async with asyncio.timeout(5):
        while street.door._street._revision != str(street.house._revision):
            await street.door._street.news.wait()


async def test_hosts_tell_apps_on_one_port_apart(street):
    port = free_port()
    mine = await street.opened("mine", host="mine-kim.apps.lab.example", port=port)
    other = await street.opened("other", host="other-kim.apps.lab.example", port=port)
    assert (await mine.ask("GET", "/seen")).status == 200
    assert (await mine.ask("GET", "/seen", {"Host": other.host})).status == 401
    assert (await mine.ask("GET", "/seen", {"Host": "nobody.apps.lab.example"})).status == 404
    assert (await mine.ask("GET", "/seen", {"Host": "evil.example"})).status == 404


async def test_a_restart_of_the_gateway_signs_nobody_out_and_its_file_lets_nobody_in(tmp_path):
    async with serving(an_app()) as inside:
        async with a_street(tmp_path) as street:
            browser, house = await street.opened(inside=inside), street.house
        path = tmp_path / "ssh" / "apps.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert browser.cookie.partition("=")[2] not in path.read_text()
        async with a_street(tmp_path, house):
            assert (await browser.ask("GET", "/seen")).status == 200
            (hashed,) = json.loads(path.read_text())
            assert (await browser.ask("GET", "/seen", cookie=f"fairy_app_{browser.stall.id}={hashed}")).status == 401
            by_token = await street.browser(browser.stall, "t1")
        async with a_street(tmp_path, house) as street:
            assert (await by_token.ask("GET", "/seen")).status == 200
            house.revoke("t1")
            await until_news(street)
            assert [(await one.ask("GET", "/seen")).status for one in (by_token, browser)] == [401, 200]


async def test_a_gateway_that_drains_ends_what_rests_and_keeps_sockets(street):
    browser = await street.opened()
    resting, resting_writer = await browser.connect()
    resting_writer.write(browser.head("GET", "/seen"))
    async with asyncio.timeout(LIMIT_S):
        await resting.readuntil(b"]")
        async with aiohttp.ClientSession() as client:
            headers = {"Cookie": browser.cookie, "Origin": f"http://{browser.host}"}
            async with client.ws_connect(f"http://{browser.host}/socket", headers=headers) as ours:
                street.door.drain()
                await to_the_end(resting)
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", browser.stall.port)
                await ours.send_str("still here")
                assert await ours.receive_str() == "STILL HERE"
        await street.door.empty.wait()
    resting_writer.close()


async def test_more_connections_than_a_session_may_have_are_refused_in_words(street, monkeypatch):
    monkeypatch.setattr("gpufairy.gateway.apps_street.MOST_OF_A_SESSION", 2)
    browser = await street.opened()
    held = []
    async with asyncio.timeout(LIMIT_S):
        for _ in range(2):
            reader, writer = await browser.connect()
            writer.write(browser.head("GET", "/seen"))
            await reader.readuntil(b"]")
            held.append(writer)
        answer = await browser.ask("GET", "/seen")
    assert (answer.status, b"Too many connections" in answer.body) == (503, True)
    for writer in held:
        writer.close()


async def test_strangers_who_say_nothing_are_dropped(street, monkeypatch):
    monkeypatch.setattr("gpufairy.gateway.apps_visit.HEAD_S", 0.1)
    browser = await street.opened()
    reader, writer = await browser.connect()
    async with asyncio.timeout(LIMIT_S):
        writer.write(b"GET / HT")
        assert await reader.read() == b""
    writer.close()


