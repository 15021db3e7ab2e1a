"""Asked: somebody who is asked aside now and then, what they said last, and why nothing newer is known."""
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpufairy.core.errors import FairyError
from gpufairy.node.aside import Aside

Answer = TypeVar("Answer")
NEVER_S = float("-inf")
QUESTION = ""  # there is but one


@dataclass(frozen=True, slots=True)
class _Told(Generic[Answer]):
    answer: Answer | None
    trouble: str = ""


class Asked(Generic[Answer]):
    """Times are those of `monotonic`. What was said stays until something newer is; how old it may be is for the caller to say."""

    def __init__(self, ask: Callable[[], Answer], name: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._monotonic = ask, monotonic
        self._aside: Aside[str, _Told[Answer]] = Aside(lambda key: self._told(), name)
        self.answer: Answer | None = None  # None: none yet, or taken back
        self.trouble = ""
        self.asked_s = NEVER_S
        self.as_of_s = NEVER_S  # when the question was asked that `answer` is to: what began later is not in it

    def ask(self, wait_s: float) -> None:
        """A question that is open is not asked twice."""
        self.listen()
        if not self._aside.is_open(QUESTION):
            self.asked_s = self._monotonic()
            self._take(self._aside.answers([QUESTION], wait_s))

    def listen(self) -> None:
        """Takes what came since. Never waits."""
        self._take(self._aside.late())

    def forget_older(self, than_s: float) -> None:
        self.listen()
        if self._monotonic() - self.as_of_s >= than_s:
            self.answer = None

    def _take(self, came: dict[str, _Told[Answer]]) -> None:
        for told in came.values():
            self.trouble = told.trouble
            if told.answer is not None:
                self.answer, self.as_of_s = told.answer, self.asked_s

    def _told(self) -> _Told[Answer]:
        try:
            return _Told(self._ask())
        except FairyError as error:
            return _Told(None, f"{error} {error.next_step}".strip())
