"""Who must not get in, and what the attempt may cost."""
import asyncio
import contextlib
import socket
import time

import asyncssh
import pytest
from asyncssh.constants import MSG_USERAUTH_REQUEST
from asyncssh.packet import String
from ssh_scene import is_open, make_key

from waits import until

pytestmark = pytest.mark.system


@pytest.fixture
def other_key(scene):
    path = scene.folder / "id_other"
    public = make_key(path)
    yield path, public
    path.unlink()


@pytest.mark.parametrize("user", ["nobody", "root", "Kim", "kim.", "..", "../kim", "kim/..", "kim+", "+train", "kim+../x", "kim@x", "k" * 200])
def test_names_of_nobody_are_refused_with_the_right_key(scene, user):
    done = scene.ssh("true", options=("-l", user))
    assert (done.returncode, b"Permission denied (publickey)" in done.stderr) == (255, True)
    assert scene.house.asked == []


ODD = ["", "kim\0", "kim\0+train", "kim\n", "kim%n", "kim;id", "-x", "\x1b[31m", "\uff4bim", "k\u0456m", "kim\u200b", "\ud55c" * 2000, "a" * 65536]


@pytest.mark.parametrize("sent", [*(name.encode() for name in ODD), b"\xff\xfe", b"\xed\xa0\x80"], ids=range(len(ODD) + 2))
async def test_names_that_no_client_sends_fail_like_any_other_with_a_short_log_line(scene, sent):
    with pytest.raises(asyncssh.PermissionDenied):
        await scene.connect(**named(sent))
    line = next(line for line in reversed(scene.log.splitlines()) if "a name that nobody can have" in line)
    assert len(line) < 300
    assert line.isprintable()
    assert scene.house.asked == []


def named(sent: bytes):
    """asyncssh prepares names; this one is sent as it is."""

    class Misnamed(asyncssh.SSHClient):
        def connection_made(self, conn):
            def request(method, *args):
                return String(sent) + String(b"ssh-connection") + String(method) + b"".join(args)

            conn._get_userauth_request_packet = lambda method, args: bytes([MSG_USERAUTH_REQUEST]) + request(method, *args)

    return {"client_factory": Misnamed}


def test_a_wrong_key_and_an_unknown_user_are_told_the_same(scene, other_key):
    told = [scene.ssh("true", user=user, key=other_key[0]).stderr.replace(user.encode(), b"USER") for user in ("kim", "nosuch", "kim+train", "a..b")]
    assert set(told) == {told[0]}
    assert b"Permission denied (publickey)" in told[0]


def test_another_users_key_opens_nothing_of_kims(scene, other_key):
    scene.house.change(people={"kim": [scene.public], "lee": [other_key[1]]})
    until(lambda: scene.ssh("true", user="lee", key=other_key[0]).returncode == 0, "lee to be let in")
    assert scene.ssh("true", user="kim", key=other_key[0]).returncode == 255
    assert scene.ssh("true", user="kim+lee", key=other_key[0]).returncode == 255


@pytest.mark.parametrize("method", ["password", "keyboard-interactive", "hostbased", "gssapi-with-mic", "none"])
def test_there_is_no_second_way_to_sign_in(scene, method):
    done = scene.ssh("true", options=("-o", f"PreferredAuthentications={method}", "-o", "BatchMode=no", "-o", "NumberOfPasswordPrompts=0"))
    assert (done.returncode, b"Permission denied (publickey)" in done.stderr) == (255, True)


async def test_a_key_that_is_offered_and_not_signed_with_is_no_identity(scene, other_key):
    """kim's public key is no secret: lee offers it, and signs with his own."""
    scene.house.change(people={"kim": [scene.public], "lee": [other_key[1]]})
    until(lambda: scene.ssh("true", user="lee", key=other_key[0]).returncode == 0, "lee to be let in")
    kims, lees = asyncssh.import_public_key(scene.public), asyncssh.read_private_key(other_key[0])

    pair = asyncssh.load_keypairs([lees])[0]
    pair.public_data = kims.public_data  # what is offered, and what the request claims to be signed with
    with pytest.raises(asyncssh.PermissionDenied):
        await scene.connect("kim", client_keys=[pair])
    with pytest.raises(asyncssh.PermissionDenied):
        await scene.connect("lee", client_keys=[pair])


async def test_a_signature_by_sha1_counts_for_nothing(scene):
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    scene.house.change(people={"kim": [scene.public, key.export_public_key().decode()]})

    async def comes_in(**more):
        try:
            async with await scene.connect(client_keys=[key], **more):
                return True
        except asyncssh.PermissionDenied:
            return False

    deadline = time.monotonic() + 5
    while not await comes_in(signature_algs=["rsa-sha2-256"]):
        assert time.monotonic() < deadline
    assert not await comes_in(signature_algs=["ssh-rsa"])


async def test_six_wrong_keys_end_the_connection(scene):
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(10)]
    with pytest.raises(asyncssh.DisconnectError, match="Too many authentication failures"):
        await scene.connect(client_keys=keys)


