"""The disk walk on real folders: what is counted, what never is, and what a quick walk may trust."""
import asyncio
import os
import random
import subprocess
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from disk_scene import A_WEEK_S, NOW, age, append, change_something, du_bytes, make_deep, make_many, put, run, tried, walked

from gpufairy.core.disk import Place, Unmeasured
from gpufairy.core.disk_due import WalkPace
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.build_native import build_disk_walk
from gpufairy.node.disk_walk import DiskWalker, look_of, text_of
from waits import until

pytestmark = [pytest.mark.system, pytest.mark.slow]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts, or becomes somebody else")
MIB = 2**20
HALF_YEAR_S = 200 * 86400
MISSING, INSTALL = "it cannot be built: there is no C compiler (cc) on this machine", "apt-get install gcc libc6-dev"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_disk_walk(tmp_path_factory.mktemp("tools"))


@pytest.fixture
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


async def test_the_sum_is_that_of_du(tmp_path, program, kept):
    for number in range(50):
        put(tmp_path / f"a{number % 7}" / f"b{number % 3}" / f"file{number}", number * 1000)
    look = await walked(program, tmp_path, kept)
    assert look.bytes == du_bytes(tmp_path)
    assert look.inodes == 1 + 7 + 21 + 50
    assert sum(one.bytes for one in look.owners) == look.bytes


async def test_files_with_several_names_count_once(tmp_path, program, kept):
    first = put(tmp_path / "a" / "first", 3 * MIB)
    for number in range(5):
        (tmp_path / f"b{number}").mkdir()
        os.link(first, tmp_path / f"b{number}" / "again")
    look = await walked(program, tmp_path, kept)
    assert look.bytes == du_bytes(tmp_path)
    assert look.bytes < 4 * MIB


async def test_files_with_holes_count_what_they_take(tmp_path, program, kept):
    os.truncate(put(tmp_path / "sparse", 1), 50 * 2**30)
    assert (await walked(program, tmp_path, kept)).bytes < MIB


async def test_loops_of_links_are_not_followed(tmp_path, program, kept):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (inside / "up").symlink_to(tmp_path)
    (inside / "itself").symlink_to("itself")
    (tmp_path / "a" / "far").symlink_to("/")
    look = await walked(program, tmp_path, kept)
    assert look.inodes == 6
    assert look.unread == 0


async def test_names_that_are_not_utf8_and_names_with_line_ends_are_told_as_text(tmp_path, program, kept):
    put(tmp_path / os.fsdecode(b"b\xff\xfe\n\t\\x") / "\x1b[31m.bin", 2 * MIB)
    look = await walked(program, tmp_path, kept)
    (owner,) = look.owners
    assert [one.path for one in owner.largest] == [r"b\xff\xfe\x0a\x09\x5cx/\x1b[31m.bin"]
    owner.largest[0].path.encode()  # what is not UTF-8 could not be written or sent


async def test_a_folder_with_200000_entries_is_walked_through(program, kept):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # in memory: to make so many on a disk takes a minute, if it has other work
        make_many(Path(folder), 200_000)
        assert (await walked(program, Path(folder), kept)).inodes == 200_001
        assert (await walked(program, Path(folder), kept, full=False)).inodes == 200_001
        assert scheduled_as([program, folder, kept / "kept", "uid", "full", "1", "1", "1", "low"]) == os.SCHED_IDLE


async def test_folders_deeper_than_can_be_held_open_are_counted_and_told(tmp_path, program, kept):
    make_deep(tmp_path, 1100)
    look = await walked(program, tmp_path, kept)
    assert look.too_deep == 1
    assert look.inodes == 1002
    run("rm", "-rf", tmp_path / "d")


@needs_root
async def test_other_disks_on_the_way_are_not_entered(tmp_path, program, kept):
    put(tmp_path / "own" / "file", 2 * MIB)
    there = tmp_path / "other disk"
    there.mkdir()
    run("mount", "-t", "tmpfs", "none", there)
    try:
        put(there / "file", 3 * MIB)
        look = await walked(program, tmp_path, kept)
    finally:
        run("umount", there)
    assert look.mounts == 1
    assert look.bytes < 3 * MIB


@needs_root
async def test_what_may_not_be_read_is_counted_and_told(tmp_path, program, kept):
    put(tmp_path / "open" / "file")
    put(tmp_path / "closed" / "file")
    (tmp_path / "closed").chmod(0)
    temporary = Path(tempfile.gettempdir())
    for folder in {tmp_path, *tmp_path.parents, *program.parents} - {temporary, *temporary.parents}:
        folder.chmod(0o755)
    kept.chmod(0o777)
    nobody = kept / "as-nobody"
    nobody.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups {program} "$@"\n')
    nobody.chmod(0o755)
    look = await walked(nobody, tmp_path, kept)
    assert look.unread == 1
    assert look.troubles == ("closed: permission denied",)
    assert look.inodes == 4


