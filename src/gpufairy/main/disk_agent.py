"""Disk use of a host that an agent watches: which folders, the program that walks through them, and where what was found waits."""
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.core.disk_due import WalkPace
from gpufairy.engines.build_native import build_disk_walk
from gpufairy.main.collect import HOST_ROOT
from gpufairy.node.accounts import Accounts
from gpufairy.node.aside import Aside
from gpufairy.node.disk_places import HostFolders, host_folders
from gpufairy.node.disk_untold import Untold
from gpufairy.node.disk_walk import DiskWalker
from gpufairy.node.disk_watch import DiskWatch

DiskFolders = Annotated[
    list[str] | None,
    typer.Option("--disk", metavar="FOLDER", help="Tell whose files fill it. Else /home, if on an own disk; none: not. May be repeated."),
]
WAIT_S = 0.2  # for a disk to say whether a folder is there


def wanted_folders(node: str, wanted: Sequence[str]) -> HostFolders:
    root = (os.environ.get(HOST_ROOT) or "").rstrip("/")
    aside: Aside[str, bool] = Aside(os.path.isdir, "folder")
    # A disk that gives no answer is no missing folder: the walk says that it hangs.
    return replace(host_folders(node, wanted, root), is_folder=lambda path: aside.answers([path], WAIT_S).get(path, True))


def make_disk_watch(folders: HostFolders, data: Path) -> DiskWatch:
    pace, kept = WalkPace(), data / "disk"
    walker = DiskWalker(lambda: build_disk_walk(data / "tools"), kept, pace)
    accounts = Accounts(Path(folders.root or "/"))
    return DiskWatch(folders, walker.walk, Untold(kept / "untold"), accounts.name, kept / "walked.json", pace=pace)
