"""What could not be sent is kept, in order, bounded, and over a crash."""
import json
import os
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.node import spool as spool_module
from gpufairy.node.spool import Spool


def numbered(count: int, first: int = 0) -> list[dict[str, int]]:
    return [{"n": number} for number in range(first, first + count)]


def test_samples_come_back_oldest_first_and_stay_until_delivered(tmp_path: Path):
    spool = Spool(tmp_path / "spool")
    assert not spool
    spool.keep(numbered(3))
    spool.keep(numbered(2, 3))
    assert spool.oldest(2) == spool.oldest(2) == numbered(2)
    spool.delivered(2)
    assert spool.oldest(10) == numbered(3, 2)
    spool.delivered(3)
    assert not spool
    assert spool.oldest(10) == []
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path):
    Spool(tmp_path).keep(numbered(3))
    again = Spool(tmp_path)
    again.keep(numbered(1, 3))
    assert again.oldest(3) == numbered(3)
    again.delivered(3)
    assert again.oldest(3) == numbered(1, 3)


def test_a_line_cut_by_a_crash_costs_itself_alone(tmp_path: Path):
    Spool(tmp_path).keep(numbered(2))
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as end:
        end.write(b'{"n": 2, "hal')
    again = Spool(tmp_path)
    again.keep(numbered(1, 3))
    assert again.oldest(10) == numbered(2)
    again.delivered(2)
    assert again.oldest(10) == numbered(1, 3)


def test_a_file_of_nothing_but_noise_is_passed_over(tmp_path: Path):
    (tmp_path / "000000000001.jsonl").write_bytes(b"\0\xff\n[1]\nnull\n" + b"x" * 100)
    spool = Spool(tmp_path)
    spool.keep(numbered(1))
    assert spool.oldest(10) == numbered(1)


def test_links_and_others_files_in_the_folder_are_left_alone(tmp_path: Path):
    target = tmp_path / "secret"
    target.write_text('{"n": 9}\n')
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "000000000001.jsonl").symlink_to(target)
    (folder / "notes.txt").write_text("mine")
    os.mkfifo(folder / "000000000002.jsonl")
    spool = Spool(folder)
    assert not spool
    assert (folder / "notes.txt").exists()


def test_the_oldest_make_room_and_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 100)
    spool = Spool(tmp_path, most_bytes=1000)
    for sample in numbered(200):
        spool.keep([sample])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    left = []
    while found := spool.oldest(50):
        left += found
        spool.delivered(len(found))
    assert left == numbered(len(left), 200 - len(left))
    assert spool.dropped == 200 - len(left)


def test_a_full_disk_loses_samples_and_not_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    spool = Spool(tmp_path)
    monkeypatch.setattr(os, "write", full)
    spool.keep(numbered(2))
    assert spool.dropped == 2


def test_after_a_kill_nothing_that_was_delivered_is_sent_again(tmp_path: Path):
    spool = Spool(tmp_path)
    spool.keep(numbered(10))
    spool.oldest(4)
    spool.delivered(4)
    again = Spool(tmp_path)
    again.keep(numbered(1, 10))
    assert again.oldest(3) == numbered(3, 4)
    again.delivered(2)
    assert Spool(tmp_path).oldest(10) == numbered(4, 6)


@pytest.mark.parametrize("mark", ["", "000000000001", "000000000001 x", "000000000002 9", "000000000001 -5", "\0" * 10], ids=repr)
def test_a_mark_that_makes_no_sense_is_none(tmp_path: Path, mark: str):
    Spool(tmp_path).keep(numbered(3))
    (tmp_path / "delivered").write_text(mark)
    assert Spool(tmp_path).oldest(10) == numbered(3)


def test_a_mark_outlives_no_segment(tmp_path: Path):
    spool = Spool(tmp_path)
    spool.keep(numbered(3))
    spool.oldest(1)
    spool.delivered(1)
    spool.oldest(2)
    spool.delivered(2)
    assert list(tmp_path.iterdir()) == []


def test_a_short_write_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, text: whole(descriptor, text[:5]))
    spool = Spool(tmp_path)
    spool.keep(numbered(3))
    assert (spool.oldest(10), spool.dropped) == (numbered(3), 0)


def test_a_write_that_fails_half_way_costs_what_it_cut_and_nothing_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, room = os.write, [12]

    def filling(descriptor: int, text: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = whole(descriptor, text[: room[0]])
        room[0] -= written
        return written

    spool = Spool(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "write", filling)
        spool.keep(numbered(3))
    assert spool.dropped == 2
    spool.keep(numbered(2, 3))
    assert spool.oldest(10) == numbered(1)
    spool.delivered(1)
    assert spool.oldest(10) == numbered(2, 3)


def test_a_file_where_the_folder_should_be_is_said_in_words(tmp_path: Path):
    (tmp_path / "spool").write_text("mine")
    with pytest.raises(BadInput, match=r"spool .*/spool cannot be used: File exists"):
        Spool(tmp_path / "spool")


def test_a_folder_that_may_not_be_written_any_more_loses_samples_and_not_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    spool = Spool(tmp_path)
    spool.keep(numbered(3))
    for name in ("open", "write", "unlink", "replace"):
        monkeypatch.setattr(os, name, read_only)
    monkeypatch.setattr(Path, "write_text", read_only)
    assert spool.oldest(1) == numbered(1)
    spool.delivered(1)
    spool.keep(numbered(1, 3))
    assert spool.dropped == 1
    assert spool.oldest(10) == numbered(2, 1)
    spool.delivered(2)
    assert not spool.oldest(10)


def test_lines_are_json(tmp_path: Path):
    Spool(tmp_path).keep([{"command": 'a "quoted"\nline'}])
    (file,) = tmp_path.glob("*.jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"command": 'a "quoted"\nline'}]
