"""What the pages are given: made by main, the same for all of them."""
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.apps import Apps
from gpufairy.control.backup import Backups
from gpufairy.control.doctor import Doctor
from gpufairy.control.house import House
from gpufairy.control.janitor import Janitor
from gpufairy.control.links import SignInLinks
from gpufairy.control.mig import Cutter
from gpufairy.control.selftest import IsolationSelftest
from gpufairy.core.errors import FairyError
from gpufairy.web.oidc import Oidc
from gpufairy.wire.config import Config
from gpufairy.wire.submit import SubmitBody


@dataclass(frozen=True, slots=True)
class PageContext:
    house: House
    links: SignInLinks
    url: str  # how people reach the server
    fairy_command: str  # how they call `fairy`
    status_and_title: Callable[[FairyError], tuple[int, str]]  # the API's, so that a page and the API never disagree
    ssh_port: int | None = None  # None: there is no SSH gateway
    apps: Apps | None = None  # None likewise: it serves them
    presets: Mapping[str, SubmitBody] = field(default_factory=dict)
    ssh_host_key: str = ""  # its public half
    cutter: Cutter | None = None  # None: nobody cuts GPUs here
    selftest: IsolationSelftest | None = None
    config: Config | None = None  # None: in tests of other things
    oidc: Oidc | None = None  # None: nobody signs in by OpenID Connect
    desk: AlertDesk | None = None  # None: in tests of other things
    janitor: Janitor | None = None  # None likewise
    backups: Backups | None = None  # None likewise
    doctor: Doctor | None = None  # None likewise
    folders: tuple[str, ...] = ()  # of this machine, that sessions may have inside
