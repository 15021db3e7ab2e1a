"""Asks the server, each on a thread of its own: for the nodes every few seconds, for a GPU's history when its line comes into sight."""
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.core.errors import FairyError
from gpufairy.tui.rates import RateBook
from gpufairy.tui.scene import Scene, scene_of

ANSWER_LIMIT_S = 10.0  # a server that needs longer is as good as away; the screen says so and asks again
SHORTEST_REST_S = 0.1  # between two answers, however slow the server: the screen wants its turn too
HISTORY = "10m"


@dataclass(frozen=True, slots=True)
class Silence:
    """The server gave no answer that could be shown."""

    words: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Past:
    """What the server remembers of a GPU; None: nothing, for now."""

    uuid: str
    answer: Record | None


class Feed:
    """`tell` is called from its thread, to which `fairy` belongs from now on.

    A thread that hangs in a call is left behind: it is a daemon, and quitting never waits for it.
    """

    def __init__(self, fairy: Fairy, every_s: float, tell: Callable[[Scene | Silence], None]) -> None:
        self._fairy, self._every_s, self._tell = fairy, every_s, tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        book = RateBook()
        with self._fairy:
            while not self._ended.is_set():
                began_s = time.monotonic()
                self._tell(ask(self._fairy, book))
                self._ended.wait(max(SHORTEST_REST_S, self._every_s - (time.monotonic() - began_s)))


def ask(fairy: Fairy, book: RateBook) -> Scene | Silence:
    try:
        nodes = fairy.nodes()
    except FairyError as error:
        return Silence(str(error.detail), time.time())
    return scene_of(nodes, book.see(nodes), time.time())


class Remembrance:
    """Fetches the history of GPUs one after the other, each once. `fairy` belongs to its thread from now on."""

    def __init__(self, fairy: Fairy, tell: Callable[[Past], None]) -> None:
        self._fairy, self._tell = fairy, tell
        self._wanted: SimpleQueue[str | None] = SimpleQueue()
        self._asked: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._wanted.put(None)

    def want(self, uuid: str) -> None:
        if uuid not in self._asked:
            self._asked.add(uuid)
            self._wanted.put(uuid)

    def again(self) -> None:
        """After the server was away: what is missing may be known to it."""
        self._asked.clear()

    def _run(self) -> None:
        with self._fairy:
            while (uuid := self._wanted.get()) is not None:
                self._tell(Past(uuid, self._past_of(uuid)))

    def _past_of(self, uuid: str) -> Record | None:
        try:
            return dict(self._fairy.readings("gpu", uuid, since=HISTORY))
        except FairyError:  # a server without history, or one that is away: the line fills as time goes by
            return None
