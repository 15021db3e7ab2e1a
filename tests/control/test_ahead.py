"""The picture of the line: kept by its loop while people look, made by whoever looks where nothing keeps it, never older than is said."""
from datetime import timedelta

import pytest

from builders import NOW
from gpufairy.control import ahead
from gpufairy.control.ahead import AGE_S, LATE, QUIET_AGE_S, Ahead
from gpufairy.control.clock import HeldClock
from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.explain import Outlook, outlook
from gpufairy.core.plan import Plan


class House:
    """As far as looking ahead goes."""

    def __init__(self) -> None:
        self.clock, self.changes, self.made = HeldClock(NOW), 0, 0
        self.ahead = Ahead(self.clock, self.look, lambda: self.changes)

    def look(self, now) -> Outlook:
        self.made += 1
        return outlook(Cluster((), (), {}, {}, Policy()), Plan((), {}, (), now), now, 10)

    def age_s(self) -> float:
        return (self.clock() - self.ahead.outlook().made_at).total_seconds()

    def later(self, seconds: float) -> None:
        self.clock.go_on(timedelta(seconds=seconds))


@pytest.fixture
def house(monkeypatch):
    monkeypatch.setattr(ahead, "RESTS", 0)  # however slow the machine
    return House()


async def test_many_who_look_are_told_from_one_picture(house):
    assert len({id(house.ahead.outlook()) for _ in range(100)}) == house.made == 1


async def test_where_the_loop_turns_nobody_waits_for_a_new_picture_and_none_is_older_than_a_second_after_a_change(house):
    house.ahead.outlook()
    for _ in range(20):
        house.later(AGE_S + 0.01)
        house.changes += 1
        await house.ahead.keep()
        made = house.made
        assert (house.age_s(), house.made) == (0, made)


async def test_where_nothing_changes_it_is_made_anew_only_now_and_then(house):
    house.ahead.outlook()
    for _ in range(8):
        house.later(QUIET_AGE_S / 4)
        await house.ahead.keep()
        assert house.age_s() <= QUIET_AGE_S
    assert house.made == 2


async def test_whoever_looks_makes_it_where_no_loop_does(house):
    house.ahead.outlook()
    house.changes += 1
    house.later(LATE * AGE_S + 0.1)
    assert house.age_s() == 0


async def test_nothing_is_made_while_nobody_looks(house, monkeypatch):
    await house.ahead.keep()
    assert house.made == 0
    house.ahead.outlook()
    monkeypatch.setattr(ahead, "LOOKED_LATELY_S", -1)
    house.later(60)
    await house.ahead.keep()
    assert house.made == 1


async def test_a_picture_that_takes_long_is_made_seldom(house, monkeypatch):
    monkeypatch.setattr(ahead, "RESTS", 1e9)
    house.ahead.outlook()
    house.changes += 1
    house.later(LATE * QUIET_AGE_S + 1)
    await house.ahead.keep()
    house.ahead.outlook()
    assert house.made == 1


async def test_who_has_just_come_into_the_line_is_told_from_a_picture_that_has_them(house, monkeypatch):
    monkeypatch.setattr(ahead, "SOONEST", 0)
    house.ahead.outlook()
    house.later(0.1)
    came = house.clock()
    house.later(0.01)
    assert house.ahead.outlook().made_at < came
    assert house.ahead.outlook(came).made_at > came
    assert house.ahead.outlook(came) is house.ahead.outlook()
