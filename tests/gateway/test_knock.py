"""Waiting for a door: one question for all who wait for it, and words at once."""
import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpufairy.core.errors import Conflict
from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Door, DoorKind
from gpufairy.gateway.knock import FIRST_WAIT_S, Knocks
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import Entry, Waiting

KIM = Login("kim", None)
OPEN = Entry(Door(DoorKind.PROCESS, "/", "/bin/sh"), "id", "main")


class AskedHouse:
    """Says what it is told to; each question is noted with the time that it may take."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.news: asyncio.Queue[Entry | Waiting | Conflict] = asyncio.Queue()
        self.held = 0

    async def enter(self, user: str, name: str | None, purpose: Purpose, wait_s: float) -> Entry | Waiting:
        self.waits_s.append(wait_s)
        self.held += 1
        try:
            answer = await self.news.get()
        finally:
            self.held -= 1
        if isinstance(answer, Conflict):
            raise answer
        return answer

    async def roster(self, after: int): ...
    async def close(self) -> None: ...


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - what is looked at rings no bell
            await asyncio.sleep(0)


def begin(work: Awaitable[Entry]) -> asyncio.Task[Entry]:
    return asyncio.ensure_future(work)


async def test_all_who_wait_for_one_session_are_one_question_at_the_server():
    house, said = AskedHouse(), []
    knocks = Knocks(house, away_s=1)
    many = [begin(knocks.enter(KIM, Purpose.SHELL, said.append)) for _ in range(3000)]
    other = begin(knocks.enter(Login("kim", "other"), Purpose.SHELL, said.append))
    await until(lambda: len(house.waits_s) == 2)
    assert house.held == 2
    other.cancel()
    await house.news.put(OPEN)
    await until(lambda: sum(one.done() for one in many) == 3000)
    assert {one.result() for one in many} == {OPEN}


async def test_a_door_that_is_open_costs_one_short_question_and_a_wait_is_told_at_once():
    house, said = AskedHouse(), []
    knocks = Knocks(house, away_s=1)
    first = begin(knocks.enter(KIM, Purpose.SHELL, said.append))
    await house.news.put(Waiting("place 2 of 5"))
    await until(lambda: said)
    assert house.waits_s[0] == FIRST_WAIT_S < 1
    late: list[str] = []
    second = begin(knocks.enter(KIM, Purpose.SHELL, late.append))
    await until(lambda: late)
    await house.news.put(OPEN)
    assert [await first, await second] == [OPEN, OPEN]
    assert (said, late, house.waits_s[1] > 5) == (["place 2 of 5"], ["place 2 of 5"], True)


async def test_who_gives_up_takes_nobody_along_and_the_last_one_ends_the_question():
    house = AskedHouse()
    knocks = Knocks(house, away_s=1)
    one, other = (begin(knocks.enter(KIM, Purpose.SHELL, lambda _: None)) for _ in range(2))
    await until(lambda: house.held)
    one.cancel()
    await until(one.done)
    assert house.held == 1
    other.cancel()
    await until(lambda: not house.held)
    again = begin(knocks.enter(KIM, Purpose.SHELL, lambda _: None))
    await house.news.put(OPEN)
    assert await again == OPEN


async def test_a_refusal_is_everybodys_and_the_next_one_asks_anew():
    house = AskedHouse()
    knocks = Knocks(house, away_s=1)
    both = [begin(knocks.enter(KIM, Purpose.SHELL, lambda _: None)) for _ in range(2)]
    await house.news.put(Conflict("session main is over"))
    for one in both:
        with pytest.raises(Conflict):
            await one
    again = begin(knocks.enter(KIM, Purpose.SHELL, lambda _: None))
    await house.news.put(OPEN)
    assert await again == OPEN
