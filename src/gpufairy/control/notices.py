"""Notices: what those in a session's terminals should be told now. Each loop has its own: what one takes back, another may still mean."""
from collections.abc import Container
from enum import StrEnum


class About(StrEnum):
    IDLE = "idle"
    PREEMPTION = "preemption"
    BOOKING = "booking"


class Notices:
    def __init__(self) -> None:
        self._words: dict[str, dict[About, str]] = {}  # by session

    def tell(self, session_id: str, about: About, words: str) -> None:
        self._words.setdefault(session_id, {})[about] = words

    def take_back(self, session_id: str, about: About) -> None:
        told = self._words.get(session_id, {})
        told.pop(about, None)
        if not told:
            self._words.pop(session_id, None)

    def of(self, session_id: str) -> list[str]:
        return list(self._words.get(session_id, {}).values())

    def keep(self, live: Container[str]) -> None:
        """Of all others nothing is to be told any more."""
        self._words = {session_id: told for session_id, told in self._words.items() if session_id in live}

    def all(self) -> list[tuple[str, str]]:
        """Each with its session's id."""
        return [(session_id, words) for session_id, told in self._words.items() for words in told.values()]
