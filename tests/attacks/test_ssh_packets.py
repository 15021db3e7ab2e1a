"""SSH before anybody has signed in: whatever packets come, nothing is opened, the log stays short, and others are served all the while."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from channels import Person, ssh_port
from raw_ssh import (
    CHANNEL_DATA,
    CHANNEL_OPEN_CONFIRMATION,
    CHANNEL_REQUEST,
    DEBUG,
    DISCONNECT,
    EXT_INFO,
    GLOBAL_REQUEST,
    HELLO,
    IGNORE,
    KEX_ECDH_INIT,
    KEXINIT,
    LISTS,
    NEWKEYS,
    SERVICE_ACCEPT,
    SERVICE_REQUEST,
    USERAUTH_SUCCESS,
    Stranger,
    channel_open,
    kexinit,
    packet,
    text,
    userauth,
)

from waits import until, wait_for_state

pytestmark = pytest.mark.system

DONE = (SERVICE_ACCEPT, USERAUTH_SUCCESS, CHANNEL_OPEN_CONFIRMATION)  # what nobody may hear who has not signed in
LONGEST_LINE = 400
LIMIT_S = 30

SERVICE = bytes([SERVICE_REQUEST]) + text(b"ssh-userauth")
GOOD = packet(kexinit())
RUBBISH = {
    "nothing after hello": [b""],
    "a packet that claims four gigabytes": [b"\xff\xff\xff\xff" + bytes(64)],
    "a packet that claims to be just below the limit, and goes on": [b"\x00\x03\xff\xf8" + b"\x04" + os.urandom(300_000)],
    "a packet of no bytes": [bytes(64)],
    "a length that is no multiple of eight": [packet(kexinit(), length=13)],
    "more padding than packet": [packet(b"\x02", padding=255)],
    "no padding": [packet(b"\x02hello", padding=0)],
    "an empty body": [packet(b"")],
    "kexinit of random bytes": [packet(bytes([KEXINIT]) + os.urandom(200))],
    "kexinit cut short": [packet(kexinit()[:30])],
    "kexinit whose lists claim more than there is": [packet(bytes([KEXINIT]) + bytes(16) + b"\xff\xff\xff\xff" * 10)],
    "kexinit with lists of megabytes": [packet(kexinit([b"a," * 100_000, *LISTS[1:]]))],
    "kexinit with names that are no text": [packet(kexinit([b"\xff\xfe\x00", *LISTS[1:]]))],
    "kexinit that agrees on nothing": [packet(kexinit([b"none"] * 10))],
    "kexinit for no cipher": [packet(kexinit([*LISTS[:2], b"none", b"none", *LISTS[4:]]))],
    "kexinit twice": [GOOD, packet(kexinit())],
    "a service before keys": [GOOD, packet(SERVICE)],
    "a service before kexinit": [packet(SERVICE)],
    "signing in before keys": [GOOD, packet(SERVICE), packet(userauth(b"kim"))],
    "signing in before all": [packet(userauth(b"kim"))],
    "success told by the client": [GOOD, packet(bytes([USERAUTH_SUCCESS]))],
    "a channel before keys": [GOOD, packet(channel_open())],
    "a channel before all": [packet(channel_open())],
    "a forward before keys": [GOOD, packet(channel_open(b"direct-tcpip") + text(b"127.0.0.1") + b"\0\0\0\x16" + text(b"x") + bytes(4))],
    "data for a channel that is not there": [GOOD, packet(bytes([CHANNEL_DATA]) + bytes(4) + text(b"id\n"))],
    "a command for a channel that is not there": [GOOD, packet(bytes([CHANNEL_REQUEST]) + bytes(4) + text(b"exec") + b"\1" + text(b"id"))],
    "a global request before keys": [GOOD, packet(bytes([GLOBAL_REQUEST]) + text(b"tcpip-forward") + b"\1" + text(b"") + bytes(4))],
    "newkeys before keys": [GOOD, packet(bytes([NEWKEYS])), packet(SERVICE)],
    "newkeys before all": [packet(bytes([NEWKEYS])), packet(SERVICE)],
    "a public value of no bytes": [GOOD, packet(bytes([KEX_ECDH_INIT]) + text(b""))],
    "a public value that is zero": [GOOD, packet(bytes([KEX_ECDH_INIT]) + text(bytes(32)))],
    "a public value of 30 KiB": [GOOD, packet(bytes([KEX_ECDH_INIT]) + text(b"x" * 30_000))],
    "an ignored packet inside a strict exchange": [GOOD, packet(bytes([IGNORE]) + text(b"x")), packet(SERVICE)],
    "extensions before keys": [GOOD, packet(bytes([EXT_INFO]) + b"\0\0\0\1" + text(b"x") + text(b"y"))],
    "messages that nobody knows": [GOOD, *(packet(bytes([kind]) + os.urandom(20)) for kind in (0, 8, 19, 29, 49, 79, 99, 127, 192, 255))],
    "words of a disconnect that steer a terminal": [GOOD, packet(bytes([DISCONNECT]) + b"\0\0\0\2" + text(b"\x1b]0;owned\x07\n" * 100) + text(b""))],
    "a debug word without end": [GOOD, packet(bytes([DEBUG]) + b"\1" + text(b"\x1b[2J" * 6000) + text(b""))],
}  # fmt: skip


@pytest.fixture(scope="module")
def port(server):
    return until(lambda: ssh_port(server), "the gateway")


@pytest.fixture(scope="module")
def kim(server, fairy):
    """Somebody whose name strangers try, and who must be served whatever they do."""
    kim = Person(server, fairy, "packets-kim")
    kim.client.submit({"name": "mine", "kind": "interactive", "gpus": "0"})
    wait_for_state(kim.client, "mine", "RUNNING")
    return kim


def log_of(server) -> str:
    return (server.data / "ssh" / "gateway.log").read_text(errors="replace")


@pytest.mark.parametrize("case", RUBBISH)
def test_no_packet_before_sign_in_opens_anything(server, port, kim, case):
    before = len(log_of(server))
    with Stranger(port) as stranger:
        stranger.hello()
        stranger.say(HELLO, *RUBBISH[case])
        stranger.end()
        heard = stranger.heard()
    assert not [body for body in heard if body and body[0] in DONE], heard
    assert_calm(log_of(server)[before:])


def assert_calm(written: str) -> None:
    for line in written.splitlines():
        assert len(line) < LONGEST_LINE, line[:600]
        assert line.isprintable(), line
        assert "Traceback" not in line
        assert "Error" not in line, line


@pytest.mark.parametrize("said", [b"SSH-2.0-" + b"x" * 60_000, b"x\n" * 30_000, b"\n" * 60_000, b"SSH-2.0-\x00\x00\r\n" * 5000, os.urandom(60_000)], ids=range(5))
def test_a_flood_of_version_lines_is_cut_off(server, port, said):
    before = len(log_of(server))
    with Stranger(port) as stranger:
        assert stranger.hello() == b"SSH-2.0-fairy\r"
        stranger.say(said)
        assert not [body for body in stranger.heard() if body and body[0] in DONE]
    assert len(log_of(server)) - before < 2000


def test_a_strict_exchange_is_offered_and_nothing_weak(port):
    with Stranger(port) as stranger:
        stranger.hello()
        offered = stranger.say(HELLO).next()
    assert offered[0] == KEXINIT
    assert b"kex-strict-s-v00@openssh.com" in offered
    for weak in (b"sha1", b"-cbc", b"arcfour", b"3des", b"ssh-dss", b"zlib", b"md5", b"group1-"):
        assert weak not in offered


def test_kim_is_served_after_all_of_it(server, port, kim):
    done = subprocess.run(kim.ssh("echo $FAIRY_SESSION", session="mine"), capture_output=True, timeout=LIMIT_S, check=False)
    assert done.stdout == b"mine\n", done.stderr


def test_what_a_client_sets_reaches_nothing_of_ours(server, kim):
    """By the environment and by the command's own words: what is ours stays ours."""
    names = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "BASH_ENV", "ENV", "IFS", "FAIRY_TOKEN_FILE", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HOME", "GIT_SSH_COMMAND")
    line = kim.ssh("env", session="mine", options=("-o", "SetEnv=" + " ".join(f"{name}=/tmp/evil-canary" for name in names)))
    done = subprocess.run(line, capture_output=True, timeout=LIMIT_S, check=False)
    assert b"FAIRY_SESSION=mine" in done.stdout
    assert b"evil-canary" not in done.stdout
    gateway = json.loads((server.data / "ssh" / "gateway.json").read_text())["pid"]
    assert b"evil-canary" not in Path(f"/proc/{gateway}/environ").read_bytes()


def test_ssh_audit_finds_no_failure(port):
    line = [sys.executable, "-m", "ssh_audit", "-n", "--skip-rate-test", "-p", str(port), "127.0.0.1"]
    said = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "kex-strict-s-v00@openssh.com" in said, said
    assert [line for line in said.splitlines() if "[fail]" in line] == []
