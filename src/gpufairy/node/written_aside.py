"""Files written on a thread of their own, one write at a time; of those that come meanwhile only the newest is done.

So a disk that does not answer holds nobody up, and one thread."""
import threading
from collections.abc import Callable

Write = Callable[[], None]


class WrittenAside:
    """`write` must turn its own errors into words; one that raises all the same is dropped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: Write | None = None
        self._writing = False

    def put(self, write: Write) -> None:
        """Never waits."""
        with self._changed:
            self._waiting = write
            if self._writing:
                return
            self._writing = True
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:  # the system gives no more threads now: it stays the newest until the next comes
            self._over()

    def settle(self, wait_s: float) -> bool:
        """Whether all that was put is written, or was dropped, within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._writing, wait_s)

    def _work(self) -> None:
        while (write := self._next()) is not None:
            written = False
            try:
                write()
                written = True
            finally:
                if not written:
                    self._over()

    def _next(self) -> Write | None:
        with self._changed:
            write, self._waiting = self._waiting, None
            if write is None:
                self._over()
            return write

    def _over(self) -> None:
        with self._changed:  # the lock is one that its holder may take again
            self._writing = False
            self._changed.notify_all()
