"""When TLS certificates end: of a PEM file, or of a server that is asked for its own."""
import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from gpufairy.core.alert_look import Certificate

ANSWER_S = 5.0
LARGEST = 2**20


async def look_at(places: Sequence[str]) -> tuple[Certificate, ...]:
    return tuple(await asyncio.gather(*(look_at_one(place) for place in places)))


async def look_at_one(place: str) -> Certificate:
    host, _, port = place.rpartition(":")
    try:
        if host and port.isdecimal() and "/" not in place:
            return Certificate(place, (await served(host.strip("[]"), int(port))).not_valid_after_utc)
        return Certificate(place, (await asyncio.to_thread(read_first, place)).not_valid_after_utc)
    except TimeoutError:
        return Certificate(place, None, f"no answer within {ANSWER_S:g} s")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)[:160]
        return Certificate(place, None, why or type(error).__name__)


def read_first(path: str) -> x509.Certificate:
    """The server's own comes first, then those who signed it."""
    with Path(path).open("rb") as opened:
        return x509.load_pem_x509_certificates(opened.read(LARGEST))[0]


async def served(host: str, port: int) -> x509.Certificate:
    """Looked at, not trusted: one that has ended is just what is to be found."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(ANSWER_S):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        try:
            found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()
    return x509.load_der_x509_certificate(found)
