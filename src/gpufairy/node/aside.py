"""Questions whose answer may never come (a dead file server, a stuck driver, a silent daemon), asked on threads of their own.

A question that is open is never asked again, so one dead thing holds one thread. Threads are daemons: they stop nobody's end.
"""
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

AT_ONCE = 8  # threads that ask; all other questions wait for one of them
STUCK_S = 2.0  # one that has had no answer for so long no longer counts among them: a dead file server must not hide the live disks
MOST_STUCK = 64  # once so many are stuck, nobody takes their place
MOST_OPEN = 1024  # questions, those that wait included
MOST_KEPT = 1024  # answers that came late, and that nobody has fetched


class Aside(Generic[Key, Answer]):
    """`ask` must turn its own errors into an answer; one that raises all the same leaves none."""

    def __init__(self, ask: Callable[[Key], Answer], name: str) -> None:
        self._ask, self._name = ask, name
        self._changed = threading.Condition()
        self._waiting: deque[Key] = deque()
        self._asked_s: dict[Key, float] = {}  # those that a thread asks now, by when it began
        self._open: set[Key] = set()  # both
        self._idle = 0  # threads that take what waits next
        self._answers: dict[Key, Answer] = {}

    def answers(self, keys: Iterable[Key], wait_s: float) -> dict[Key, Answer]:
        """Asks, and gives those that came in time, or late since the last call. Waits only for what it asks now: a stuck one costs once."""
        wanted = list(dict.fromkeys(keys))
        with self._changed:
            begun = [key for key in wanted if key not in self._open and key not in self._answers][: max(0, MOST_OPEN - len(self._open))]
            self._open.update(begun)
            self._waiting.extend(begun)
        self._start_threads()
        with self._changed:
            self._changed.wait_for(lambda: not any(key in self._open for key in begun), wait_s)
            return {key: self._answers.pop(key) for key in wanted if key in self._answers}

    def late(self) -> dict[Key, Answer]:
        """All that came since the last call. Asks nothing that was not asked for before."""
        self._start_threads()
        with self._changed:
            came, self._answers = self._answers, {}
            return came

    def is_open(self, key: Key) -> bool:
        """Asked, and not answered yet."""
        with self._changed:
            return key in self._open

    def _start_threads(self) -> None:
        """As many as there is room and work for. Without the lock: a system short of threads takes its time."""
        while self._needs_one_more():
            try:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            except RuntimeError:  # the system gives no more threads now: what waits is asked at a later call
                with self._changed:
                    self._idle -= 1
                return

    def _needs_one_more(self) -> bool:
        with self._changed:
            now_s = time.monotonic()
            stuck = sum(now_s - began_s > STUCK_S for began_s in self._asked_s.values())
            room = AT_ONCE + min(stuck, MOST_STUCK) - len(self._asked_s) - self._idle
            if room <= 0 or len(self._waiting) <= self._idle:
                return False
            self._idle += 1
            return True

    def _work(self) -> None:
        while taken := self._next():
            self._answer(taken[0])

    def _next(self) -> tuple[Key] | None:
        with self._changed:
            self._idle -= 1
            if not self._waiting:
                return None
            key = self._waiting.popleft()
            self._asked_s[key] = time.monotonic()
            return (key,)

    def _answer(self, key: Key) -> None:
        came: list[Answer] = []
        try:
            came.append(self._ask(key))
        finally:
            with self._changed:
                del self._asked_s[key]
                self._open.discard(key)
                if came:
                    self._idle += 1
                if came and len(self._answers) < MOST_KEPT:
                    self._answers[key] = came[0]
                self._changed.notify_all()
