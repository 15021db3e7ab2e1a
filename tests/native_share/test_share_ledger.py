"""The ledger by itself, under the sanitizers, and what it takes to be trusted: its locks, its reader, files that are not one."""
import fcntl
import os
import struct

import pytest
from share_scene import CONTEXT_BYTES, MIB, WHOLE_BYTE, Box, built, gpu_line, write_ledger

pytestmark = pytest.mark.slow  # each is quick; all of them are not

UUID = "GPU-00000000-0000-0000-0000-000000000001"
GOOD = f"fairyshare 1\ngpu {UUID} memory_bytes=75161927680 sm_percent=50 context_bytes=550502400\n"


def unit(box: Box, which: str) -> str:
    done = box.run(str(built("ledger")), which, LD_PRELOAD="")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("which", ["threads", "edge", "scribbled", "table"])
def test_the_parts_hold_under_the_sanitizers(box: Box, which: str) -> None:
    unit(box, which)


def test_the_limits_are_read_with_every_word(box: Box) -> None:
    box.limits.write_text(GOOD + f"future word\ngpu MIG{UUID[3:-1]}2 later=3 memory_bytes=5\n\nmps /run/fairy/mps\n")
    assert unit(box, "limits").splitlines() == [
        "good 2", f"{UUID} 75161927680 50 550502400", f"MIG{UUID[3:-1]}2 5 100 0", "mps=/run/fairy/mps",
    ]  # fmt: skip


MALFORMED = {
    "empty": "", "another version": GOOD.replace("1\n", "2\n", 1), "no first line": GOOD.partition("\n")[2], "cut short": GOOD[:-20], "no newline": GOOD[:-1],
    "no gpu": "fairyshare 1\n", "no memory": f"fairyshare 1\ngpu {UUID}\n", "no uuid": "fairyshare 1\ngpu 0 memory_bytes=1\n", "long uuid": GOOD.replace(UUID, UUID + "0"),
    "negative": GOOD.replace("=751", "=-751"), "too large": GOOD.replace("=751", "=" + "9" * 30), "not a number": GOOD.replace("=751", "=x751"), "empty number": GOOD.replace("=550502400", "="),
    "percent 0": GOOD.replace("=50 ", "=0 "), "percent 101": GOOD.replace("=50 ", "=101 "), "twice": GOOD + GOOD.partition("\n")[2],
    "seventeen": "fairyshare 1\n" + "".join(f"gpu {UUID[:-2]}{number:02} memory_bytes=1\n" for number in range(17)), "endless word": GOOD + "x" * 5000 + "\n",
    "too long": GOOD + "# words\n" * 4000, "relative mps": GOOD + "mps run/fairy\n", "binary": "\0" * 100 + "\n", "long mps": GOOD + f"mps /{'x' * 100}\n",
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_limits_that_are_malformed_are_worth_nothing(box: Box, what: str) -> None:
    box.limits.write_text(MALFORMED[what])
    assert unit(box, "limits").splitlines()[0] == "broken 0"


def all_is_refused(box: Box) -> None:
    with box.client() as client:
        assert client.ask("begin 0") == "2"
        for kind in ("create", "context"):
            assert client.ask(f"take {kind} {2 * MIB}") == "2"
        assert client.ask("total").split()[0] == "0"
        assert client.ask("init 0") == "0"  # the process goes on
    assert box.cuda.peak() == 0


def test_missing_limits_fail_closed(box: Box) -> None:
    box.limits.unlink()
    all_is_refused(box)


@pytest.mark.parametrize("what", ["empty", "another version", "cut short"])
def test_malformed_limits_fail_closed(box: Box, what: str) -> None:
    box.limits.write_text(MALFORMED[what])
    all_is_refused(box)


def test_limits_that_are_no_file_fail_closed(box: Box) -> None:
    box.limits.unlink()
    box.limits.mkdir()
    all_is_refused(box)


def test_no_variable_points_to_other_limits(box: Box) -> None:
    other = box.folder / "other"
    box.limits.rename(other)
    with box.client(FAIRY_LIMITS=str(other), FAIRY_LEDGER=str(box.ledger)) as client:
        assert client.ask("begin 0") == "2"


@pytest.mark.parametrize("what", ["missing", "empty", "short", "another version", "folder", "link"])
def test_a_ledger_that_is_none_fails_closed(box: Box, what: str) -> None:
    kept = box.ledger.rename(box.folder / "kept")
    if what == "empty":
        box.ledger.touch()
    elif what == "short":
        box.ledger.write_bytes(kept.read_bytes()[:-1])
    elif what == "another version":
        write_ledger(box.ledger, version=2)
    elif what == "folder":
        box.ledger.mkdir()
    elif what == "link":
        box.ledger.symlink_to(kept)
    all_is_refused(box)


def test_a_gpu_that_is_visible_but_not_named_has_nothing(box: Box) -> None:
    box.write_limits(f"gpu {UUID[:-1]}9 memory_bytes={1 << 40}")
    all_is_refused(box)


def test_the_mapping_keeps_the_lock_when_every_descriptor_is_closed(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take plain {512 * MIB}", "closeall")
        with box.ledger.open("rb+") as file, pytest.raises(BlockingIOError):
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, WHOLE_BYTE + 1, 1, 0))
        with box.client() as other:
            other.do("begin 0")
            assert other.ask(f"take plain {512 * MIB}") == "2"
        client.process.kill()
        client.process.wait()
        with box.client() as other:
            other.do("begin 0", f"take plain {512 * MIB}")


def test_columns_are_by_the_limits_lines_and_apart(box: Box) -> None:
    box.write_limits(f"gpu {UUID[:-1]}7 memory_bytes=5", gpu_line(box.cuda.cards[0], 64 * MIB))
    with box.client() as client:
        client.do("begin 0", f"take plain {32 * MIB}")
        assert (box.used(0), box.used(1)) == (0, CONTEXT_BYTES + 32 * MIB)
        assert (box.asked(0), box.asked(1)) == (0, 0)
