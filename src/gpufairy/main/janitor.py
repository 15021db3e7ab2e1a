"""The janitor and the care of hosts, built as the settings ask for them."""
import asyncio

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.gpu_access import GpuAccess
from gpufairy.control.host_care import HostCare
from gpufairy.control.house import House
from gpufairy.control.janitor import EVERY_S, Janitor
from gpufairy.control.loop import Loop
from gpufairy.wire.config import Config


def make_janitor(house: House, desk: AlertDesk, config: Config, python: str | None) -> Janitor:
    """`python`: inside sessions; None: they are processes of this machine."""
    janitor = Janitor(house, config.leaks.to_repair(), GpuAccess(house, python))
    desk.watch.sources.leaks = janitor.leaks
    return janitor


def care_loops(janitor: Janitor, care: HostCare) -> list[Loop]:
    return [
        Loop("janitor", janitor.look, janitor.news, every_s=EVERY_S),
        Loop("host care", care.look, asyncio.Event(), every_s=1),
    ]
