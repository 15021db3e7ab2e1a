"""Where a connection comes from: one household counts as one, and some addresses have many people behind them."""
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

Address = IPv4Address | IPv6Address
REMEMBERED = 4096  # addresses, since each is looked at for every connection


@dataclass(frozen=True, slots=True)
class Trusted:
    """This machine, and the addresses that an admin named: a proxy, or the gateway of a network, has many people behind it."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def has(self, host: str) -> bool:
        address = address_of(host)
        if address is None:
            return False
        return address.is_loopback or any(address in network for network in self.networks)


@lru_cache(REMEMBERED)
def source_of(host: str) -> str:
    """An IPv4 address; of IPv6 the first 64 bits, which belong to one household."""
    address = address_of(host)
    if address is None or isinstance(address, IPv4Address):
        return str(address or host)
    return address.packed[:8].hex(":", 2)


@lru_cache(REMEMBERED)
def address_of(host: str) -> Address | None:
    """None: it is no address. An IPv4 address that came in by IPv6 is an IPv4 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def parse_trusted(texts: Sequence[str], what: str) -> Trusted:
    networks = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError:
            raise BadInput(f"{what}: {shown(text)} is neither an address nor a network", "Write 10.0.0.7, or 10.1.0.0/16.") from None
    return Trusted(tuple(networks))
