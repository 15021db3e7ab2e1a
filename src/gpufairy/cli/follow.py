"""Staying with a session to its end: why it waits, then its output, over server restarts, without loss."""
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.words import share_notes
from gpufairy.client import Fairy, Problem, ServerNotReached
from gpufairy.client.protocol import Record

Answer = TypeVar("Answer")

FIRST_WAIT_S = 1.2  # the server has looked at the line by then, and knows place and reason
WAIT_S = 10.0  # of one long poll: so old may the place and the forecast get that are shown
STILL_RUNS_S = 1.0  # until the log is asked for again, when it ended and the session did not
GIVE_UP_S = 60.0  # without any answer: longer than a restart or an upgrade takes
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
NOT_NOW = (502, 503, 504)  # a server that starts, or a proxy in front of one


@dataclass(slots=True)
class Follower:
    """Follows one session. `sink` takes its output and says how much of it was written."""

    fairy: Fairy
    sink: Callable[[bytes], int]
    line: StatusLine
    from_submit: bool = False  # whoever asked for it has not been told yet what its share means
    # Of the log, which is that of all attempts in turn. Where its middle was cut out we were sent fewer bytes than that counts for:
    # coming back then repeats something, and never skips.
    seen_bytes: int = field(default=0, init=False)

    def to_end(self, session: Record) -> Record:
        wait_s = FIRST_WAIT_S
        while session["state"] != "ENDED":
            self.line.show(session)
            for note in share_notes(session) if self.from_submit else ():  # with its seat, so before its first output
                self.line.say_once(note)
            if session["state"] in ("PENDING", "STARTING"):
                session, wait_s = self._change_of(session, wait_s), min(WAIT_S, wait_s * 2)
            else:
                self._print_log(session, follow=True)
                session = self._change_of(session, STILL_RUNS_S)
        self._print_log(session, follow=False)  # what came after the last look, or while the server was away
        self.line.show(session)
        return session

    def to_running(self, session: Record, *, through: tuple[str, ...] = ("PENDING", "STARTING")) -> Record:
        wait_s = FIRST_WAIT_S
        while session["state"] in through:
            self.line.show(session)
            session, wait_s = self._change_of(session, wait_s), min(WAIT_S, wait_s * 2)
        self.line.clear()
        return session

    def _change_of(self, session: Record, seconds: float) -> Record:
        return self._patiently(lambda: self.fairy.wait(session["id"], session["revision"], seconds), session)

    def _patiently(self, ask: Callable[[], Answer], session: Record) -> Answer:
        silence = {"id": session["id"], "name": session["name"], "state": "UNSEEN", "why": "the server does not answer, trying again"}
        come_back = f"{session['name']} goes on meanwhile: come back with `fairy logs -f {session['name']}`."
        return patiently(ask, lambda: self.line.show(silence), come_back)

    def _print_log(self, session: Record, *, follow: bool) -> None:
        if follow:
            try:
                self._pass_on(session, follow=True)
            except ServerNotReached:
                return  # the caller asks for the session next, and that says so if the server stays away
        else:
            self._patiently(lambda: self._pass_on(session, follow=False), session)

    def _pass_on(self, session: Record, *, follow: bool) -> None:
        try:
            # Of this attempt alone: between two of them somebody wants to be told why, and for how long.
            for chunk in self.fairy.logs(session["id"], follow=follow, from_bytes=self.seen_bytes, this_attempt=True):
                self._write(chunk)
        except Problem as problem:
            # Not there: it never started, or its log is gone; neither is a reason to leave it.
            if problem.status not in (404, 409, *NOT_NOW):
                raise
            if not follow and problem.status in NOT_NOW:
                raise

    def _write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        with self.line.lock:
            self.line.clear()
            while rest:
                # Counted as it goes, so that a Ctrl-C answered with "go on" neither repeats nor loses a piece.
                written = self.sink(bytes(rest))
                self.seen_bytes += written
                rest = rest[written:]


def patiently(ask: Callable[[], Answer], on_silence: Callable[[], None], come_back: str) -> Answer:
    """Asks until there is an answer, over a restart of the server; gives up after a minute of silence."""
    until, pause_s = time.monotonic() + GIVE_UP_S, FIRST_PAUSE_S
    while True:
        try:
            return ask()
        except (ServerNotReached, Problem) as error:
            if isinstance(error, Problem) and error.status not in NOT_NOW:
                raise
            if time.monotonic() > until:
                raise ServerNotReached(f"{error.detail}; gave up after {GIVE_UP_S:g} s", come_back) from error
            on_silence()
        time.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
