"""A whole house on the fake engine and a real SQLite file, with a clock that the test holds. Loops are run by hand, until they rest."""
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from builders import NOW, a_node
from gpufairy.control.admit import admit
from gpufairy.control.clock import HeldClock
from gpufairy.control.converge import converge
from gpufairy.control.door import ask_to_stop, submit
from gpufairy.control.expire import expire
from gpufairy.control.house import House
from gpufairy.control.place import place_waiting
from gpufairy.control.registry import Caller
from gpufairy.core.cluster import Policy
from gpufairy.core.people import Role, User
from gpufairy.core.session import Session
from gpufairy.engines.fake import FakeContainers, FakeEngine
from gpufairy.store.store import Store
from gpufairy.wire.submit import SubmitBody
from ready_database import put_database

ANN = User("ann", Role.USER, NOW)
POLICY = Policy()


class Scene:
    def __init__(self, house: House, containers: FakeContainers, clock: HeldClock) -> None:
        self.house, self.containers, self.clock = house, containers, clock

    async def submit(self, **fields: object) -> Session:
        body = SubmitBody.model_validate({"command": ["work"], "gpus": "1", **fields})
        return (await submit(self.house, Caller(ANN, "full"), body, {}, None))[0]

    async def stop(self, session: Session) -> None:
        await ask_to_stop(self.house, [session], "ann", "stopped by ann")

    async def rest(self) -> None:
        """Every loop in turn until two whole rounds write nothing: what one loop finds out may be for one that was before it."""
        quiet = 0
        while quiet < 2:
            before = {session.id: session.revision for session in self.house.book}
            await admit(self.house)
            await place_waiting(self.house)
            await converge(self.house)
            await self.house.deeds.settled()
            await converge(self.house)
            await self.house.deeds.settled()
            await expire(self.house)
            quiet = quiet + 1 if before == {session.id: session.revision for session in self.house.book} else 0

    async def now(self, session: Session) -> Session:
        found = self.house.book.get(session.id) or await self.house.store.sessions.get(session.id)
        assert found is not None
        return found

    async def later(self, time: timedelta) -> None:
        self.clock.go_on(time)
        await self.rest()


@asynccontextmanager
async def a_house(folder: Path, containers: FakeContainers | None = None, clock: HeldClock | None = None, gpus: int = 2, **house_settings):
    """Opened again with the same folder and containers it is a restarted server."""
    containers, clock = containers or FakeContainers(), clock or HeldClock(NOW)
    await put_database(folder / "fairy.db")
    store = await Store.open(f"sqlite:///{folder / 'fairy.db'}", holder="test", half_life=POLICY.half_life)
    shelf, driver_cuda = house_settings.pop("shelf", None), house_settings.pop("driver_cuda", None)
    node = house_settings.pop("node", None) or a_node(gpus=gpus, driver_cuda=driver_cuda)
    engine = FakeEngine((node,), containers, shelf)
    house = House(store, engine, clock, POLICY, b"secret", **house_settings)
    await engine.start(house.bells.converge.set)
    await house.move_in()
    try:
        yield Scene(house, containers, clock)
    finally:
        await house.deeds.close()
        await engine.close()
        await store.close()
