"""Folders of classes: what students hand in, and homes that were set aside. Nothing here deletes what was not kept before.

Students own the insides of theirs and may still be at work there, so folders are entered by descriptor, a step at a time, and no link is
ever followed.
"""
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gpufairy.core.errors import Conflict
from gpufairy.engines.beneath import FILE, open_if_there, open_top
from gpufairy.engines.kept_tar import KeptTar
from gpufairy.engines.run_folder import one_part

ASIDE = ".aside"  # in the folder of homes, so that setting one aside is one rename
DEEPEST = 64  # folders within folders: each holds a descriptor while it is gone through
ROOM_LEFT = 2**30  # bytes that stay free when a home is made into one file
PART = ".part"  # of a file that is being written


class ClassFolders:
    def __init__(self, homes: Path, hand_ins: Path, *, own_uids: bool) -> None:
        """`own_uids`: folders belong to their users; else all of them are the server's own."""
        self._homes, self.hand_ins, self._own_uids = homes, hand_ins, own_uids
        self._too_large: set[Path] = set()  # not looked at again by this server: to measure a large home is to go through all of it

    def class_folder(self, name: str) -> Path:
        return self.hand_ins / one_part(name)

    def hand_in_folder(self, name: str, user: str) -> Path:
        return self.class_folder(name) / one_part(user)

    def make_hand_in(self, name: str, user: str, uid: int) -> None:
        """The folder above is nobody's but ours: a student is given their own alone, so none can look into another's."""
        self.hand_ins.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.class_folder(name).mkdir(mode=0o755, exist_ok=True)
        folder = self.hand_in_folder(name, user)
        folder.mkdir(mode=0o755, exist_ok=True)
        if self._own_uids:
            os.chown(folder, uid, uid, follow_symlinks=False)

    def close_hand_in(self, name: str, user: str) -> None:
        """Read-only, for sessions that have it mounted too: it is ours from now on."""
        self._hand_over(self.hand_in_folder(name, user), os.geteuid(), writable=False)

    def open_hand_in(self, name: str, user: str, uid: int) -> None:
        self._hand_over(self.hand_in_folder(name, user), uid if self._own_uids else os.geteuid(), writable=True)

    def _hand_over(self, folder: Path, uid: int, *, writable: bool) -> None:
        try:
            descriptor = open_top(folder)
        except FileNotFoundError:
            return
        try:
            self._go_through(descriptor, uid, DEEPEST, writable=writable)
        finally:
            os.close(descriptor)

    def _go_through(self, folder: int, uid: int, deepest: int, *, writable: bool) -> None:
        # The folder first: from then on nothing new comes into it while its files are gone through.
        self._give(folder, uid, writable=writable)
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.is_symlink()]
        for name in names:
            inside = open_if_there(folder, name, FILE)
            if inside is None:  # gone meanwhile, or a link put there: neither is ours to change
                continue
            try:
                kind = os.fstat(inside).st_mode
                if stat.S_ISDIR(kind) and deepest:
                    self._go_through(inside, uid, deepest - 1, writable=writable)
                elif stat.S_ISREG(kind):
                    self._give(inside, uid, writable=writable)
            finally:
                os.close(inside)

    def _give(self, descriptor: int, uid: int, *, writable: bool) -> None:
        if self._own_uids:
            os.fchown(descriptor, uid, -1)
        found = os.fstat(descriptor).st_mode
        readable = 0o555 if stat.S_ISDIR(found) else 0o444  # by those who read all: nobody else has a way to it
        mode = found & 0o777 | readable
        os.fchmod(descriptor, mode | 0o200 if writable else mode & ~0o222)

    def handed_in(self, name: str) -> dict[str, int]:
        """By student, how many things lie at the top of their folder."""
        try:
            with os.scandir(self.class_folder(name)) as entries:
                return {entry.name: len(os.listdir(entry.path)) for entry in entries if entry.is_dir(follow_symlinks=False)}
        except FileNotFoundError:
            return {}

    def set_aside(self, name: str, user: str, now: datetime) -> Path | None:
        """Their home, as it is; an empty one takes its place. None: there was none, or nothing in it."""
        home = self._homes / one_part(user)
        try:
            found, empty = home.lstat(), not any(home.iterdir())
        except FileNotFoundError:
            return None
        if empty:
            return None
        there = self._aside(name) / f"{user}-{now:%Y%m%dT%H%M%S}"
        for folder in (there.parent.parent, there.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        if there.exists():
            raise Conflict(f"a home of {user} was set aside at {there} a moment ago", "Try again in a second.")
        home.rename(there)
        home.mkdir(mode=0o700)
        if self._own_uids:
            os.chown(home, found.st_uid, found.st_gid)
        return there

    def aside_of(self, name: str) -> list[Path]:
        """What was set aside of a class, folders and files, by name."""
        try:
            return sorted(path for path in self._aside(name).iterdir() if not path.name.endswith(PART))
        except FileNotFoundError:
            return []

    def pack_next(self, name: str) -> Path | None:
        """Makes one file of the next home that was set aside, and only then removes the folder. None: none is left, or no room."""
        for folder in self.aside_of(name):
            if not folder.is_dir() or folder.is_symlink() or folder in self._too_large:
                continue
            if self._has_room(folder):
                return self._pack(folder)
            self._too_large.add(folder)
        return None

    def _pack(self, folder: Path) -> Path:
        packed, part = folder.with_name(f"{folder.name}.tar"), folder.with_name(f"{folder.name}.tar{PART}")
        with open(part, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
            KeptTar(tar).add(folder.parent, folder.name)
            tar.close()
            file.flush()
            os.fsync(file.fileno())
        with tarfile.open(part, errors="surrogateescape") as tar:
            kept = {member.name for member in tar}
        lost = next((path for path in _entries(folder, folder.name) if path not in kept), None)
        if lost is not None:
            part.unlink()
            raise Conflict(f"{folder} is kept as a folder: {lost!r} is not in the file made of it", "Look at the disk it lies on.")
        part.rename(packed)
        shutil.rmtree(folder)
        return packed

    def _has_room(self, folder: Path) -> bool:
        size = sum(os.lstat(os.path.join(top, name)).st_blocks * 512 for top, _, names in os.walk(folder) for name in names)
        return shutil.disk_usage(folder).free > size + ROOM_LEFT

    def _aside(self, name: str) -> Path:
        return self._homes / ASIDE / one_part(name)


def _entries(folder: Path, name: str) -> Iterator[str]:
    """As a tar file names them; what cannot be in one (sockets) is left out."""
    for top, folders, files in os.walk(folder):
        for entry in (*folders, *files):
            path = os.path.join(top, entry)
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                yield os.path.join(name, os.path.relpath(path, folder))
