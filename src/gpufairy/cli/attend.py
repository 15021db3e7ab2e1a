"""Being there for jobs until they end: their output, their results, their exit code, and what Ctrl-C means."""
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gpufairy.cli.exits import FAILED, INTERRUPTED, say_error
from gpufairy.cli.follow import Follower
from gpufairy.cli.insight import last_words
from gpufairy.cli.results import fetch
from gpufairy.cli.several import Crowd
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.words import write_raw
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.core.errors import FairyError

NAMED_AT_MOST = 5  # sessions in a question; more are counted


def attend(fairy: Fairy, sessions: Sequence[Record]) -> int:
    """Returns the exit code: the job's own; of several the first that is not 0."""
    line = StatusLine(several=len(sessions) > 1)
    line.say(", ".join(session["name"] for session in sessions))
    over: dict[str, Record] = {}

    def ended(own: Fairy, session: Record) -> None:
        over[session["id"]] = session
        _see_off(own, session, line)

    follow = _following(fairy, sessions, line, ended)
    while True:
        try:
            follow()
            return next((code for session in sessions if (code := job_code(over[session["id"]]))), 0)
        except KeyboardInterrupt:
            if _leaves(fairy, [session for session in sessions if session["id"] not in over], line):
                return INTERRUPTED


def _following(fairy: Fairy, sessions: Sequence[Record], line: StatusLine, ended: Callable[[Fairy, Record], None]) -> Callable[[], None]:
    """Follows to the end; called again after a Ctrl-C, it goes on where it was."""
    if len(sessions) > 1:
        return Crowd(fairy, sessions, line, ended).wait
    follower = Follower(fairy, write_raw, line, from_submit=True)
    return lambda: ended(fairy, follower.to_end(sessions[0]))


def job_code(session: Record) -> int:
    """The job's own code if it ran to its end; anything else that befell it is a failure."""
    if session.get("outcome") not in ("done", "failed"):
        return FAILED
    code = session.get("exit_code")
    if code is None:
        return 0 if session["outcome"] == "done" else FAILED
    return int(code)


def _see_off(fairy: Fairy, session: Record, line: StatusLine) -> None:
    if session.get("outcome") != "done":
        line.say(f"fairy: {session['name']} {session.get('outcome')}: {session.get('why') or 'no reason is known'}")
    try:
        folder = fetch(fairy, session, Path("results"), line.say)
    except FairyError as error:
        # The job is over and its code is what counts; the results stay on the server.
        line.clear()
        say_error(error)
        return
    if folder is not None:
        line.say(f"results in {folder}")
    for words in last_words(fairy, session):
        line.say(f"fairy: {session['name']} {words}")


def _leaves(fairy: Fairy, sessions: Sequence[Record], line: StatusLine) -> bool:
    """What a Ctrl-C means. True: leave, with the sessions stopped or left running. False: go on."""
    line.clear()
    if not sessions:
        line.say("all of them have ended; `fairy results NAME` fetches what was not fetched yet")
        return True
    names = ", ".join(session["name"] for session in sessions) if len(sessions) <= NAMED_AT_MOST else f"{len(sessions)} sessions"
    wish = _ask(f"Stop {names}? [Y/n, d = leave it running] ") if sys.stdin.isatty() and sys.stderr.isatty() else "y"
    if wish == "n":
        return False
    if wish == "d":
        line.say(f"{names} left running: `fairy ps` shows it, `fairy logs -f NAME` its output")
        return True
    line.say(f"stopping {names}")
    try:
        with fairy.again() as fresh:  # the old one may be in the middle of an answer
            fresh.stop_all([session["id"] for session in sessions])
    except KeyboardInterrupt:
        line.say("not all of them were asked to stop; see `fairy ps`")
    return True


def _ask(question: str) -> str:
    """Asked again until the answer is one; no answer at all, and a second Ctrl-C, mean yes."""
    while True:
        print(question, end="", file=sys.stderr, flush=True)
        try:
            answer = sys.stdin.readline().strip().lower()[:1] or "y"
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return "y"
        if answer in ("y", "n", "d"):
            return answer
