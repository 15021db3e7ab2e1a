"""The web terminal: a shell of the session over a WebSocket, for its owner alone, for as long as they may."""
import asyncio

import aiohttp
import pytest
from web_terminal import a_terminal

from raw_http import ask
from waits import wait_for_state

pytestmark = pytest.mark.slow  # a server of its own, and waits for rights to end


@pytest.fixture(scope="module")
def shell(server):
    """A session of the person who started the server."""
    with server.client() as client:
        client.submit({"name": "shell", "kind": "interactive", "gpus": "0"})
        wait_for_state(client, "shell", "RUNNING")
        yield "shell"
        client.stop("shell")


async def refused(server, name: str, **headers: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as answer:
        async with a_terminal(server, name, **headers):
            pass
    return answer.value.status


async def test_a_shell_is_typed_into_resized_and_left_with_its_exit_code(server, shell):
    async with a_terminal(server, shell, "?columns=101&rows=31") as terminal:
        await terminal.type("stty size; echo $FAIRY_SESSION-$TERM\n")
        await terminal.until("31 101")
        await terminal.until("shell-xterm-256color")
        await terminal.resize(120, 40)
        await terminal.type("stty size\n")
        await terminal.until("40 120")
        await terminal.type("sh -c 'echo sl\"\"eeps; exec sleep 600'\n")
        await terminal.until("sleeps")
        await terminal.type("\x03")
        await terminal.type("exit 7\n")
        assert await terminal.ended() == 1000
        assert terminal.exit == 7


async def test_much_output_and_much_input_pass_whole(server, shell):
    async with a_terminal(server, shell) as terminal:
        await terminal.type("stty -echo -icanon; PS1=; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the' 'end\n")
        assert (await terminal.until("the end")).count("x") >= 3_000_000
        await terminal.type("head -c 500000 | tr -d '\\n' | wc -c\n")
        await terminal.type("y" * 500_000)
        await terminal.until("500000")


async def test_a_reader_who_does_not_read_stops_the_command(server, shell):
    """What nobody takes is not kept: the shell's own writing waits."""
    async with a_terminal(server, shell) as terminal:
        await terminal.type("yes stuck\n")
        await terminal.until("stuck\r\n")
        await asyncio.wait([asyncio.create_task(asyncio.to_thread(ask, server.url, "GET", "/healthz"))])
        await terminal.type("\x03")
        await terminal.type("echo over\n")
        await terminal.until("over\r\n")


async def test_a_page_of_ours_opens_it_by_its_cookie_and_no_other_page_does(server, fairy, shell):
    signed_in = ask(fairy.sign_in_link().partition("/signin")[0], "GET", "/signin" + fairy.sign_in_link().partition("/signin")[2])
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    async with a_terminal(server, shell, Cookie=cookie, Origin=server.url) as terminal:
        await terminal.type("echo by$((1 + 1))cookie\n")
        await terminal.until("by2cookie")
    for origin in ("http://evil.example", f"http://127.0.0.1:{server.port + 1}", "null", f"{server.url}.evil.example", f"{server.url}/", ""):
        assert await refused(server, shell, Cookie=cookie, **({"Origin": origin} if origin else {})) == 403
    assert await refused(server, shell, Cookie="fairy_page=wrong", Origin=server.url) == 401
    page_token = cookie.partition("=")[2]
    assert await refused(server, shell, Authorization=f"Bearer {page_token}") == 403
    assert await refused(server, shell, Cookie=f"fairy_page={server.token}", Origin=server.url) == 403


async def test_it_is_refused_without_a_token_with_anothers_and_for_what_is_not_there(server, fairy, make_user, shell):
    eve = make_user("terminal-eve")
    assert await refused(server, shell, Origin=server.url) == 401
    for token in ("fairy_wrong", "fairyp_x.1.y", "x" * 5000):
        assert await refused(server, shell, Authorization=f"Bearer {token}") == 401
    me = fairy.me()["name"]
    for name in (shell, f"{me}+{shell}", fairy.session(shell)["id"]):
        assert await refused(server, name, Authorization=f"Bearer {eve._token}") == 404
    hers = eve.submit({"name": "hers", "kind": "interactive", "gpus": "0"})
    wait_for_state(eve, "hers", "RUNNING")
    assert await refused(server, hers["id"], Authorization=f"Bearer {server.token}") == 403  # an admin's too
    assert await refused(server, "nosuch", Authorization=f"Bearer {server.token}") == 404
    assert await refused(server, shell, Authorization=f"Bearer {fairy.create_token({'scope': 'metrics'})['token']}") == 403
    eve.stop("hers")
    assert not [line for line in server.log.splitlines() if "ERROR" in line or "ASGI" in line]  # who is refused fills no log


async def test_it_ends_within_five_seconds_of_its_readers_rights_or_its_session(server, fairy, make_user):
    paul = make_user("terminal-paul")
    token = fairy.create_token({"user": "terminal-paul"})
    for name in ("revoked", "over"):
        paul.submit({"name": name, "kind": "interactive", "gpus": "0"})
        wait_for_state(paul, name, "RUNNING")
    async with a_terminal(server, "revoked", Authorization=f"Bearer {token['token']}") as terminal:
        fairy.revoke_token(token["id"])
        assert await terminal.ended(limit_s=5) == 1008
    async with a_terminal(server, "over", Authorization=f"Bearer {paul._token}") as terminal:
        paul.stop("over")
        await terminal.ended(limit_s=5)
    async with a_terminal(server, "revoked", Authorization=f"Bearer {paul._token}") as terminal:
        fairy.change_user("terminal-paul", {"disabled": True})
        assert await terminal.ended(limit_s=5) == 1008


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"resize": [0, 1]}', '{"resize": [1, 1e9]}', '{"resize": [true, 1]}', '{"resize": 5}', "[" * 100_000])
async def test_nonsense_closes_it_and_harms_nothing(server, shell, text):
    async with a_terminal(server, shell) as terminal:
        await terminal.socket.send_str(text)
        assert await terminal.ended() == 1007


async def test_what_a_terminal_left_behind_is_nothing(server, shell):
    async with a_terminal(server, shell) as terminal:
        await terminal.type("echo be''gin$$e''nd\n")
        await terminal.until("begin")
        pid = int(await terminal.until("end"))
    async with a_terminal(server, shell) as terminal, asyncio.timeout(10):
        await terminal.type(f"while kill -0 {pid} 2>/dev/null; do sleep 0.1; done; echo gone$((1 + 1))\n")
        await terminal.until("gone2")


async def test_a_socket_where_there_is_none_is_refused(server):
    for path in ("/healthz", "/api/v1/me", "/api/v1/nosuch"):
        async with aiohttp.ClientSession() as client:
            with pytest.raises(aiohttp.WSServerHandshakeError) as answer:
                await client.ws_connect(f"{server.url}{path}", headers={"Authorization": f"Bearer {server.token}"})
            assert answer.value.status in (403, 404)
