"""Waiting in an event loop for what rings no bell."""
import asyncio
import inspect
from collections.abc import Callable
from typing import Any

SOON_S = 30.0


async def soon(look: Callable[[], Any], what: str) -> Any:
    """Looks again and again until there is something to see, and returns that. `look` may be a coroutine."""
    try:
        async with asyncio.timeout(SOON_S):
            while not (seen := await told if inspect.isawaitable(told := look()) else told):  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {SOON_S} s for {what}") from None
    return seen
