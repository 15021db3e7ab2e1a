"""What must be sent to make one home like another: told by kind, size and time, and by content where these leave a doubt."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

CLOSE_NS = 1_000  # not every file system keeps nanoseconds


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class FileSeen:
    path: str  # below the home
    kind: FileKind
    size_bytes: int = 0
    mtime_ns: int = 0
    mode: int = 0o644
    target: str = ""  # of a link


@dataclass(frozen=True, slots=True)
class Difference:
    make: tuple[FileSeen, ...] = ()  # folders and links, a folder before what is in it
    send: tuple[FileSeen, ...] = ()
    doubt: tuple[FileSeen, ...] = ()  # as long as the other, of another time: only the content tells
    newer: tuple[str, ...] = ()  # somebody worked on it at the target since: it is left alone
    blocked: tuple[str, ...] = ()  # something of another kind is there
    same: int = 0

    @property
    def send_bytes(self) -> int:
        return sum(file.size_bytes for file in self.send)


def compare(source: Iterable[FileSeen], target: Mapping[str, FileSeen]) -> Difference:
    """Nothing is ever removed at the target."""
    found: dict[str, list[FileSeen]] = {word: [] for word in ("make", "send", "doubt", "newer", "blocked", "same")}
    for file in sorted(source, key=lambda one: one.path):
        found[word_of(file, target.get(file.path))].append(file)
    return Difference(
        tuple(found["make"]), tuple(found["send"]), tuple(found["doubt"]),
        tuple(file.path for file in found["newer"]), tuple(file.path for file in found["blocked"]), len(found["same"]),
    )  # fmt: skip


def word_of(file: FileSeen, there: FileSeen | None) -> str:
    if there is None:
        return "send" if file.kind is FileKind.FILE else "make"
    if there.kind is not file.kind:
        return "blocked"
    if file.kind is FileKind.FOLDER:
        return "same"
    if file.kind is FileKind.LINK:
        return "same" if there.target == file.target else "newer" if there.mtime_ns > file.mtime_ns else "make"
    if there.size_bytes == file.size_bytes:
        return "same" if abs(there.mtime_ns - file.mtime_ns) < CLOSE_NS else "doubt"
    return "newer" if there.mtime_ns > file.mtime_ns else "send"
