"""The place loop: plans who starts where, and writes the seats down. Launching is the converge loop's work."""
import time

from gpufairy.control import collector
from gpufairy.control.house import House
from gpufairy.core.plan import plan
from gpufairy.core.steps import place


async def place_waiting(house: House) -> float:
    """Returns how long it thought: it rests as long, so that a long line leaves time for people's requests."""
    async with house.placing:
        await house.hear_of_nodes()
        now, began_s = house.clock(), time.monotonic()
        with collector.put_off():
            house.plan = plan(house.cluster(), now, house.floor)
        thought_s = time.monotonic() - began_s
        await house.save([place(placed.session, placed.seat, now, placed.why) for placed in house.plan.placed])
    return thought_s
