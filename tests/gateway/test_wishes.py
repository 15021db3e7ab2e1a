"""What clients ask to run, as a command."""
import pytest

from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Door, DoorKind
from gpufairy.gateway.wishes import Terminal, Wish, command_for, may_pass, signal_number, terminal

PROCESS = Door(DoorKind.PROCESS, "/home/kim", "/bin/bash")
PORTER = Door(DoorKind.PORTER, "/home/kim", "/opt/fairy/bin/bash")


def test_a_shell_is_a_login_shell():
    assert command_for(Wish(), PROCESS, None, (), None).argv == ("/bin/bash", "-l")


def test_a_command_line_goes_to_the_shell_unread():
    assert command_for(Wish(line="echo '$x' ; ls"), PROCESS, None, (), None).argv == ("/bin/bash", "-c", "echo '$x' ; ls")


def test_a_container_has_our_own_sftp_server_and_a_process_has_the_machines():
    assert command_for(Wish(sftp=True), PORTER, None, (), "/usr/lib/openssh/sftp-server").argv == ("/opt/fairy/bin/sftp-server",)
    assert command_for(Wish(sftp=True), PROCESS, None, (), "/usr/lib/openssh/sftp-server").argv == ("/usr/lib/openssh/sftp-server",)


def test_a_terminal_brings_its_kind_and_size():
    command = command_for(Wish(), PROCESS, Terminal("screen", 100, 30), [("LANG", "C")], None)
    assert (command.terminal, command.columns, command.rows, command.env) == (True, 100, 30, (("LANG", "C"), ("TERM", "screen")))


def test_a_client_without_a_window_gets_the_usual_one():
    assert terminal("xterm", 0, 0) == Terminal("xterm", 80, 24)


@pytest.mark.parametrize("kind", ["", "../../etc/passwd", "x;id", "x" * 65, "a b", "\x1b[31m"])
def test_a_terminal_of_no_kind_is_an_xterm(kind):
    assert terminal(kind, 80, 24).kind == "xterm"


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LC_CTYPE", "COLORTERM", "EDITOR", "TZ"])
def test_language_and_the_like_may_pass(name):
    assert may_pass(name.encode(), b"ko_KR.UTF-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"LD_PRELOAD", b"/tmp/x.so"), (b"PATH", b"/tmp"), (b"BASH_ENV", b"/tmp/x"), (b"ENV", b"x"), (b"PYTHONPATH", b"x"), (b"FAIRY_URL", b"x"),
        (b"TERM", b"x"), (b"LC_", b"x" * 257), (b"LC_A=B", b"x"), (b"LC_\0", b"x"), (b"lang", b"C"), (b"LANG", b"a\nb"), (b"LANG", b"a\0b"),
        (b"LANG", b"\x1b[0m"), (b"LANG", "é".encode()), (b"LC_" + b"A" * 40, b"C"), (b"CUDA_VISIBLE_DEVICES", b"0"), (b"", b""),
    ],
)  # fmt: skip
def test_nothing_else_may(name, value):
    assert not may_pass(name, value)


@pytest.mark.parametrize(
    "line",
    ["scp -t .", "scp -r -p -t /home/kim/x", "scp -f 'a b'", "scp -v -f -- x", "rsync --server -logDtpre.iLsfxCIvu . x", r"scp -t a\ b\$c"],
)
def test_a_copy_needs_no_session(line):
    assert Wish(line=line).purpose is Purpose.FILES


@pytest.mark.parametrize("line", ["scp -t x; bash", "scp -t $(id)", "rsync --server `id`", "scp -t x\nid", "scp x host:", "echo scp -t", "rsync -a x y", "scp -t x | sh", "scp -t\tx;id"])  # fmt: skip
def test_what_is_more_than_a_copy_needs_one(line):
    assert Wish(line=line).purpose is Purpose.SHELL


def test_sftp_is_files_and_a_shell_is_a_shell():
    assert (Wish(sftp=True).purpose, Wish().purpose) == (Purpose.FILES, Purpose.SHELL)


def test_only_the_signals_of_the_standard_are_known():
    assert (signal_number("INT"), signal_number("KILL"), signal_number("STOP"), signal_number("_DFL")) == (2, 9, None, None)
