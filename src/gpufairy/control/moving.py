"""What a server hands to another, or takes from one, beside users and homes: the past of sessions, and readings."""
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.moved_block import block_from_plain, block_to_plain
from gpufairy.core.past import past_from_plain, past_to_plain

AT_ONCE = 200  # read of the store
PAGE_BYTES = 600 * 2**10  # as JSON: what is sent on fits into the body of one request

Thing = TypeVar("Thing")


async def past_page(house: House, after: int) -> tuple[list[dict[str, Any]], int | None]:
    """And behind which one to go on; None: there are no more."""
    return page(await house.store.sessions.past(after, AT_ONCE), past_to_plain, lambda past: past.session.number)


async def take_past(house: House, actor: str, items: Sequence[dict[str, Any]]) -> int:
    new = await house.take_past([past_from_plain(item) for item in items])
    if new:
        await note(house, actor, f"user:{actor}", "past_moved_in", f"{new} sessions that are over came from another server")
    return new


async def readings_page(house: House, after: int) -> tuple[list[dict[str, Any]], int | None]:
    return page(await house.store.history.blocks(after, AT_ONCE), block_to_plain, lambda block: block.number)


async def take_readings(house: House, items: Sequence[dict[str, Any]]) -> int:
    return await house.store.history.add_blocks([block_from_plain(item) for item in items])


def page(
    found: Sequence[Thing], to_plain: Callable[[Thing], dict[str, Any]], number: Callable[[Thing], int]
) -> tuple[list[dict[str, Any]], int | None]:
    items: list[dict[str, Any]] = []
    size = 0
    for thing in found:
        plain = to_plain(thing)
        size += size_of(plain)
        if items and size > PAGE_BYTES:
            return items, number(found[len(items) - 1])
        items.append(plain)
    return items, number(found[-1]) if len(found) == AT_ONCE else None


def size_of(plain: dict[str, Any]) -> int:
    """As text, nearly: counted without making it."""
    waiting: list[Any] = [plain]
    size = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += parts(value.items())
        elif isinstance(value, list | tuple):
            waiting += value
        else:
            size += len(str(value)) + 6
    return size


def parts(items: Iterable[tuple[Any, Any]]) -> list[Any]:
    return [part for item in items for part in item]
