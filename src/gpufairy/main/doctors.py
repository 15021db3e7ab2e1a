"""The doctor of a server: the same look as the command's, with what the server knows of itself."""
import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import time
from functools import partial

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.doctor import Doctor
from gpufairy.control.doctor_night import NightRounds
from gpufairy.control.house import House
from gpufairy.control.loop import Loop
from gpufairy.core.doctor import Finding
from gpufairy.core.doctor_checks import look
from gpufairy.core.doctor_facts import Facts
from gpufairy.core.doctor_merge import OWN_ALONE
from gpufairy.core.errors import Conflict
from gpufairy.main.doctor_look import Patient, looked_at

CLOCK = "its clock is "


def make_doctor(house: House, patient: Patient) -> Doctor:
    async def look_at_host() -> Sequence[Finding]:
        facts = await asked_aside(partial(looked_at, patient))
        facts = replace(facts, host=replace(facts.host, wrong_clocks=wrong_clocks(house), server_runs_here=True))
        name = next((seen.node for seen in house.watch.hosts() if seen.own), "") or os.uname().nodename
        return [one for one in look(facts, where=name) if one.check not in OWN_ALONE]

    return Doctor(house, look_at_host)


async def doctor_loops(house: House, desk: AlertDesk, doctor: Doctor, nightly: time | None) -> list[Loop]:
    rounds = NightRounds(house, doctor, nightly)
    await rounds.load()
    desk.watch.sources.doctor = rounds.troubles
    return [Loop("doctor", rounds.look, asyncio.Event(), every_s=60)]


async def asked_aside(look: Callable[[], Facts]) -> Facts:
    """On a thread that keeps nobody from leaving: a server that is told to stop does not wait for a driver that hangs."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Facts] = loop.create_future()

    def work() -> None:
        came: list[Facts] = []
        try:
            came.append(look())
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, found, came)

    threading.Thread(target=work, name="doctor", daemon=True).start()
    return await found


def settle(found: "asyncio.Future[Facts]", came: Sequence[Facts]) -> None:
    if found.done():  # whoever asked has gone
        return
    if came:
        found.set_result(came[0])
    else:
        found.set_exception(Conflict("the doctor could not look at all", "See the server's log."))


def wrong_clocks(house: House) -> tuple[str, ...]:
    """As their reports showed it: `gpu02 (12 minutes behind)`."""
    found = []
    for seen in house.watch.hosts():
        words = next((words for words in (seen.sample.trouble if seen.sample else ()) if words.startswith(CLOCK)), "")
        if words:
            found.append(f"{seen.node} ({words.removeprefix(CLOCK).partition(':')[0]})")
    return tuple(found)
