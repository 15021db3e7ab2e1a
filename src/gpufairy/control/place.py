"""The place loop: plans who starts where, and writes the seats down. Launching is the converge loop's work."""
from gpufairy.control.house import House
from gpufairy.core.plan import plan
from gpufairy.core.steps import place


async def place_waiting(house: House) -> None:
    now = house.clock()
    house.plan = plan(house.cluster(), now)
    await house.save([place(placed.session, placed.seat, now, placed.why) for placed in house.plan.placed])
