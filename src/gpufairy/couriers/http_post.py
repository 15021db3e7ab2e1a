"""One POST to an endpoint that may hang, refuse, redirect or talk nonsense: a deadline, one try, and words about what came of it."""
import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from gpufairy.core.errors import NotDelivered
from gpufairy.wire.tls import trust_authorities, trust_machine

DEADLINE_S = 10.0
CONNECT_S = 5.0
LONGEST_ANSWER = 2000  # bytes that are looked at
SHOWN = 160  # letters of an answer, in an error
TRIED_AGAIN = "It is kept, and tried again by itself. Check that the address is right and can be reached from the server."


async def post(url: str, body: bytes, headers: Mapping[str, str], *, ca_file: str | None = None, public_only: bool = False) -> None:
    """`public_only`: never to an address inside: users may name any URL, and must not reach by it what they could not reach themselves."""
    place = place_of(url)
    if public_only:
        refuse_inside(urlsplit(url).hostname or "", place)
    connector = aiohttp.TCPConnector(resolver=PublicResolver() if public_only else None, ssl=tls(ca_file), force_close=True)
    limits = aiohttp.ClientTimeout(total=DEADLINE_S, connect=CONNECT_S)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limits, trust_env=False, auto_decompress=False) as http,
            http.post(url, data=body, headers={"User-Agent": "gpufairy", **headers}, allow_redirects=False) as answer,
        ):
            said = await answer.content.read(LONGEST_ANSWER)
            check(answer.status, answer.headers.get("Location"), said, place)
    except TimeoutError:
        raise NotDelivered(f"{place} did not answer within {DEADLINE_S:g} s", TRIED_AGAIN) from None
    except aiohttp.ClientConnectorCertificateError:
        raise NotDelivered(f"{place} has a certificate that is not trusted", "Name who signed it: ca_file of the channel.") from None
    except (aiohttp.ClientConnectorError, aiohttp.ClientOSError) as error:
        raise NotDelivered(f"{place} cannot be reached: {error.strerror or 'no connection'}", TRIED_AGAIN) from None
    except (aiohttp.ClientError, ValueError, OSError) as error:
        # Without the error's own words: some of them hold the whole URL, which may be a secret.
        raise NotDelivered(f"{place} did not answer as it should ({type(error).__name__})", TRIED_AGAIN) from None


def check(status: int, location: str | None, said: bytes, place: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        there = place_of(location) if location and "://" in location else "another path there"
        raise NotDelivered(f"{place} points to {there} ({status}), which is not followed", "Set the channel's URL to where it really is.")
    words = "".join(char if char.isprintable() else " " for char in said.decode(errors="replace"))[:SHOWN].strip()
    raise NotDelivered(f"{place} answered {status}{f': {words}' if words else ''}", TRIED_AGAIN)


def place_of(url: str) -> str:
    """For people: paths and queries of webhooks are often as good as a password."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def tls(ca_file: str | None) -> ssl.SSLContext:
    if ca_file is None:
        return trust_machine()
    try:
        return trust_authorities(file=ca_file)
    except (OSError, ssl.SSLError) as error:
        found = f"ca_file: {ca_file} cannot be used: {error.strerror}"
        raise NotDelivered(found, "Give a PEM file of who signed the certificate.") from None


def is_inside(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return not (mapped or found).is_global or found.is_multicast


def refuse_inside(host: str, place: str) -> None:
    if is_inside(host):
        raise NotDelivered(f"{place} is inside this network, where users' messages do not go", "Ask an admin for a channel.")


class PublicResolver(AbstractResolver):
    """Looked at when the connection is made: a name that meant another address a moment ago does not help."""

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        for _family, _kind, _protocol, _name, address in found:
            refuse_inside(str(address[0]), host)
        return [_result(host, one) for one in found]

    async def close(self) -> None:
        """Nothing is held."""


def _result(host: str, found: Any) -> ResolveResult:
    family, _kind, protocol, _name, address = found
    return ResolveResult(
        hostname=host, host=str(address[0]), port=int(address[1]), family=int(family), proto=int(protocol), flags=int(socket.AI_NUMERICHOST)
    )
