"""One home made like another: what differs is sent, piece by piece, and looked at again by its content when it has come."""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpufairy.client.protocol import Record
from gpufairy.core.home_compare import Difference, FileKind, FileSeen, compare
from gpufairy.engines.home_files import PIECE_BYTES, frame, part_name

BODY_BYTES = 2**20 - PIECE_BYTES // 2  # of one request: a piece and its line always fit
BATCH_FILES, BATCH_BYTES = 500, 256 * 2**20  # sent, then looked at again


@dataclass(slots=True)
class HomeSeen:
    files: dict[str, FileSeen] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)  # of files that are not whole yet: how much has come
    others: int = 0  # sockets and their like
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HomeDone:
    user: str
    sent: int = 0
    sent_bytes: int = 0
    same: int = 0
    others: int = 0
    newer: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # what did not come, and why


class Home(Protocol):
    """Where files are: at a server, or in a folder here."""

    def lines(self) -> Iterable[Record]: ...
    def hashes(self, paths: Sequence[str]) -> Iterable[Record]: ...
    def read(self, wanted: Sequence[Record]) -> Iterator[tuple[Record, bytes]]: ...
    def write(self, frames: bytes) -> Iterable[Record]: ...


def seen_of(lines: Iterable[Record]) -> HomeSeen:
    found, whole = HomeSeen(), False
    for line in lines:
        if line.get("done"):
            whole, found.others = True, int(line.get("others", 0))
        elif "error" in line:
            found.errors[str(line["path"])] = str(line["error"])
        elif "part" in line:
            found.parts[str(line["part"])] = int(line["size"])
        else:
            file = file_of(line)
            found.files[file.path] = file
    if not whole:
        found.errors["."] = "the list of files broke off"
    return found


def file_of(line: Record) -> FileSeen:
    return FileSeen(
        str(line["path"]), FileKind(line["kind"]), int(line["size"]), int(line["mtime_ns"]), int(line["mode"]), str(line.get("target", "")),
    )  # fmt: skip


def looked_at(user: str, source: HomeSeen, target: HomeSeen) -> tuple[Difference, HomeDone]:
    found = compare(source.files.values(), target.files)
    done = HomeDone(user, same=found.same, others=source.others, newer=list(found.newer), left=dict(source.errors))
    done.left.update(dict.fromkeys(found.blocked, "something of another kind has its name at the target"))
    if "." in target.errors:
        done.left["."] = f"at the target: {target.errors['.']}"
    return found, done


def move_home(user: str, source: Home, target: Home) -> HomeDone:
    """Killed anywhere and begun again, it goes on."""
    there = seen_of(target.lines())
    found, done = looked_at(user, seen_of(source.lines()), there)
    put_all(target, [frame(made_line(file)) for file in found.make], done)
    send = [*found.send, *settled(source, target, found.doubt, there.files, done)]
    for batch in batches(send):
        send_batch(source, target, batch, there.parts, done)
        check(source, target, batch, done)
    return done


def made_line(file: FileSeen) -> Record:
    return {"path": file.path, "kind": file.kind.value, "mode": file.mode, "target": file.target}


def settled(
    source: Home, target: Home, doubt: Sequence[FileSeen], there: Mapping[str, FileSeen], done: HomeDone
) -> list[FileSeen]:
    """Of those as long as the others: the ones with another content. The rest is given its time, and so known at once next time."""
    send: list[FileSeen] = []
    for batch in batches(doubt):
        other = different(source, target, batch)
        alike = [file for file in batch if file.path not in other]
        done.same += len(alike)
        put_all(target, [frame({"path": file.path, "kind": "time", "mtime_ns": file.mtime_ns}) for file in alike], done)
        for file in (file for file in batch if file.path in other):
            if there[file.path].mtime_ns > file.mtime_ns:
                done.newer.append(file.path)
            else:
                send.append(file)
    return send


def send_batch(source: Home, target: Home, batch: Sequence[FileSeen], parts: Mapping[str, int], done: HomeDone) -> None:
    wanted = [{"path": file.path, "offset": come_so_far(file, parts)} for file in batch]
    body = b""
    for told, content in source.read(wanted):
        if "done" in told:
            continue
        if "error" in told:
            done.left[str(told["path"])] = str(told["error"])
            continue
        piece = frame(told, content)
        if body and len(body) + len(piece) > BODY_BYTES:
            put(target, body, done)
            body = b""
        body += piece
        done.sent_bytes += len(content)
        done.sent += bool(told["last"])
    if body:
        put(target, body, done)


def come_so_far(file: FileSeen, parts: Mapping[str, int]) -> int:
    folder, _, _ = file.path.rpartition("/")
    name = part_name(file.path, file.size_bytes, file.mtime_ns)
    come = parts.get(f"{folder}/{name}" if folder else name, 0)
    return come if come <= file.size_bytes else 0


def put_all(target: Home, frames: Sequence[bytes], done: HomeDone) -> None:
    body = b""
    for one in frames:
        if body and len(body) + len(one) > BODY_BYTES:
            put(target, body, done)
            body = b""
        body += one
    if body:
        put(target, body, done)


def put(target: Home, body: bytes, done: HomeDone) -> None:
    for line in target.write(body):
        if "error" in line:
            done.left[str(line["path"])] = str(line["error"])


def check(source: Home, target: Home, batch: Sequence[FileSeen], done: HomeDone) -> None:
    came = [file for file in batch if file.path not in done.left]
    for path in different(source, target, came):
        done.left[path] = "it changed while it was moved, or did not come whole: move again"


def different(source: Home, target: Home, files: Sequence[FileSeen]) -> set[str]:
    if not files:
        return set()
    paths = [file.path for file in files]
    here, there = (by_path(end.hashes(paths)) for end in (source, target))
    return {path for path in paths if here.get(path) is None or here.get(path) != there.get(path)}


def by_path(lines: Iterable[Record]) -> dict[str, Any]:
    return {str(line["path"]): line.get("sha256") for line in lines if "path" in line}


def batches(files: Sequence[FileSeen]) -> Iterator[list[FileSeen]]:
    batch: list[FileSeen] = []
    size = 0
    for file in files:
        if batch and (len(batch) >= BATCH_FILES or size + file.size_bytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size_bytes
    if batch:
        yield batch