async def test_folders_that_vanish_under_the_walk_do_not_break_it(tmp_path, program, kept):
    over = threading.Event()

    def churn() -> None:
        number = 0
        while not over.is_set():
            number += 1
            folder = tmp_path / f"t{number % 20}" / "x"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "file").write_bytes(b"x")
            (folder / "file").unlink()
            folder.rmdir()
            folder.parent.rmdir()

    put(tmp_path / "stays" / "file")
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for turn in range(30):
            look = await walked(program, tmp_path, kept, full=turn % 3 == 0)
            assert 3 <= look.inodes <= 50
            assert look.unread == 0
    finally:
        over.set()
        worker.join()


async def test_a_folder_that_is_not_there_is_not_known_and_told_so(tmp_path, program, kept):
    found = await tried(program, tmp_path / "gone", kept)
    assert isinstance(found, Unmeasured)
    assert found.why == f"{tmp_path}/gone: No such file or directory"


async def test_homes_are_told_apart_by_their_folders(tmp_path, program, kept):
    put(tmp_path / "ann" / "a.bin", 3 * MIB)
    put(tmp_path / "bob" / "b.bin", 2 * MIB)
    put(tmp_path / "lost", 1)
    look = await walked(program, tmp_path, kept, of_homes=True)
    by_top = {one.top: one for one in look.owners}
    assert set(by_top) == {"", "ann", "bob"}
    assert [one.path for one in by_top["ann"].largest] == ["ann/a.bin"]
    assert [one.path for one in by_top["bob"].folders] == ["bob"]


@needs_root
async def test_shared_folders_are_told_apart_by_uid(tmp_path, program, kept):
    os.chown(put(tmp_path / "sets" / "one", 2 * MIB), 20_001, 20_001)
    os.chown(put(tmp_path / "sets" / "two", 3 * MIB), 20_002, 20_002)
    look = await walked(program, tmp_path, kept)
    assert {one.uid: one.bytes for one in look.owners if one.uid} == {20_001: 2 * MIB, 20_002: 3 * MIB}


async def test_what_could_be_removed_is_sorted_and_what_would_free_nothing_is_left_out(tmp_path, program, kept):
    home = tmp_path / "ann"
    put(home / ".cache" / "pip" / "http" / "x", 2 * MIB)
    put(home / ".cache" / "huggingface" / "hub" / "x", 3 * MIB)
    put(home / ".cache" / "else" / "x", MIB)
    shared = put(home / "miniconda3" / "pkgs" / "numpy" / "x", 4 * MIB)
    put(home / "miniconda3" / "pkgs" / "old" / "x", 5 * MIB)
    (home / "miniconda3" / "envs").mkdir()
    os.link(shared, home / "miniconda3" / "envs" / "x")
    put(home / "run" / "step100.ckpt", 6 * MIB, age_s=40 * 86400)
    put(home / "run" / "step200.ckpt", 6 * MIB)
    put(home / "src" / "__pycache__" / "x.pyc", MIB)
    put(home / "core.1234", 7 * MIB)
    put(home / "core.c", 7 * MIB)
    look = await walked(program, tmp_path, kept, of_homes=True)
    ann = next(one for one in look.owners if one.top == "ann")
    assert {one.name: one.bytes // MIB for one in ann.sorts} == {
        "pip": 2, "huggingface": 3, "cache": 1, "conda": 5, "checkpoints": 6, "pycache": 1, "cores": 7,
    }  # fmt: skip


async def test_what_nobody_used_for_half_a_year_is_old(tmp_path, program, kept):
    put(tmp_path / "old.bin", 2 * MIB, age_s=HALF_YEAR_S)
    put(tmp_path / "new.bin", 3 * MIB)
    (owner,) = (await walked(program, tmp_path, kept)).owners
    assert owner.old_bytes == 2 * MIB
    assert [one.path for one in owner.oldest] == ["old.bin"]
    assert [one.path for one in owner.largest] == ["new.bin", "old.bin"]


async def test_a_quick_walk_looks_into_nothing_that_has_not_changed(tmp_path, program, kept):
    for number in range(60):
        put(tmp_path / f"a{number % 6}" / f"file{number}")
    age(tmp_path)
    first = await walked(program, tmp_path, kept)
    put(tmp_path / "a1" / "new", 2 * MIB)
    second = await walked(program, tmp_path, kept, full=False)
    assert (second.listed, second.trusted) == (1, 6)
    assert second.bytes == du_bytes(tmp_path)
    assert first.bytes < second.bytes
    assert [one.path for one in second.owners[0].largest] == ["a1/new"]


async def test_a_file_that_grows_where_something_was_written_lately_is_seen_by_a_quick_walk(tmp_path, program, kept):
    log = put(tmp_path / "run" / "log", 5000)
    await walked(program, tmp_path, kept)
    append(log, 2 * MIB)
    assert (await walked(program, tmp_path, kept, full=False)).bytes == du_bytes(tmp_path)


async def test_a_file_that_grows_where_nothing_was_written_for_days_is_seen_by_the_next_walk_in_full(tmp_path, program, kept):
    """What the quick walk gives up, and for how long: this is the promise as the manual has it."""
    old = put(tmp_path / "run" / "weights", 5000)
    age(tmp_path)
    before = await walked(program, tmp_path, kept)
    append(old, 2 * MIB)
    assert (await walked(program, tmp_path, kept, full=False)).bytes == before.bytes
    assert (await walked(program, tmp_path, kept)).bytes == du_bytes(tmp_path)


