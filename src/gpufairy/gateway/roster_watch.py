"""Following the server: its roster as it changes, and how long it has been away. And telling it whom we turned away."""
import asyncio
import logging

from gpufairy.core.errors import FairyError
from gpufairy.gateway.gate import Gate

log = logging.getLogger("gpufairy.gateway")

FIRST_BACK_OFF_S = 0.1
LONGEST_BACK_OFF_S = 1.0  # a key that is removed right after a restart of the server must be out within 2 s
TELL_EVERY_S = 2.0  # what is counted meanwhile goes together
AT_MOST_EVERY_S = 0.2  # a server that leaves answers its long polls at once


async def follow_roster(gate: Gate) -> None:
    """Returns when nobody needs the gateway any more: no server for long, and nobody in."""
    loop = asyncio.get_running_loop()
    back_off_s, last_answer = FIRST_BACK_OFF_S, loop.time()
    while True:
        began, before = loop.time(), gate.revision
        try:
            roster = await gate.house.roster(before)
        except FairyError as error:
            if back_off_s == FIRST_BACK_OFF_S:
                log.warning("the server does not answer, and those who are in stay in: %s", error)
            away_s = loop.time() - last_answer
            if away_s > gate.settings.lonely_s and gate.empty.is_set():
                log.warning("no server for %.0f s and nobody is in: leaving", away_s)
                return
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
            continue
        if back_off_s != FIRST_BACK_OFF_S:
            log.info("the server answers again")
        back_off_s, last_answer = FIRST_BACK_OFF_S, loop.time()
        gate.take_roster(roster)
        if roster.revision == before:
            await asyncio.sleep(max(0.0, AT_MOST_EVERY_S - (loop.time() - began)))


async def tell_refusals(gate: Gate) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        counts = gate.refusals.taken()
        if not counts:
            continue
        try:
            await gate.house.tell_refusals(counts)
        except FairyError:  # the server is away, or of an older version: they are told later
            gate.refusals.add(counts)
