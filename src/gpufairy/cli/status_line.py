"""The one line on stderr that says why a job waits. On a terminal it is rewritten; elsewhere a new line when it changes."""
import shutil
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TextIO

from gpufairy.cli.words import waiting_words
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

TO_LINE_START_AND_CLEAR = "\r\x1b[2K"


class StatusLine:
    """One session in full, several as counts of their states. Threads share it, so it locks."""

    def __init__(self, stream: TextIO | None = None, *, several: bool = False) -> None:
        self.lock = threading.RLock()
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._several = several
        self._states: dict[str, str] = {}
        self._said = ""  # last written
        self._said_once: set[str] = set()
        self._drawn = False  # on the terminal's current line now

    def show(self, session: Record) -> None:
        with self.lock:
            self._states[session["id"]] = safe(session["state"])
            waits = session["state"] not in ("RUNNING", "ENDED")
            if self._several:
                self._say(", ".join(f"{count} {state}" for state, count in Counter(self._states.values()).items()))
            elif waits:
                self._say(waiting_words(session, datetime.now(UTC)))
            else:
                self.clear()

    def show_text(self, text: str) -> None:
        with self.lock:
            self._say(safe(text))

    def clear(self) -> None:
        """Makes room for the job's own output."""
        with self.lock:
            if self._drawn:
                self._stream.write(TO_LINE_START_AND_CLEAR)
                self._stream.flush()
            self._drawn, self._said = False, "" if self._terminal else self._said

    def say(self, text: str) -> None:
        """A line that stays."""
        with self.lock:
            self.clear()
            self._stream.write(safe(text) + "\n")
            self._stream.flush()

    def say_once(self, text: str) -> None:
        """As `say`, however many sessions it is true of."""
        with self.lock:
            if text not in self._said_once:
                self._said_once.add(text)
                self.say(text)

    def _say(self, text: str) -> None:
        if text == self._said:
            return
        self._said = text
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(TO_LINE_START_AND_CLEAR + (text if len(text) <= width else text[: width - 1] + "…"))
            self._drawn = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()