async def test_a_file_that_was_given_a_second_name_elsewhere_counts_twice_until_the_next_walk_in_full(tmp_path, program, kept):
    """Its own folder does not change by that. The other thing that a quick walk gives up."""
    first = put(tmp_path / "a" / "first", 2 * MIB)
    (tmp_path / "b").mkdir()
    age(tmp_path)
    await walked(program, tmp_path, kept)
    os.link(first, tmp_path / "b" / "again")
    assert (await walked(program, tmp_path, kept, full=False)).bytes == du_bytes(tmp_path) + 2 * MIB
    assert (await walked(program, tmp_path, kept)).bytes == du_bytes(tmp_path)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_people_do_a_quick_walk_finds_what_a_full_one_does(tmp_path, program, kept, tmp_path_factory, seed):
    chance = random.Random(seed)
    for number in range(80):
        put(tmp_path / f"a{chance.randrange(4)}" / f"b{chance.randrange(4)}" / f"f{number}", chance.randrange(2 * MIB))
    age(tmp_path, A_WEEK_S)
    await walked(program, tmp_path, kept)
    for turn in range(12):
        for _ in range(chance.randrange(1, 4)):
            change_something(tmp_path, chance)
        quick = await walked(program, tmp_path, kept, full=False)
        full = await walked(program, tmp_path, tmp_path_factory.mktemp(f"full{turn}"))
        assert quick.bytes == full.bytes == du_bytes(tmp_path)
        assert quick.inodes == full.inodes
        assert quick.owners == full.owners
        assert sorted(quick.folders, key=str) == sorted(full.folders, key=str)


@pytest.mark.parametrize("cut", [0, 7, 40, 200, -1])
async def test_what_was_kept_and_is_damaged_is_not_trusted(tmp_path, program, kept, cut):
    for number in range(30):
        put(tmp_path / f"a{number % 5}" / f"file{number}")
    age(tmp_path)
    whole = await walked(program, tmp_path, kept)
    (file,) = kept.glob("*.kept")
    file.write_bytes(file.read_bytes()[:cut])
    again = await walked(program, tmp_path, kept, full=False)
    assert (again.bytes, again.trusted) == (whole.bytes, 0)


async def test_noise_in_what_was_kept_never_breaks_a_walk(tmp_path, program, kept):
    chance = random.Random(1)
    for number in range(30):
        put(tmp_path / f"a{number % 5}" / f"b{number % 2}" / f"file{number}", 2 * MIB if number == 3 else 10)
    age(tmp_path)
    await walked(program, tmp_path, kept)
    (file,) = kept.glob("*.kept")
    whole = file.read_bytes()
    for _ in range(150):
        noisy = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            noisy[chance.randrange(32, len(noisy))] = chance.randrange(256)
        file.write_bytes(noisy)
        await walked(program, tmp_path, kept, full=False)


async def test_a_walk_is_cut_off_with_whoever_asked_for_it(tmp_path, kept):
    waits = kept / "waits"
    waits.write_text("#!/bin/sh\necho $$ > $(dirname $2)/pid\nexec sleep 600\n")
    waits.chmod(0o755)
    walker = DiskWalker(lambda: waits, kept, WalkPace())
    task = asyncio.create_task(walker.walk(Place("place", os.fspath(tmp_path)), NOW, full=True))
    pid = await asyncio.to_thread(pid_in, kept / "pid")
    task.cancel()
    await asyncio.wait([task])
    assert not psutil.pid_exists(pid)


def scheduled_as(command) -> int:
    """The last that is seen of it while it runs."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        seen = os.SCHED_OTHER
        while child.poll() is None and seen == os.SCHED_OTHER:
            seen = os.sched_getscheduler(child.pid)
    return seen


def pid_in(file: Path) -> int:
    return int(until(lambda: file.exists() and file.read_text().strip(), "its first line"))


async def test_without_a_compiler_disk_use_is_not_known_and_that_is_told(tmp_path, kept):
    def cannot() -> Path:
        raise EngineRefused(MISSING, INSTALL)

    found = await DiskWalker(cannot, kept, WalkPace()).walk(Place("place", os.fspath(tmp_path)), NOW, full=True)
    assert isinstance(found, Unmeasured)
    assert (found.why, found.next_step) == (MISSING, INSTALL)


def test_half_an_answer_is_none():
    place = Place("place", "/x")
    assert isinstance(look_of(place, NOW, [b"walk\t1\t1\t1\t0\t0\t0\t0\t0\t0"], took_s=0, full=True), Unmeasured)
    assert isinstance(look_of(place, NOW, [], took_s=0, full=True), Unmeasured)


def test_a_path_that_nobody_could_read_is_told_by_its_end():
    assert text_of(b"a" * 5000 + b"/end").endswith("a/end")
    assert len(text_of(b"a" * 5000)) == 1001
