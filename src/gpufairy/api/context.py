"""What the routes are given: made by main, the same for all of them."""
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpufairy.control.apps import Apps
from gpufairy.control.house import House
from gpufairy.control.links import SignInLinks
from gpufairy.control.loop import Loop
from gpufairy.core.reading import GpuReading
from gpufairy.wire.submit import SubmitBody


async def no_readings() -> dict[str, GpuReading]:
    return {}


class Reachable(Protocol):
    @property
    def port(self) -> int: ...
    @property
    def host_key(self) -> str: ...  # its public half: who is told of it here need not trust the first that answers


@dataclass(frozen=True, slots=True)
class Context:
    house: House
    links: SignInLinks
    url: str  # how people reach the server
    loops: Sequence[Loop] = ()
    presets: Mapping[str, SubmitBody] = field(default_factory=dict)
    default_session: SubmitBody = field(default_factory=SubmitBody)  # what is started for whoever comes by SSH and has none
    gpu_readings: Callable[[], Awaitable[dict[str, GpuReading]]] = no_readings  # by GPU UUID
    machine: str | None = None  # which one this is, so that clients on it know that they share its folders
    ssh: Reachable | None = None  # None: there is no SSH gateway
    apps: Apps | None = None  # None likewise: it serves them
