"""The sessions' own bridge, and a firewall table of our own around it. The daemon's chains are not touched.

From inside: out to the world; not to this host, its metadata addresses or another session. From outside: nothing that was not asked for.
"""
import asyncio
import logging
import shutil
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.docker_daemon import CONFLICT, NOT_FOUND, Daemon
from gpufairy.engines.docker_spec import Network
from gpufairy.engines.docker_words import DaemonRefused

NFT_S = 10.0
# What passes by itself. Podman lists all interfaces and then looks at each: one that a container which just ended has taken along makes it
# give up. Docker finds its own chains gone while a firewall, or another daemon that starts, loads them anew.
PASSING = ("no such network interface", "Failed to Setup IP tables", "iptables failed")
TRIES, TRY_AGAIN_S = 5, 0.4
# Link-local, where clouds have their metadata, and the few clouds that have it elsewhere (Azure, Alibaba, Oracle).
METADATA = "169.254.0.0/16, 168.63.129.16, 100.100.100.200, 192.0.0.192"
WITHOUT_FIREWALL = 'Install nftables and start the server as root; or set docker.network to "none", or to "unguarded" if that is meant.'

log = logging.getLogger(__name__)


class SessionNetwork:
    """Named after the server, so that two servers on one host stay out of each other's way."""

    def __init__(self, daemon: Daemon, server_id: str, wanted: Network, subnet: str = "") -> None:
        self._daemon, self._server_id, self._wanted, self._subnet = daemon, server_id, wanted, subnet
        short = "".join(letter for letter in server_id.lower() if letter.isalnum())[:8] or "0"
        self.bridge = f"fairy-{short}"  # an interface's name has at most 15 letters
        self._table = f"gpufairy_{short}"
        self._gateway = self._range = ""

    @property
    def mode(self) -> str:
        """What a container's NetworkMode says."""
        return "none" if self._wanted is Network.NONE else self.bridge

    async def make(self) -> None:
        """Before the first launch. Made again it is the same."""
        if self._wanted is Network.NONE:
            return
        await self._ensure_bridge()
        if self._wanted is Network.OPEN:
            await self._load()

    async def mend(self) -> None:
        """Put the firewall back if somebody has emptied it, as `nft flush ruleset` does."""
        if self._wanted is Network.OPEN and not await self._loaded():
            log.warning("the firewall around sessions (nft table %s) was gone; it is put back", self._table)
            await self._load()

    async def remove(self) -> None:
        """For good: no session may be left."""
        async with self._daemon.asked(f"removing network {self.bridge}", fine=(NOT_FOUND,)):
            network = await self._daemon.docker.networks.get(self.bridge)
            await network.delete()
        if self._wanted is Network.OPEN:
            await nft("".join(empty_table(family, self._table) for family in ("inet", "bridge")))

    async def _ensure_bridge(self) -> None:
        found = await self._show()
        for left in reversed(range(TRIES)):
            if found is not None:
                break
            await self._create(last=left == 0)
            found = await self._show()
        if found is None or (found.get("Labels") or {}).get("gpufairy.server") != self._server_id:
            raise EngineRefused(f"network {self.bridge} is there and is not ours", f"Remove it: `docker network rm {self.bridge}`.")
        config = (found.get("IPAM") or {}).get("Config") or [{}]
        self._gateway, self._range = str(config[0].get("Gateway") or ""), str(config[0].get("Subnet") or "")

    async def _create(self, *, last: bool) -> None:
        try:
            async with self._daemon.asked(f"making network {self.bridge}"):
                await self._daemon.docker.networks.create(network_spec(self.bridge, self._server_id, self._subnet))
        except DaemonRefused as error:
            if any(words in error.answer for words in PASSING) and not last:
                await asyncio.sleep(TRY_AGAIN_S)
            elif error.status != CONFLICT and "already" not in error.answer:  # made by another at the same time
                raise

    async def _show(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        async with self._daemon.asked(f"looking at network {self.bridge}", fine=(NOT_FOUND,)):
            network = await self._daemon.docker.networks.get(self.bridge)
            found = await network.show()
        return found

    async def _load(self) -> None:
        # Podman's name server listens on the bridge's own address; Docker's is inside the container.
        rules = ruleset(self._table, self.bridge, self._gateway if self._daemon.podman else "")
        try:
            await nft(rules + between_sessions(self._table, f'meta ibrname "{self.bridge}"'))
        except EngineRefused:
            # A kernel without nft_meta_bridge. By address it is as good: nobody inside can change theirs, and they have no IPv6.
            await nft(rules + between_sessions(self._table, f"ether type ip ip saddr {self._range} ip daddr {self._range}"))

    async def _loaded(self) -> bool:
        return all([(await run_nft("list", "table", family, self._table))[0] == 0 for family in ("inet", "bridge")])


def network_spec(bridge: str, server_id: str, subnet: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "Name": bridge,
        "Driver": "bridge",
        "CheckDuplicate": True,
        "EnableIPv6": False,
        "Labels": {"gpufairy.server": server_id},
        "Options": {"com.docker.network.bridge.name": bridge, "com.docker.network.bridge.enable_icc": "false"},
    }
    return spec | ({"IPAM": {"Driver": "default", "Config": [{"Subnet": subnet}]}} if subnet else {})


def ruleset(table: str, bridge: str, resolver: str) -> str:
    """One text, loaded as a whole or not at all: there is no moment without rules."""
    names = f'iifname "{bridge}" ip daddr {resolver} meta l4proto {{ tcp, udp }} th dport 53 accept' if resolver else ""
    return f"""\
{empty_table("inet", table)}{empty_table("bridge", table)}
table inet {table} {{
  chain to_host {{
    type filter hook input priority -10; policy accept;
    iifname "{bridge}" ct state established,related accept
    {names}
    iifname "{bridge}" drop
  }}
  chain from_host {{
    type filter hook output priority -10; policy accept;
    oifname "{bridge}" ct state established,related accept
    oifname "{bridge}" drop
  }}
  chain through {{
    type filter hook forward priority -10; policy accept;
    iifname "{bridge}" oifname "{bridge}" drop
    oifname "{bridge}" ct state established,related accept
    oifname "{bridge}" drop
    iifname "{bridge}" meta nfproto ipv6 drop
    iifname "{bridge}" ct status dnat drop comment "ports that the host has published"
    iifname "{bridge}" ip daddr {{ {METADATA} }} meta l4proto {{ tcp, udp }} th dport 53 accept comment "some clouds resolve names there"
    iifname "{bridge}" ip daddr {{ {METADATA} }} drop
  }}
}}
"""


def between_sessions(table: str, match: str) -> str:
    """What the bridge itself would hand from one session to another; the rules above never see that unless br_netfilter is there."""
    return f"""\
table bridge {table} {{
  chain between_sessions {{
    type filter hook forward priority -10; policy accept;
    {match} drop
  }}
}}
"""


def empty_table(family: str, table: str) -> str:
    """Made if it was not there, so that its removal cannot fail."""
    return f"table {family} {table}\ndelete table {family} {table}\n"


async def nft(text: str) -> None:
    if shutil.which("nft") is None:
        raise EngineRefused("there is no nft here, so sessions cannot be kept from the host's own services", WITHOUT_FIREWALL)
    code, words = await run_nft("-f", "-", text=text)
    if code != 0:
        raise EngineRefused(f"the firewall around sessions could not be set: nft says {words}", WITHOUT_FIREWALL)


async def run_nft(*arguments: str, text: str = "") -> tuple[int, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("nft", *arguments, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe)
    try:
        async with asyncio.timeout(NFT_S):
            _, words = await process.communicate(text.encode())
    except TimeoutError:
        return 1, f"nothing within {NFT_S:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return process.returncode or 0, " ".join(words.decode(errors="replace").split())[:300]
