"""Memory is given back when a crowd has left, and not for a few."""
import asyncio

import pytest

from gpufairy.engines import tidy


@pytest.fixture
def given_back(monkeypatch):
    times = []
    monkeypatch.setattr(tidy, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(tidy, "REST_S", 0.001)
    monkeypatch.setattr(tidy, "give_back", lambda: times.append(1))
    return times


async def after(counts: list[int]) -> None:
    """Looks at each of them once, and twice more at the last."""
    done, left = asyncio.Event(), [*counts, counts[-1], counts[-1]]

    def crowd() -> int:
        if len(left) == 1:
            done.set()
        return left.pop(0) if len(left) > 1 else left[0]

    looking = asyncio.create_task(tidy.keep_tidy(crowd))
    await asyncio.wait_for(done.wait(), 5)
    looking.cancel()


@pytest.mark.parametrize(("counts", "times"), [([0, 1000, 900, 0, 0], 1), ([0, 50, 0], 0), ([1000, 950, 960, 940], 0), ([500, 0, 500, 0], 2)])
async def test_it_is_given_back_once_for_each_crowd_that_has_left(given_back, counts, times):
    await after(counts)
    assert len(given_back) == times


def test_giving_back_does_no_harm():
    tidy.give_back()
