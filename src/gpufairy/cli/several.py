"""Following many sessions at once: each line of output carries the session's name."""
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpufairy.cli.follow import Follower
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.words import write_raw
from gpufairy.client import Fairy
from gpufairy.client.protocol import Lines, Record
from gpufairy.client.values import safe
from gpufairy.core.errors import FairyError

AT_ONCE = 64  # connections to the server; the others' output is kept there and shown in its turn


@dataclass(slots=True)
class PrefixedSink:
    """Holds back the last, unfinished line, so that lines of two sessions never mix."""

    prefix: bytes
    write: Callable[[bytes], int] = write_raw
    lines: Lines = field(default_factory=Lines)

    def __call__(self, chunk: bytes) -> int:
        self._out(self.lines.feed(chunk))
        return len(chunk)

    def end(self) -> None:
        if self.lines.rest:
            self._out([self.lines.rest])
            self.lines.rest = b""

    def _out(self, lines: Sequence[bytes]) -> None:
        text = b"".join(self.prefix + line + b"\n" for line in lines)
        while text:
            text = text[self.write(text) :]


class Crowd:
    """Many sessions, each followed by a thread. `wait` may be left by Ctrl-C and taken up again."""

    def __init__(self, fairy: Fairy, sessions: Sequence[Record], line: StatusLine, ended: Callable[[Fairy, Record], None]) -> None:
        self._fairy, self._line, self._ended = fairy, line, ended
        self._waiting = deque(sessions)
        self._left = len(sessions)
        self._over: queue.SimpleQueue[FairyError | OSError | None] = queue.SimpleQueue()
        # Daemons: after Ctrl-C nobody waits for them.
        for _ in range(min(AT_ONCE, len(sessions))):
            threading.Thread(target=self._work, daemon=True).start()

    def wait(self) -> None:
        """Until the last has ended. What went wrong in a thread is raised here, since here alone the command can end."""
        while self._left:
            error = self._over.get()
            if error is not None:
                raise error
            self._left -= 1

    def _work(self) -> None:
        with self._fairy.again() as fairy:
            while True:
                try:
                    session = self._waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                try:
                    self._ended(fairy, _follow(fairy, session, self._line))
                except (FairyError, OSError) as error:
                    self._over.put(error)
                    return
                self._over.put(None)


def _follow(fairy: Fairy, session: Record, line: StatusLine) -> Record:
    sink = PrefixedSink(f"{safe(session['name'])} | ".encode())
    over = Follower(fairy, sink, line, from_submit=True).to_end(session)
    with line.lock:
        line.clear()
        sink.end()
    return over
