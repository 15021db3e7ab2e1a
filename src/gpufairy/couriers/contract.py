"""What carries letters out of the house. Each way raises NotDelivered in words, and never tells a secret of its own."""
from typing import Protocol

from gpufairy.core.letter import Letter


class Courier(Protocol):
    @property
    def place(self) -> str: ...  # where it goes, for people: no path, no password
    @property
    def most_items(self) -> int: ...  # in one letter

    async def send(self, letter: Letter) -> None: ...  # within a bounded time, or NotDelivered
