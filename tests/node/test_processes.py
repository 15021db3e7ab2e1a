"""What /proc tells of processes: real ones, with names and command lines that nobody would choose."""
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.owner import RunningProcess
from gpufairy.node.accounts import Accounts
from gpufairy.node.proc_text import printable
from gpufairy.node.processes import LONGEST_LINE, Processes, parse_stat, running, stat_of
from waits import until

NOBODY = 65534


@contextmanager
def a_child(*command: str | bytes, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def a_program(folder: Path, name: str | bytes) -> bytes:
    """A `sleep` under another name."""
    path = os.path.join(os.fsencode(folder), os.fsencode(name))
    shutil.copy("/bin/sleep", path)
    return path


def lined(pid: int, known: Processes | None = None) -> RunningProcess:
    """With its command line: on a busy machine that may come a beat later."""
    watched = known or Processes()
    return until(lambda: (found := watched.running(pid)) and found.line and found, f"the command line of {pid}")


def test_a_process_is_told_with_its_program_user_and_command_line():
    with a_child("sleep", "1000") as child:
        seen = lined(child.pid)
        assert (seen.pid, seen.uid, seen.command, seen.line) == (child.pid, os.geteuid(), "sleep", "sleep 1000")
        assert seen.started_s == pytest.approx(time.time(), abs=5)


@pytest.mark.parametrize(("name", "shown"), [("a) R 1 (b", "a) R 1 (b"), ("x\ny", "x?y"), (b"\xff\xfe", "\ufffd\ufffd"), ("서버요정", "서버요정"), ("\u202exe", "?xe"), ('"\\', '"\\')])
def test_a_name_made_to_confuse_is_one_printable_line(tmp_path: Path, name: str | bytes, shown: str):
    with a_child(a_program(tmp_path, name), "1000") as child:
        seen = lined(child.pid)
        assert (seen.command, seen.uid) == (shown, os.geteuid())
        assert seen.start_ticks == stat_of(child.pid).start_ticks > 0  # type: ignore[union-attr]
        assert seen.line.endswith(" 1000")
        assert seen.line.isprintable()


def test_a_command_line_of_a_megabyte_is_cut():
    many = ["quote\"'\n\x07" + "x" * 100_000 for _ in range(10)]
    with a_child(sys.executable, "-c", "import time; time.sleep(1000)", *many) as child:
        seen = lined(child.pid)
        assert len(seen.line) == LONGEST_LINE
        assert seen.line.isprintable()
        assert "quote\"'??xxx" in seen.line


def test_a_zombie_has_a_name_and_no_command_line():
    with a_child("true") as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        seen = Processes().running(child.pid)
        assert seen is not None
        assert (seen.command, seen.line) == ("true", "")


def test_a_process_that_is_gone_is_none_from_then_on():
    known = Processes()
    with a_child("sleep", "1000") as child:
        assert known.running(child.pid)
    assert known.running(child.pid) is None
    assert running(2**22 + 1) is None
    assert known.cgroup(child.pid) == ""


def test_processes_that_die_while_they_are_read_are_none_or_whole():
    known = Processes()
    for _ in range(100):
        with a_child("true") as child:
            seen = known.running(child.pid)
            assert seen is not None
        assert known.running(child.pid) is None


def test_after_an_exec_the_new_program_is_shown():
    known = Processes()
    reader, writer = os.pipe()
    shell = subprocess.Popen(["sh", "-c", "read x; exec sleep 1000"], stdin=reader)
    try:
        before = until(lambda: (found := known.running(shell.pid)) and found.command == "sh" and found, "the shell")
        os.write(writer, b"go\n")
        after = until(lambda: (found := known.running(shell.pid)) and found.command == "sleep" and found.line == "sleep 1000" and found, "its exec")
        assert after.start_ticks == before.start_ticks
        assert after.started_s == before.started_s
    finally:
        shell.kill()
        shell.wait()
        os.close(reader)
        os.close(writer)


def test_a_wrapper_that_runs_a_program_of_its_own_name_is_soon_forgotten(tmp_path: Path):
    (tmp_path / "sleep").write_text("#!/bin/sh\nread x\nexec /bin/sleep 1000\n")
    (tmp_path / "sleep").chmod(0o755)
    known = Processes()
    with subprocess.Popen([tmp_path / "sleep"], stdin=subprocess.PIPE) as child:
        assert until(lambda: known.running(child.pid).line, "its line").startswith("/bin/sh")  # type: ignore[union-attr]
        child.stdin.write(b"go\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        until(lambda: known.running(child.pid).line == "/bin/sleep 1000", "its exec")  # type: ignore[union-attr]
        child.kill()


@pytest.mark.system
def test_the_user_is_the_one_it_runs_as():
    if os.geteuid() != 0:
        pytest.skip("to start a process as somebody else needs root")
    with a_child("sleep", "1000", user=NOBODY) as child:
        seen = Processes().running(child.pid)
        assert seen is not None
        assert seen.uid == NOBODY
        assert Accounts().name(NOBODY) == "nobody"


def test_another_process_of_the_same_number_is_another(tmp_path: Path):
    known = Processes(tmp_path)
    stat = "7 ({}) S 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 {} 1000 25 0 0\n"
    (tmp_path / "7").mkdir()
    for name, start in (("old", 100), ("old", 200)):
        (tmp_path / "7/stat").write_text(stat.format(name, start))
        (tmp_path / "7/cmdline").write_bytes(b"run\0" + str(start).encode() + b"\0")
        seen = lined(7, known)
        assert (seen.start_ticks, seen.line) == (start, f"run {start}")


def test_a_command_line_that_cannot_be_read_holds_nobody_up(tmp_path: Path):
    """A FIFO without a writer waits as the kernel does for the memory of a stuck process."""
    known = Processes(tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (stuck) D 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 100 1000 25 0 0\n")
    os.mkfifo(tmp_path / "7/cmdline")
    threads, began = threading.active_count(), time.monotonic()
    for _ in range(50):
        seen = known.running(7)
        assert seen is not None
        assert (seen.command, seen.line) == ("stuck", "")
    assert threading.active_count() == threads + 1
    assert time.monotonic() - began < 1
    with open(tmp_path / "7/cmdline", "wb") as freed:
        freed.write(b"python\0train.py\0")
    assert until(lambda: known.running(7).line, "the line, late") == "python train.py"  # type: ignore[union-attr]


@given(st.binary(max_size=300))
def test_no_stat_line_is_too_strange(line: bytes):
    for one in (line, b"1 (x) S " + line):
        parse_stat(one)
    assert parse_stat(b"7 (" + line + b") S 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 100 1000 25 0 0\n").command == line  # type: ignore[union-attr]


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
def test_what_is_shown_is_printable_and_short(text: bytes | str):
    shown = printable(text, 50)
    assert shown.isprintable()
    assert len(shown) <= 50


def test_accounts_have_names_and_lend_them_to_rootless_containers(tmp_path: Path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("alice:x:1001:1001::/home/alice:/bin/sh\nbroken\nbob\x07:x:1002:1002::/:/bin/sh\n")
    (tmp_path / "etc/subuid").write_text("alice:100000:65536\n1002:200000:10\nx:y:z\n")
    named = Accounts(tmp_path).name
    assert [named(uid) for uid in (1001, 1002, 100_000, 165_535, 165_536, 200_009, 200_010)] == ["alice", "bob?", "alice", "alice", "uid 165536", "bob?", "uid 200010"]


def test_an_account_without_a_name_is_its_number():
    assert Accounts().name(20_001) == "uid 20001"
    assert Accounts().name(2**32 - 2) == f"uid {2**32 - 2}"
