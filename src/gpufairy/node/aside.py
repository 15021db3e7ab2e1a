"""Questions whose answer may never come (a dead file server, a stuck driver, a silent daemon), asked on threads of their own.

A question that is open is never asked again, so one dead thing holds one thread. Threads are daemons: they stop nobody's end.
"""
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

MOST_OPEN = 128  # threads at one time; once so many are stuck, no further ones are asked
MOST_KEPT = 1024  # answers that came late, and that nobody has fetched


class Aside(Generic[Key, Answer]):
    """`ask` must turn its own errors into an answer; one that raises all the same leaves none."""

    def __init__(self, ask: Callable[[Key], Answer], name: str) -> None:
        self._ask, self._name = ask, name
        self._changed = threading.Condition()
        self._open: set[Key] = set()
        self._answers: dict[Key, Answer] = {}

    def answers(self, keys: Iterable[Key], wait_s: float) -> dict[Key, Answer]:
        """Asks, and gives those that came in time, or late since the last call. Waits only for what it asks now: a stuck one costs once."""
        wanted = list(dict.fromkeys(keys))
        with self._changed:
            begun = [key for key in wanted if self._begin(key)]
            self._changed.wait_for(lambda: not any(key in self._open for key in begun), wait_s)
            return {key: self._answers.pop(key) for key in wanted if key in self._answers}

    def late(self) -> dict[Key, Answer]:
        """All that came since the last call. Asks nothing."""
        with self._changed:
            came, self._answers = self._answers, {}
            return came

    def is_open(self, key: Key) -> bool:
        """Asked, and not answered yet."""
        with self._changed:
            return key in self._open

    def _begin(self, key: Key) -> bool:
        if key in self._open or key in self._answers or len(self._open) >= MOST_OPEN:
            return False
        self._open.add(key)
        threading.Thread(target=self._answer, args=(key,), name=f"{self._name} {key}", daemon=True).start()
        return True

    def _answer(self, key: Key) -> None:
        try:
            answer = self._ask(key)
            with self._changed:
                if len(self._answers) < MOST_KEPT:
                    self._answers[key] = answer
        finally:
            with self._changed:
                self._open.discard(key)
                self._changed.notify_all()
