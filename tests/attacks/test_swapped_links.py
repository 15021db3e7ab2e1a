"""Links made by users never lead the server anywhere, not even those that are put into place while it looks: a thread swaps them all the time."""
import asyncio
import os
import stat
import tarfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from swapping import swapping

from gpufairy.core.disk import DiskLook, Place
from gpufairy.core.disk_due import WalkPace
from gpufairy.core.errors import Conflict, EngineRefused, NoSuchThing
from gpufairy.engines import home_files
from gpufairy.engines.archive import tar_chunks
from gpufairy.engines.build_native import build_disk_walk
from gpufairy.engines.class_folders import ClassFolders
from gpufairy.engines.homes import check_folder_beneath
from gpufairy.engines.project_quota import opened_below
from gpufairy.engines.result_folder import listed, read_out
from gpufairy.node.disk_walk import DiskWalker

pytestmark = pytest.mark.slow
SECRET = b"the-servers-own-secret"
LONG_ENOUGH_S = 0.7  # some ten thousand swaps
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Trap:
    """A user's folder with a file and a folder in it, each with a link beside it that leads to what is not theirs."""

    def __init__(self, tmp_path: Path) -> None:
        self.outside, self.theirs = tmp_path / "outside", tmp_path / "homes" / "kim"
        for folder in (self.outside, self.theirs / "folder"):
            folder.mkdir(parents=True)
        self.secret = self.outside / "shadow"
        self.secret.write_bytes(SECRET)
        self.secret.chmod(0o640)
        (self.theirs / "file").write_bytes(b"x" * len(SECRET))
        (self.theirs / "folder" / "shadow").write_bytes(b"y" * len(SECRET))
        (self.theirs / "file-link").symlink_to(self.secret)
        (self.theirs / "folder-link").symlink_to(self.outside)
        self.pairs = ((self.theirs / "file", self.theirs / "file-link"), (self.theirs / "folder", self.theirs / "folder-link"))

    def outside_now(self) -> tuple:
        found = self.secret.stat()
        return (self.secret.read_bytes(), stat.S_IMODE(found.st_mode), found.st_uid, found.st_mtime_ns, sorted(path.name for path in self.outside.iterdir()))


@pytest.fixture
def trap(tmp_path):
    made = Trap(tmp_path)
    before = made.outside_now()
    yield made
    assert made.outside_now() == before


def again_and_again(trap: Trap, deed) -> int:
    done, end = 0, time.monotonic() + LONG_ENOUGH_S
    with swapping(*trap.pairs) as swaps:
        while time.monotonic() < end or done < 20:
            deed()
            done += 1
    assert swaps[0] > 100
    return done


def test_an_archive_holds_nothing_that_a_link_led_to(trap):
    def look():
        assert SECRET not in b"".join(tar_chunks(trap.theirs.parent, "kim"))

    again_and_again(trap, look)


def test_a_result_is_listed_and_read_from_its_own_folder_alone(trap):
    def look():
        listed(trap.theirs.parent, "kim", 100)
        for path in ("file", "folder/shadow", "file-link", "folder-link/shadow"):
            with suppress(NoSuchThing):
                assert SECRET not in b"".join(read_out(trap.theirs.parent, "kim", path, len(SECRET)))

    again_and_again(trap, look)


def test_a_home_that_moves_takes_nothing_along_and_writes_nothing_elsewhere(trap):
    root = os.open(trap.theirs, home_files.FOLDER)
    wanted = [{"path": path} for path in ("file", "folder/shadow", "folder-link/shadow")]

    def piece(path: str):
        return {"path": path, "kind": "file", "size": 5, "mtime_ns": 1, "mode": 0o777, "offset": 0, "last": True}, b"owned"

    def move():
        list(home_files.listed(root))
        for told, content in home_files.read_out(root, wanted):
            assert SECRET not in content, told
        list(home_files.hashed(root, wanted))
        sent = [piece("folder/new"), piece("folder-link/new"), piece("file/x"), ({"path": "folder", "kind": "folder", "mode": 0o777}, b"")]
        sent.append(({"path": "folder/shadow", "kind": "time", "mtime_ns": 5}, b""))
        list(home_files.written(root, sent))

    try:
        again_and_again(trap, move)
    finally:
        os.close(root)


