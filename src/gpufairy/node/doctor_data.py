"""What the doctor finds of the data folder: room, rights, keys, the database, the share library."""
import contextlib
import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpufairy.core.doctor_facts import Base, DataFacts
from gpufairy.engines.build_native import shipped_parts
from gpufairy.engines.project_quota import kernel_counts
from gpufairy.node.doctor_ask import said
from gpufairy.node.host_files import read_text

CHECK_S = 5.0  # for a look through the database: some GiB
STEPS = 50_000  # of SQLite's machine between two looks at the clock
SECRETS = ("ssh/host_ed25519", "ssh/host_rsa", "ssh/gateway.token", "fairy.db", "server.toml", "node/agent.key")
LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
LIBRARY = "libfairyshare.so"


def data_facts(folder: Path, *, store: str, config_folder: Path) -> DataFacts:
    """`store`: as the settings name it; empty: SQLite in the folder."""
    found = DataFacts(
        folder=str(folder),
        there=folder.is_dir(),
        parent_writable=os.access(existing(folder), os.W_OK | os.X_OK),
        open_files=tuple(open_to_others([*(folder / name for name in SECRETS), config_folder / "config.toml"])),
        compiler=any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    )
    found = on_disk(found, existing(folder))
    loads, trouble = share_library(folder)
    base, words = (Base.ELSEWHERE, "") if store else database(folder / "fairy.db")
    found = replace(found, share_library=loads, share_trouble=trouble, base=base, base_words=words)
    if not found.there:
        return found
    seen = folder.stat()
    keys = sum((folder / name).exists() for name in SECRETS[:2])
    return replace(found, owner=seen.st_uid, mode=stat.S_IMODE(seen.st_mode), host_keys=keys)


def existing(path: Path) -> Path:
    """It, or the nearest above it that there is."""
    return next(one for one in (path, *path.parents) if one.exists())


def on_disk(found: DataFacts, path: Path) -> DataFacts:
    seen = os.statvfs(path)
    kind, point, options = mount_of(path, read_text("/proc/self/mounts"))
    return replace(
        found, free_bytes=seen.f_bavail * seen.f_frsize, total_bytes=seen.f_blocks * seen.f_frsize, free_inodes=seen.f_favail,
        total_inodes=seen.f_files, file_system=kind, kernel_quotas=kernel_counts(kind), mount_point=point, mount_options=options,
    )  # fmt: skip


def mount_of(path: Path, mounts: str) -> tuple[str, str, frozenset[str]]:
    """Kind, place and options of the file system that it lies on: the longest place that leads to it, and of several the last."""
    best = ("", "", frozenset[str]())
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        place = words[1].replace("\\040", " ")
        if path.is_relative_to(place) and len(place) >= len(best[1]):
            best = (words[2], place, frozenset(words[3].split(",")))
    return best


def open_to_others(paths: Iterable[Path]) -> Iterable[str]:
    """Those of ours that others may read; of others' files we say nothing."""
    for path in paths:
        try:
            seen = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o007 and seen.st_uid == os.geteuid() and others_reach(path.parent):
            yield str(path)


def others_reach(folder: Path) -> bool:
    """A file in a folder that is shut is read by nobody."""
    return all(os.stat(one).st_mode & 0o001 for one in (folder, *folder.parents))


def database(path: Path) -> tuple[Base | None, str]:
    """Read beside a server that writes: nothing is locked, and what takes too long is given up."""
    if not path.exists():
        return Base.ABSENT, ""
    until_s = time.monotonic() + CHECK_S
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as base:
            base.set_progress_handler(lambda: time.monotonic() > until_s, STEPS)
            rows = [str(row[0]) for row in base.execute("pragma quick_check(3)")]
    except sqlite3.DatabaseError as error:
        return trouble_of(str(error))
    return (Base.SOUND, "") if rows == ["ok"] else (Base.DAMAGED, "; ".join(rows)[:300])


def trouble_of(words: str) -> tuple[Base, str]:
    if "interrupted" in words:
        return Base.SLOW, ""
    return (Base.UNREADABLE if "open" in words or "locked" in words else Base.DAMAGED), words


def share_library(folder: Path) -> tuple[bool | None, str]:
    """Loaded by a process of its own: a library that breaks its host breaks that one. None: it is not made yet."""
    shipped = shipped_parts()
    made = sorted(folder.glob(f"tools/native-*/{LIBRARY}"), key=lambda path: path.stat().st_mtime, reverse=True)
    path = shipped / LIBRARY if shipped is not None else next(iter(made), None)
    if path is None:
        return None, ""
    answer = said(sys.executable, "-I", "-c", LOAD, str(path))
    if answer is None:
        return None, ""
    return answer.code == 0, (answer.err.strip().splitlines() or [f"code {answer.code}"])[-1][:200]
