"""The real walker on real folders, compiled once for all tests."""
import os
import random
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from gpufairy.core.disk import DiskLook, Place, Unmeasured
from gpufairy.core.disk_due import WalkPace
from gpufairy.node.disk_walk import DiskWalker

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
A_WEEK_S = 7 * 86400


async def walked(program: Path, folder: Path, kept: Path, *, full: bool = True, of_homes: bool = False) -> DiskLook:
    found = await tried(program, folder, kept, full=full, of_homes=of_homes)
    assert isinstance(found, DiskLook), found
    return found


async def tried(program: Path, folder: Path, kept: Path, *, full: bool = True, of_homes: bool = False) -> DiskLook | Unmeasured:
    walker = DiskWalker(lambda: program, kept, WalkPace(), low=False)
    return await walker.walk(Place("place", os.fspath(folder), of_homes), NOW, full=full)


def put(path: Path, size: int = 5000, age_s: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


def append(path: Path, size: int) -> None:
    """In place: its folder does not change."""
    with open(path, "ab") as file:
        file.write(b"x" * size)


def make_many(top: Path, count: int) -> None:
    here = os.open(top, os.O_RDONLY)
    for number in range(count):
        os.mknod(f"file-{number}", dir_fd=here)
    os.close(here)


def make_deep(top: Path, depth: int) -> None:
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def du_bytes(folder: Path) -> int:
    return int(subprocess.run(["du", "-sx", "--block-size=1", folder], capture_output=True, check=True).stdout.split()[0])


def age(top: Path, age_s: float = A_WEEK_S) -> None:
    """All that is there, as if nobody had written anything for so long."""
    at = time.time() - age_s
    for folder, _, files in os.walk(top, topdown=False):
        for name in files:
            os.utime(os.path.join(folder, name), (at, at), follow_symlinks=False)
        os.utime(folder, (at, at))


def change_something(top: Path, chance: random.Random) -> None:
    """One of what people do to files: each changes its folder, or is new enough to be looked at."""
    folders = [Path(folder) for folder, _, _ in os.walk(top)]
    files = [Path(folder) / name for folder, _, names in os.walk(top) for name in names]
    where, deed = chance.choice(folders), chance.randrange(6)
    if deed == 0 or not files:
        put(where / f"new{chance.randrange(10**9)}", chance.randrange(1, 200_000))
    elif deed == 1:
        chance.choice(files).unlink()
    elif deed == 2:
        (where / f"folder{chance.randrange(10**9)}").mkdir()
    elif deed == 3:
        chance.choice(files).rename(where / f"moved{chance.randrange(10**9)}")
    elif deed == 4:
        new = put(where / f"new{chance.randrange(10**9)}", chance.randrange(1, 200_000))
        os.link(new, where / f"{new.name}-again")
    elif where != top:
        target = top / f"renamed{chance.randrange(10**9)}"
        where.rename(target)
