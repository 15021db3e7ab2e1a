"""A terminal of this machine with ssh in it, as a person would use one."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence

LIMIT_S = 20


class LocalTerminal:
    def __init__(self, command: Sequence[str], columns: int = 80, rows: int = 24, term: str = "xterm-256color") -> None:
        self._ours, theirs = pty.openpty()
        self._set_size(columns, rows)
        env = {"PATH": os.environ["PATH"], "TERM": term, "HOME": "/nonexistent"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # one thread, and Ctrl-C needs it
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, text: str) -> str:
        """Everything shown up to and including it; the rest is kept."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.shown:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"waited for {text!r}, saw {self.shown!r}"
            if not select.select([self._ours], [], [], left_s)[0]:
                continue
            try:
                more = os.read(self._ours, 65536)
            except OSError:
                more = b""
            assert more, f"waited for {text!r}, saw {self.shown!r} and then the end"
            self.shown += more.decode(errors="replace")
        seen, _, self.shown = self.shown.partition(text)
        return seen + text

    def ended(self) -> int:
        """Its exit code; what it shows last is kept."""
        deadline = time.monotonic() + LIMIT_S
        while select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                more = os.read(self._ours, 65536)
            except OSError:
                break
            if not more:
                break
            self.shown += more.decode(errors="replace")
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        os.close(self._ours)

    def __enter__(self) -> "LocalTerminal":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
