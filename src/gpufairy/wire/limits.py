"""Settings of what one user, or somebody whom nobody knows, may cost the others."""
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput
from gpufairy.core.source import Trusted, parse_trusted
from gpufairy.wire.read import Strict

MOST = 1_000_000  # of anything: more descriptors than any system gives to one process


class LimitsConfig(Strict):
    """On by default. Whoever reaches one is told which, and it is counted: fairy_refused_total."""

    request_time: str = "15s"  # for the whole of a request to come; a large body has longer, as long as it keeps coming
    connections: int = 8192  # of page and API; beyond, those that send nothing make room
    connections_per_source: int = 1024  # of one address
    trusted: Annotated[list[str], Field(max_length=100)] = []  # noqa: RUF012 - frozen with the model; addresses of many people
    streams_per_user: int = 256  # pages that follow, logs that are followed, terminals of pages, questions that wait
    queued_per_user: int = 10_000  # sessions that wait
    ssh_login_time: str = "30s"  # from the connection to being signed in
    ssh_waiting: int = 8192  # connections that have not begun to sign in; beyond, the oldest makes room
    ssh_waiting_per_source: int = 2048  # the same of one address
    ssh_signing_in: int = 128  # that exchange keys at once; others wait for their turn
    ssh_signing_in_per_source: int = 32  # the same of one address
    ssh_connections_per_user: int = 100  # signed in
    ssh_channels: int = 32  # of one connection: terminals, commands and forwards together

    def check(self) -> None:
        """Raises BadInput."""
        for name, value in self.model_dump().items():
            if isinstance(value, int) and not 1 <= value <= MOST:
                raise BadInput(f"limits.{name}: {value} is not between 1 and {MOST}", "Leave it out for what is usual.")
        for read in (lambda: self.request_s, lambda: self.ssh_login_s, self.to_trusted):
            read()

    @property
    def request_s(self) -> float:
        return seconds(self.request_time, "limits.request_time")

    @property
    def ssh_login_s(self) -> float:
        return seconds(self.ssh_login_time, "limits.ssh_login_time")

    def to_trusted(self) -> Trusted:
        return parse_trusted(self.trusted, "limits.trusted")


def seconds(text: str, what: str) -> float:
    found = parse_duration(text, what).total_seconds()
    if not 1 <= found <= 3600:
        raise BadInput(f"{what}: {text} is not between 1s and 1h", "15s to 60s is usual.")
    return found
