"""Nodes come and go, where the engine has more than this machine: they are looked at anew, and who waits is placed anew."""
from gpufairy.control.house import House


async def look_for_nodes(house: House) -> None:
    before = house.with_coming
    await house.look_at_nodes()
    if house.with_coming != before:
        house.bells.place.set()
