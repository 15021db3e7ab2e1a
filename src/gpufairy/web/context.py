"""What the pages are given: made by main, the same for all of them."""
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.control.apps import Apps
from gpufairy.control.house import House
from gpufairy.control.links import SignInLinks
from gpufairy.core.errors import FairyError


@dataclass(frozen=True, slots=True)
class PageContext:
    house: House
    links: SignInLinks
    url: str  # how people reach the server
    fairy_command: str  # how they call `fairy`
    status_and_title: Callable[[FairyError], tuple[int, str]]  # the API's, so that a page and the API never disagree
    ssh_port: int | None = None  # None: there is no SSH gateway
    apps: Apps | None = None  # None likewise: it serves them
