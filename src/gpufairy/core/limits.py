"""Limits that are on by default: their names, as settings, metrics and logs have them, and how many were turned away by each."""
from collections.abc import Mapping
from enum import StrEnum


class Limit(StrEnum):
    """Each is the name of a setting under [limits], but for the last three, which are fixed."""

    REQUEST_TIME = "request_time"
    CONNECTIONS = "connections"
    CONNECTIONS_PER_SOURCE = "connections_per_source"
    STREAMS_PER_USER = "streams_per_user"
    QUEUED_PER_USER = "queued_per_user"
    SSH_LOGIN_TIME = "ssh_login_time"
    SSH_WAITING = "ssh_waiting"
    SSH_WAITING_PER_SOURCE = "ssh_waiting_per_source"
    SSH_SIGNING_IN = "ssh_signing_in"
    SSH_CONNECTIONS_PER_USER = "ssh_connections_per_user"
    SSH_CHANNELS = "ssh_channels"
    HEAD_SIZE = "head_size"
    BODY_SIZE = "body_size"
    SOCKET_PER_SESSION_USER = "socket_per_session_user"


class Refusals:
    """How often each was reached since the process began."""

    def __init__(self) -> None:
        self._counts: dict[Limit, int] = dict.fromkeys(Limit, 0)

    def count(self, limit: Limit, times: int = 1) -> None:
        self._counts[limit] += times

    def add(self, told: Mapping[Limit, int]) -> None:
        for limit, times in told.items():
            self.count(limit, times)

    def totals(self) -> Mapping[Limit, int]:
        return dict(self._counts)

    def taken(self) -> dict[Limit, int]:
        """Those counted since the last call; whoever cannot pass them on adds them again."""
        counted = {limit: times for limit, times in self._counts.items() if times}
        self._counts = dict.fromkeys(Limit, 0)
        return counted
