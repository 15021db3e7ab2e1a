"""Memory that a crowd took and left: found, and given back to the system when it has gone. Neither happens by itself for long."""
import asyncio
import ctypes
import gc
from collections.abc import Callable

LOOK_EVERY_S = 2.0
REST_S = 10.0  # after one: nobody is to make us do little else
LARGE_CROWD = 100  # below, it is not worth the moment that it takes


async def keep_tidy(crowd: Callable[[], int], large: int = LARGE_CROWD) -> None:
    """`crowd`: how many there are now."""
    most = 0
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now = crowd()
        most = max(most, now)
        if most - now >= large and now <= most // 2:
            give_back()
            most = now
            await asyncio.sleep(REST_S)


def give_back() -> None:
    """Connections are rings of objects, which only the collector finds; and freed memory stays with the process until it is asked."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    if trim is not None:
        trim(0)
