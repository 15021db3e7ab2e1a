"""Logs are read by offset, cut in the middle when too large, and say that they were."""
import os
from datetime import timedelta
from pathlib import Path

import pytest
from engine_waits import started, until_exited, whole_log

from builders import a_node, a_session
from gpufairy.core.workload import workload_id
from gpufairy.engines import joblog
from gpufairy.engines.contract import Credentials
from gpufairy.engines.joblog import cut_log, next_chunk, read_log
from gpufairy.engines.process import ProcessEngine

CAP = 256 * 1024


def lines(count: int) -> bytes:
    return b"".join(b"line %09d\n" % number for number in range(count))


def a_log(folder: Path, content: bytes) -> Path:
    path = folder / "some.log"
    path.write_bytes(content)
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # room on disk is given only when written out
    return path


async def read(path: Path, from_bytes: int = 0) -> bytes:
    return b"".join([chunk async for chunk in read_log(path, CAP, follow=False, over=lambda: True, from_bytes=from_bytes)])


async def test_a_log_within_its_cap_is_whole(tmp_path: Path):
    path = a_log(tmp_path, lines(1000))
    assert not cut_log(path, CAP)
    assert await read(path) == lines(1000)


async def test_a_cut_keeps_the_beginning_and_the_end_and_says_what_is_missing(tmp_path: Path):
    content = lines(200_000)
    path = a_log(tmp_path, content)
    assert cut_log(path, CAP)
    shown = await read(path)
    head, _, rest = shown.partition("\n[… ".encode())
    note, _, tail = rest.partition("…]\n".encode())
    assert len(head) >= CAP // 4
    assert len(tail) >= CAP // 2
    assert content.startswith(head)
    assert content.endswith(tail)
    assert note.decode() == "2.7 MiB of log cut here: the cap is 256 KiB "
    assert path.stat().st_size == len(content)
    assert path.stat().st_blocks * 512 <= CAP


async def test_a_reader_who_comes_back_after_a_cut_misses_nothing(tmp_path: Path):
    content = lines(200_000)
    path = a_log(tmp_path, content)
    cut_log(path, CAP)
    with path.open("ab") as writer:
        writer.write(b"after\n")
    assert await read(path, len(content)) == b"after\n"


async def test_a_reader_who_counts_what_they_were_sent_is_never_ahead_of_the_log(tmp_path: Path):
    """The line that tells of a hole stands for more bytes than it has: counting it as they do leads back, never on."""
    content = lines(200_000)
    path = a_log(tmp_path, content)
    cut_log(path, CAP)
    hole_end = len(content) - len((await read(path)).rpartition("…]\n".encode())[2])
    for offset in (0, CAP, hole_end - 10, hole_end - 1, hole_end):
        assert offset + len(await read(path, offset)) <= len(content)
    assert (await read(path, hole_end - 10)).endswith(content[hole_end:])


def test_a_log_of_which_nothing_can_be_taken_is_not_said_to_be_cut(tmp_path: Path):
    path = a_log(tmp_path, b"x" * 5000)
    assert path.stat().st_blocks * 512 > 4096
    assert not cut_log(path, 4096)


async def test_a_cut_log_goes_on_growing_at_its_true_offset(tmp_path: Path):
    path = a_log(tmp_path, lines(200_000))
    writer = joblog.open_log(path)
    cut_log(path, CAP)
    os.write(writer, b"after\n")
    os.close(writer)
    assert (await read(path)).endswith(b"after\n")
    assert path.stat().st_size == len(lines(200_000)) + 6


async def test_where_no_hole_can_be_made_the_log_starts_anew_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joblog, "_punched", lambda *_: False)
    path = a_log(tmp_path, lines(200_000))
    assert cut_log(path, CAP)
    assert "2.9 MiB of log cut here" in (await read(path)).decode()


def test_a_reader_of_a_log_that_started_anew_goes_on_from_its_beginning(tmp_path: Path):
    descriptor = os.open(a_log(tmp_path, b"new\n"), os.O_RDONLY)
    assert next_chunk(descriptor, 5000, CAP) == (b"new\n", 4)
    os.close(descriptor)


async def test_a_flood_stays_under_the_cap_while_it_runs(tmp_path: Path):
    engine = ProcessEngine(tmp_path, a_node(), lambda _: Credentials("http://server", "t"), log_cap_bytes=CAP)
    session = a_session("sh", "-c", "echo begin; yes flood | head -c 30000000; echo end")
    async with started(engine):
        await engine.launch(session)
        assert (await until_exited(engine, session)).exit_code == 0
        shown = await whole_log(engine, session)
        await engine.stop(workload_id(session), timedelta(0))
    assert shown.startswith(b"begin\n")
    assert shown.endswith(b"end\n")
    assert b"MiB of log cut here" in shown
    assert len(shown) < 2 * CAP