async def test_five_wrong_keys_before_the_right_one_are_forgiven(scene):
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(5)]
    async with await scene.connect(client_keys=[*keys, asyncssh.read_private_key(scene.key)]) as connection:
        assert (await connection.run("echo in")).stdout == "in\n"


async def test_nothing_can_be_opened_before_signing_in(scene):
    class Eager(asyncssh.SSHClient):
        def connection_made(self, conn):
            conn._auth_complete = True  # as a client that does not wait for us

    with contextlib.suppress(asyncssh.Error, OSError, AssertionError):
        connection = await asyncio.wait_for(scene.connect(client_factory=Eager, client_keys=None), 5)
        connection.abort()
    assert scene.house.asked == []


async def test_strict_key_exchange_good_ciphers_and_nothing_about_us(scene):
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
    assert await reader.readline() == b"SSH-2.0-fairy\r\n"
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    head = await reader.readexactly(5)
    packet = await reader.readexactly(int.from_bytes(head[:4], "big") - 1)
    assert b"kex-strict-s-v00@openssh.com" in packet
    for weak in (b"chacha20", b"-cbc", b"-ctr", b"sha1", b"arcfour", b"zlib", b"ssh-dss"):
        assert weak not in packet
    writer.close()
    await writer.wait_closed()


async def test_a_client_without_gcm_is_served_by_ctr(scene):
    async with await scene.connect(encryption_algs=["aes256-ctr"], mac_algs=["hmac-sha2-256-etm@openssh.com"]) as connection:
        assert (await connection.run("echo in")).stdout == "in\n"


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", b"x" * 300, b"SSH-1.5-old\r\n", b"SSH-2.0-" + b"x" * 300])
async def test_who_speaks_no_ssh_is_sent_away_at_once(scene, said):
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
    await reader.readline()
    writer.write(said)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 2) == b""
    writer.close()


async def test_garbage_after_a_good_beginning_ends_that_connection_alone(scene):
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
    writer.write(b"SSH-2.0-x\r\n" + b"\xff" * 4096)
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert scene.ssh("true").returncode == 0


def test_a_thousand_who_stand_there_hold_nobody_up(scene):
    links = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(1000)]
    began = time.monotonic()
    assert scene.ssh("true").returncode == 0
    assert time.monotonic() - began < 3
    for link in links:
        link.close()


def test_hundreds_who_begin_to_sign_in_and_stop_hold_nobody_up(scene):
    links = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(200)]
    for link in links:
        link.sendall(b"SSH-2.0-slow\r\n")
    began = time.monotonic()
    assert scene.ssh("true").returncode == 0
    assert time.monotonic() - began < 3  # 0.8 s beside much else
    for link in links:
        link.close()


def test_hundreds_who_drip_nonsense_after_their_line_hold_nobody_up(scene):
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", scene.port), timeout=40)) for _ in range(200)]
        for said in (b"SSH-2.0-slow\r\n", b"\0\0\0\0"):
            for link in links:
                link.sendall(said)
        began = time.monotonic()
        assert scene.ssh("true").returncode == 0
        assert time.monotonic() - began < 10  # 0.3 s where nothing else runs


def test_strangers_are_dropped_after_the_grace(own_scene):
    scene = own_scene.start("--login-grace", "1")
    silent, slow, halfway = (socket.create_connection(("127.0.0.1", scene.port), timeout=10) for _ in range(3))
    slow.sendall(b"SSH-2.0-s")
    halfway.sendall(b"SSH-2.0-halfway\r\n")
    for link in (silent, slow, halfway):
        with contextlib.suppress(ConnectionError):
            while link.recv(65536):
                pass
        link.close()
    assert scene.ssh("sleep 2; echo still in").stdout == b"still in\n"


async def test_two_hundred_come_in_at_once(own_scene):
    scene = own_scene.start("--most-per-user", "1000")
    keys = [asyncssh.read_private_key(scene.key)]

    async def comes():
        async with await scene.connect(client_keys=keys) as connection:
            return (await connection.run("echo in")).stdout

    began = time.monotonic()
    assert await asyncio.gather(*(comes() for _ in range(200))) == ["in\n"] * 200
    assert time.monotonic() - began < 20


async def test_one_user_has_so_many_connections_and_no_more(own_scene):
    scene = own_scene.start("--most-per-user", "3")
    async with await scene.connect(), await scene.connect():
        async with await scene.connect():
            refused = await asyncio.to_thread(scene.ssh, "true")
            assert (refused.returncode, b"kim has 3 connections open" in refused.stderr) == (255, True), refused.stderr
        assert (await asyncio.to_thread(scene.ssh, "true")).returncode == 0


async def test_variables_without_end_are_not_kept(scene):
    async with await scene.connect() as connection:
        shown = await connection.run("env | grep -c ^LC_", env={f"LC_{'A' * (number % 20 + 1)}{'B' * (number // 20)}": "x" for number in range(400)})
    assert int(shown.stdout) <= 32


def test_no_secret_and_no_content_is_in_the_log(scene):
    scene.house.answer = lambda _: is_open(scene.home)
    scene.ssh("echo canary-in-a-command", input=b"canary-in-input")
    assert "canary" not in scene.log
    assert "SHA256:" in scene.log
