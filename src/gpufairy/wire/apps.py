"""What is sent to open an app, and the port numbers in fairy.toml."""
import re

from gpufairy.core.errors import BadInput
from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text

_PORTS = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


class OpenBody(Strict):
    app: Text


class TicketBody(Strict):
    """The gateway asks whether a ticket is good, and says at whose origin it was shown."""

    ticket: Text
    stall: Text


def parse_ports(text: str) -> range:
    """`8430-8479`: both ends are meant."""
    found = _PORTS.fullmatch(text)
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1024 <= first <= last < 65536:
        raise BadInput(f"apps.ports: found {text[:40]!r}", "Write two ports from 1024 to 65535, such as 8430-8479.")
    return range(first, last + 1)
