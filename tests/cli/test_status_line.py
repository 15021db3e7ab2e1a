"""The line that says why a job waits, at a terminal and elsewhere."""
import io

from fake_server import a_session, ended, running

from gpufairy.cli.status_line import StatusLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_at_a_terminal_the_line_is_rewritten_and_cut_to_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    line = StatusLine(Terminal())
    line.show(a_session(state="PENDING", place=2, why="w" * 100))
    line.show(running())
    assert line._stream.getvalue() == "\r\x1b[2Kbrave-otter PENDING: place 2…\r\x1b[2K"


def test_elsewhere_a_line_comes_only_when_it_says_something_new():
    line = StatusLine(io.StringIO())
    for place in (2, 2, 1):
        line.show(a_session(state="PENDING", place=place))
    assert line._stream.getvalue().splitlines() == ["brave-otter PENDING: place 2", "brave-otter PENDING: place 1"]


def test_several_sessions_are_counted_by_state():
    line = StatusLine(io.StringIO(), several=True)
    for session in (a_session("a", "PENDING"), running("b"), ended("a")):
        line.show(session)
    assert line._stream.getvalue().splitlines() == ["1 PENDING", "1 PENDING, 1 RUNNING", "1 ENDED, 1 RUNNING"]


def test_a_reason_cannot_move_the_cursor():
    line = StatusLine(io.StringIO())
    line.show(a_session(state="PENDING", why="\x1b[2J"))
    assert "\x1b" not in line._stream.getvalue()