def test_a_hand_in_that_is_closed_and_opened_changes_nothing_else(trap):
    folders = ClassFolders(trap.theirs.parent.parent / "none", trap.theirs.parent.parent, own_uids=os.geteuid() == 0)

    def deadline_and_extension():
        folders.close_hand_in("homes", "kim")
        folders.open_hand_in("homes", "kim", 12345)

    again_and_again(trap, deadline_and_extension)


def test_a_disk_limit_is_marked_on_files_of_the_home_alone(trap):
    home, not_theirs = os.open(trap.theirs, os.O_RDONLY), {found.stat().st_ino for found in (trap.secret, trap.outside)}

    def mark():
        for one in opened_below(home):
            assert os.fstat(one).st_ino not in not_theirs

    try:
        again_and_again(trap, mark)
    finally:
        os.close(home)


def test_a_folder_below_one_that_is_offered_is_never_a_link(trap):
    """Whoever asks is told no, or gets the folder itself: whichever was there at that moment."""
    def look():
        with suppress(EngineRefused):
            check_folder_beneath(trap.theirs, Path("folder"), "offered/folder")

    again_and_again(trap, look)
    with pytest.raises(EngineRefused):
        check_folder_beneath(trap.theirs, Path("folder/../../../outside"), "offered")


def test_a_home_that_was_set_aside_is_packed_without_what_links_lead_to(trap):
    """Whoever still has it open, by a connection that lasts, swaps on while it is packed."""
    folders = ClassFolders(trap.theirs.parent, trap.theirs.parent.parent / "handins", own_uids=False)
    for _ in range(40):
        (trap.theirs / "folder" / f"more{_}").write_bytes(b"z" * 1000)
    aside = folders.set_aside("cs1", "kim", NOW)
    assert aside is not None
    pairs = ((aside / "file", aside / "file-link"), (aside / "folder", aside / "folder-link"))
    tar = aside.with_name(f"{aside.name}.tar")
    end = time.monotonic() + LONG_ENOUGH_S
    with swapping(*pairs):
        while time.monotonic() < end and aside.exists():
            with suppress(Conflict, OSError):
                folders._pack(aside)
            for found in (tar, tar.with_name(f"{tar.name}.part")):
                if found.exists():
                    assert SECRET not in found.read_bytes()
    if tar.exists():
        with tarfile.open(tar) as packed:
            assert all(not member.issym() or member.size == 0 for member in packed)


def test_a_pipe_put_into_a_files_place_holds_nobody_up(trap):
    os.mkfifo(trap.theirs / "pipe")
    (trap.theirs / "plain").write_bytes(b"plain")
    root = os.open(trap.theirs, home_files.FOLDER)
    end = time.monotonic() + LONG_ENOUGH_S
    with swapping((trap.theirs / "pipe", trap.theirs / "plain")):
        while time.monotonic() < end:
            b"".join(tar_chunks(trap.theirs.parent, "kim"))
            with suppress(NoSuchThing):
                b"".join(read_out(trap.theirs.parent, "kim", "plain", 5))
            list(home_files.hashed(root, [{"path": "plain"}]))
    os.close(root)


def test_a_disk_walk_counts_nothing_that_a_link_led_to(trap, tmp_path):
    program, kept = build_disk_walk(tmp_path / "tools"), tmp_path / "kept"
    kept.mkdir()
    (trap.outside / "large").write_bytes(bytes(8 * 2**20))
    place = Place("place", str(trap.theirs), of_homes=False)

    def look():
        found = asyncio.run(DiskWalker(lambda: program, kept, WalkPace(), low=False).walk(place, NOW, full=True))
        assert isinstance(found, DiskLook), found
        assert found.bytes < 2**20

    again_and_again(trap, look)
    (trap.outside / "large").unlink()
