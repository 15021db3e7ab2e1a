"""What the routes are given: made by main, the same for all of them."""
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.apps import Apps
from gpufairy.control.backup import Backups
from gpufairy.control.doctor import Doctor
from gpufairy.control.house import House
from gpufairy.control.janitor import Janitor
from gpufairy.control.links import SignInLinks
from gpufairy.control.loop import Loop
from gpufairy.control.mig import Cutter
from gpufairy.control.selftest import IsolationSelftest
from gpufairy.core.believe import Heard
from gpufairy.devices.mps_values import MpsStatus
from gpufairy.wire.submit import SubmitBody


async def keep_nothing(_heard: Sequence[Heard]) -> None:
    """Where there is no history: in tests of other things."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What agents are told: how a lab names the containers that people start by hand."""

    name_rules: tuple[str, ...] = ()
    user_labels: tuple[str, ...] = ()
    users: tuple[str, ...] = ()  # the only ones that there are; empty: not known


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
    machine: str | None = None  # which one this is, so that clients on it know that they share its folders
    ssh: Reachable | None = None  # None: there is no SSH gateway
    apps: Apps | None = None  # None likewise: it serves them
    keep_heard: Callable[[Sequence[Heard]], Awaitable[None]] = keep_nothing  # of one host, oldest first
    watching: Watching = Watching()
    node_metrics: Callable[[], bytes] = bytes  # what this host's own exporter would say
    cutter: Cutter | None = None  # None: nobody cuts GPUs here
    selftest: IsolationSelftest | None = None  # None: in tests of other things
    mps: Callable[[], Sequence[MpsStatus]] = tuple  # the daemons that there are
    desk: AlertDesk | None = None  # None: in tests of other things
    janitor: Janitor | None = None  # None likewise
    backups: Backups | None = None  # None likewise
    doctor: Doctor | None = None  # None likewise
