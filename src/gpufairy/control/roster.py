"""Roster: who may come in by SSH, and which sessions are about to end. The gateway keeps it, so that a login asks nobody."""
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.control.bell import GATEWAY, PEOPLE, rung
from gpufairy.control.house import House
from gpufairy.core.ending import Ending, Notice
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Key

GATEWAY_PATIENCE_S = 1.0  # it takes a few milliseconds; one that is away must not hold up whoever adds a key
ENDS_SOON = timedelta(minutes=15)  # people are warned from ten minutes on


@dataclass(frozen=True, slots=True)
class Roster:
    revision: int
    keys: dict[str, list[Key]]  # by user; those who are shut out are not in it
    endings: list[Ending]
    notices: list[Notice]


async def roster_after(house: House, revision: int, wait_s: float) -> Roster:
    """At once if people have changed since that revision, else when they do or the time is up."""
    house.bells.gateway_knows(revision)
    with house.bells.listen(PEOPLE) as bell:
        if revision == house.bells.people_revision and not house.bells.leaving.is_set():
            await rung(bell, wait_s)
    return roster(house)


async def in_force(house: House) -> None:
    """Returns when the SSH gateway knows the people of now, so that a key just added opens and one just removed does not."""
    wanted = house.bells.people_revision
    if house.bells.told_revision == 0:  # there is no gateway
        return
    with house.bells.listen(GATEWAY) as bell:
        while house.bells.told_revision < wanted:
            bell.clear()
            if not await rung(bell, GATEWAY_PATIENCE_S):
                return


def roster(house: House) -> Roster:
    allowed = [user.name for user in house.registry.users() if not user.disabled]
    return Roster(house.bells.people_revision, {name: house.keyring.of(name) for name in allowed}, endings(house), notices(house))


def endings(house: House) -> list[Ending]:
    soon = house.clock() + ENDS_SOON
    return [
        Ending(session.id, session.owner, session.name, session.expected_end)
        for session in house.book.active.values()
        if session.phase is Phase.RUNNING and session.expected_end is not None and session.expected_end < soon
    ]


def notices(house: House) -> list[Notice]:
    house.notices.keep(house.book.active)
    return [Notice(session_id, words) for session_id, words in house.notices.all()]
