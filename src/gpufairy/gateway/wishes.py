"""What a client asks to run, turned into a command for a door. Pure: nothing is started here."""
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Command, Door, DoorKind

# What may come from the client. Never PATH, LD_*, or what a shell or Python reads at its start.
PASSED_ON = frozenset({"LANG", "LANGUAGE", "COLORTERM", "EDITOR", "TZ"})
PASSED_ON_BEGINNING = "LC_"
LONGEST_VALUE = 256
MOST_VARIABLES = 32
SIGNALS = ("INT", "TERM", "HUP", "QUIT", "KILL", "USR1", "USR2", "ALRM")  # of RFC 4254; others are about faults of the program itself
SIGN_IN = "signin"  # the one word that is no command of the session: `ssh USER@host signin`
PORTERS_SFTP = "/opt/fairy/bin/sftp-server"

_NAME = re.compile(r"[A-Z_]{1,32}")
_VALUE = re.compile(r"[ -~]*")
_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
# A copy alone: a line with more in it than one plain command is somebody's own script, and that needs a session.
_COPY = re.compile(r"(?:scp(?: -[A-Za-z0-9]+)* -[tf]|rsync --server)(?: (?:[^;&|`$<>()\n\\]|\\.)*)?")


@dataclass(frozen=True, slots=True)
class Terminal:
    kind: str
    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Wish:
    """A shell, a command line, or the SFTP subsystem."""

    line: str | None = None
    sftp: bool = False

    @property
    def sign_in(self) -> bool:
        """A link to the page rather than anything in a session: whoever may ask has just proven who they are."""
        return self.line is not None and self.line.strip() == SIGN_IN

    @property
    def interactive(self) -> bool:
        return self.line is None and not self.sftp

    @property
    def purpose(self) -> Purpose:
        copies = self.sftp or (self.line is not None and _COPY.fullmatch(self.line) is not None)
        return Purpose.FILES if copies else Purpose.SHELL


def may_pass(name: bytes, value: bytes) -> bool:
    """Whether a variable of the client's reaches the session."""
    try:
        text, content = name.decode("ascii"), value.decode("ascii")
    except UnicodeDecodeError:
        return False
    known = text in PASSED_ON or text.startswith(PASSED_ON_BEGINNING)
    return known and _NAME.fullmatch(text) is not None and len(content) <= LONGEST_VALUE and _VALUE.fullmatch(content) is not None


def terminal(kind: str, columns: int, rows: int) -> Terminal:
    """A client without a window says 0 by 0; a kind that is no name of one is not passed on."""
    return Terminal(kind if _TERM.fullmatch(kind) else "xterm", columns or 80, rows or 24)


def command_for(wish: Wish, door: Door, term: Terminal | None, env: Iterable[tuple[str, str]], sftp_server: str | None) -> Command:
    """`sftp_server`: the one of this machine, for a door that is no container's."""
    argv = _argv(wish, door, sftp_server)
    if term is None:
        return Command(argv, env=tuple(env))
    return Command(argv, terminal=True, columns=term.columns, rows=term.rows, env=(*env, ("TERM", term.kind)))


def _argv(wish: Wish, door: Door, sftp_server: str | None) -> tuple[str, ...]:
    if wish.sftp:
        return (PORTERS_SFTP if door.kind is not DoorKind.PROCESS else sftp_server or "sftp-server",)
    if wish.line is None:
        return (door.shell, "-l")
    return (door.shell, "-c", wish.line)


def signal_number(name: str) -> int | None:
    return int(signal.Signals[f"SIG{name}"]) if name in SIGNALS else None
