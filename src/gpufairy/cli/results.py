"""What a job left in its results folder, fetched into ./results/NAME. Nothing of ours is overwritten, nothing lands outside that folder."""
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import Name, connect, one_command
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import BadInput, NoSuchThing

ODD = re.compile(r"[^A-Za-z0-9._-]")
MOST_FOLDERS = 10_000  # NAME-2, NAME-3, …: more means that something runs in a circle


def fetch(fairy: Fairy, session: Record, into: Path, tell: Callable[[str], None]) -> Path | None:
    """The folder that was filled; None when there are no results."""
    chunks = fairy.results(session["id"])
    first = next(chunks, b"")
    if not first:
        return None
    try:
        return _unpack(_Reader(first, chunks), into, _folder_name(session["name"]), tell)
    except (OSError, tarfile.TarError, ValueError, OverflowError) as error:  # the last two: of tarfile, too, for headers of nonsense
        raise BadInput(
            f"cannot put the results of {session['name']} into {into}: {error}", f"Make room, then `fairy results {session['name']}`."
        ) from error


def _unpack(stream: "_Reader", into: Path, name: str, tell: Callable[[str], None]) -> Path | None:
    folder: Path | None = None
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if member.name in (".", "./"):  # the folder itself: it alone is no result
                continue
            folder = folder or _new_folder(into, name)
            if not member.isreg() and not member.isdir():  # the server sends no links: one that is there was put there to lead elsewhere
                tell(f"left out of the results: {member.name!r:.200} is no plain file")
                continue
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                tell(f"left out of the results: {member.name!r:.200} would be put outside of {folder}")
                continue
            _put(tar, member, folder / path)
    return folder


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """By hand: tarfile's own filters came with Python 3.11.4, and Debian 12 has 3.11.2. No link is ever made, so none is followed."""
    (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)  # None of a folder
    if content is None:
        return
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
    path.chmod(member.mode & 0o755 | 0o600)
    os.utime(path, (member.mtime, member.mtime))


def _new_folder(into: Path, name: str) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    for number in range(1, MOST_FOLDERS):
        folder = into / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{into / name} and {MOST_FOLDERS} more of that name exist")


def _folder_name(name: str) -> str:
    """The session's name as one plain part of a path, whatever the server sent."""
    return ODD.sub("_", name).lstrip(".") or "session"


class _Reader(io.RawIOBase):
    """A stream of chunks as a file, as far as tarfile needs one."""

    def __init__(self, first: bytes, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._rest, self._chunks = first, chunks

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._rest += chunk
        out, self._rest = self._rest[:size], self._rest[size:]
        return out


def _results(
    ctx: typer.Context,
    name: Name,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Where to make the folder NAME.")] = Path("results"),
    only_list: Annotated[bool, typer.Option("--list", help="Only say which files there are, and how large.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print JSON for scripts.")] = False,
) -> None:
    """Fetch what a job left in $FAIRY_RESULTS, or list it."""
    with connect(ctx) as fairy:
        session = fairy.session(name)
        if only_list or as_json:
            print_files(fairy.result_files(session["id"]), as_json)
            return
        folder = fetch(fairy, session, into, say)
    if folder is None:
        raise NoSuchThing(f"{session['name']} left no results", "A job leaves results by writing files into $FAIRY_RESULTS.")
    print(folder)


def print_files(found: Record, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for one in found["items"]:
        print(f"{show_size(one['size_bytes']):>10}  {safe(one['path'])}")
    left = found["count"] - len(found["items"])
    if left or not found["whole"]:
        say(f"and {left} more" + ("" if found["whole"] else " at least"))


results = one_command(_results, "fairy results brave-otter\nfairy results --list brave-otter")
