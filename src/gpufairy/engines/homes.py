"""Folders on the host that containers are given: users' homes, and what one run needs.

Users own the insides of theirs, never a folder above, so no name here can be turned into a link by a user; what could still be one
is opened without following it.
"""
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from gpufairy.core.amounts import shown
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.began_file import BEGAN, INSIDE, NEW
from gpufairy.engines.beneath import open_beneath, open_top
from gpufairy.engines.docker_facts import ImageFacts, group_text, passwd_text
from gpufairy.engines.docker_spec import Folder, Mount
from gpufairy.engines.joblog import open_log
from gpufairy.engines.run_folder import Places, write_private

READABLE = 0o644
LEAST_UID = 1000  # where Debian, Red Hat and others begin to count people


def check_uid(owner: str, uid: int) -> None:
    """Below are the host's own accounts, root first of all."""
    if uid < LEAST_UID:
        raise EngineRefused(f"user {owner} has no uid of their own (found {uid})", "Ask an admin to look at the server's log.")


def own_folder(path: Path, uid: int) -> None:
    """Made if it is not there, and given to the user if it is still ours: a server that died in between leaves that to the next."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    descriptor = open_top(path)
    try:
        _give(descriptor, uid)
    finally:
        os.close(descriptor)


def own_log(path: Path, uid: int) -> None:
    descriptor = open_log(path)
    try:
        _give(descriptor, uid)
    finally:
        os.close(descriptor)


def own_began(path: Path, uid: int) -> None:
    """What a porter kept there is left as it is."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, NEW)
        _give(descriptor, uid)
    finally:
        os.close(descriptor)


def _give(descriptor: int, uid: int) -> None:
    if os.fstat(descriptor).st_uid == os.geteuid() != uid:
        os.fchown(descriptor, uid, uid)


def prepare_run(places: Places, name: str, owner: str, *, uid: int, token: str, facts: ImageFacts) -> None:
    """All that the container of this run mounts, but for what is common to all."""
    run = places.run(name)
    inside = run / "inside"
    for folder, mode in ((run, 0o700), (inside, 0o755), (inside / "server", 0o755)):
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        folder.chmod(mode)
    write_private(inside / "token", token)
    os.chown(inside / "token", uid, uid, follow_symlinks=False)
    lists = {run / "passwd": passwd_text(facts, owner, uid), run / "group": group_text(facts, owner, uid)}
    for path, text in {inside / "log": "", inside / BEGAN: "", **lists}.items():
        write_private(path, text)
        path.chmod(READABLE)
    own_folder(places.home(owner), uid)
    own_folder(places.results(name), uid)
    own_log(places.log(name), uid)
    own_began(run / BEGAN, uid)


def run_mounts(places: Places, name: str, owner: str, *, root: bool) -> tuple[Mount, ...]:
    run = places.run(name)
    lists = () if root else (Mount(run / "passwd", "/etc/passwd"), Mount(run / "group", "/etc/group"))
    return (
        Mount(places.home(owner), f"/home/{owner}", writable=True),
        Mount(places.results(name), "/results", writable=True),
        Mount(run / "inside", "/run/fairy"),
        Mount(places.log(name), "/run/fairy/log", writable=True),
        Mount(run / BEGAN, INSIDE, writable=True),
        *lists,
    )


def folder_mounts(wanted: tuple[str, ...], folders: Mapping[str, Folder]) -> tuple[Mount, ...]:
    """What a session asked to mount, by the names that the admin gave. Raises EngineRefused."""
    made = {mount.target: mount for mount in (folder_mount(name, folders) for name in wanted)}
    return tuple(made.values())


def folder_mount(wanted: str, folders: Mapping[str, Folder]) -> Mount:
    name, *below = wanted.split("/")
    folder = folders.get(name)
    offered = f"Offered here: {', '.join(sorted(folders)) or 'none'}."
    if folder is None:
        raise EngineRefused(f"there is no folder {shown(name)} to mount", offered)
    if not below:
        return Mount(folder.path, f"/mnt/{name}", folder.writable)
    if any(part in ("", ".", "..") or not part.isprintable() or ":" in part for part in below):
        raise EngineRefused(f"{shown(wanted)} is no path in folder {name}", "Write it as NAME/PATH, without . or .. in it.")
    if folder.writable:  # whoever may write there could put a link in its place before it is mounted
        raise EngineRefused(f"folder {name} can be mounted as a whole alone, not {shown(wanted)}", f"Mount {name}.")
    check_folder_beneath(folder.path, PurePosixPath(*below), wanted)
    return Mount(folder.path.joinpath(*below), f"/mnt/{name}/{'/'.join(below)}")


HandIn = Callable[[str, str], Folder]  # of an owner, of a class: what a session of theirs is given. Raises EngineRefused


def no_hand_in(_owner: str, name: str) -> Folder:
    raise EngineRefused(f"there is no class {shown(name)} here", "Leave that mount out.")


def hand_in_mount(wanted: str, folder: Folder) -> Mount:
    """Of a class. A link in its place is refused, as is one that is missing."""
    if not stat.S_ISDIR(_kind_of(folder.path)):
        raise EngineRefused(f"{shown(wanted)} cannot be mounted: it is no folder", "Ask your teacher.")
    return Mount(folder.path, f"/mnt/{wanted}", folder.writable)


def _kind_of(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def check_folder_beneath(above: Path, below: PurePosixPath, wanted: str) -> None:
    """Whether it is a folder in there, and no link on the way."""
    try:
        top = open_top(above)
        try:
            os.close(open_beneath(top, str(below)))
        finally:
            os.close(top)
    except OSError as error:
        found = "a link on the way" if error.errno in (errno.ELOOP, errno.EXDEV) else os.strerror(error.errno or 0).lower()
        next_step = "Mount a folder that is there, by its real path."
        raise EngineRefused(f"folder {shown(wanted)} cannot be mounted: {found}", next_step) from error
