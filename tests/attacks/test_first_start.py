"""A server started for the first time, with nothing set: it is reached from this machine alone, and nobody becomes somebody by asking."""
import re
from pathlib import Path

import pytest
from intruders import ROUTES

from gpufairy.api.policy import Who
from raw_http import ask

pytestmark = pytest.mark.slow

LISTENS = "0A"  # as /proc/net/tcp writes it
LOOPBACK = ("0100007F", "00000000000000000000000001000000")


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses that this process listens on, by the kernel's own list."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if str(link.readlink()).startswith("socket:")}
    inodes = {re.sub(r"\D", "", name) for name in own}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in inodes:
                address, _, port = words[1].partition(":")
                found.add((address, int(port, 16)))
    return found


def test_only_loopback_is_listened_on(server):
    gateway = int(re.search(r'"pid": (\d+)', (server.data / "ssh" / "gateway.json").read_text())[1])
    for pid in (server.pid, gateway):
        addresses = listening(pid)
        assert addresses
        assert {address for address, _ in addresses} <= set(LOOPBACK)


def test_nobody_signs_up(server, fairy):
    before = [user["name"] for user in fairy.users()]
    for route in ROUTES:
        if route.who is Who.ANYONE and route.method == "POST":
            for body in (b"name=mallory&user=mallory&token=x&code=x", {"name": "mallory", "role": "admin"}):
                answer = ask(server.url, "POST", route.filled, body=body, headers={"Origin": server.url})
                assert "fairy_page=fairy_" not in answer.headers.get("set-cookie", "")
    assert [user["name"] for user in fairy.users()] == before


def test_what_is_private_is_readable_by_its_owner_alone(server):
    for path in (server.data, server.data / "ssh", server.data / "fairy.db", server.folder / "config" / "gpufairy" / "config.toml"):
        assert path.stat().st_mode & 0o077 == 0, f"{path} can be read by others"
