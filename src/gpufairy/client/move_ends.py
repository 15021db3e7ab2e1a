"""The two ends of a move: a server, or a folder that holds what one had."""
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from gpufairy import __version__
from gpufairy.client.connection import find
from gpufairy.client.errors import Problem
from gpufairy.client.move_home import Home
from gpufairy.client.moving import MoveCalls
from gpufairy.client.protocol import Record
from gpufairy.client.sync import Fairy
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.core.move_plan import Household, Step
from gpufairy.core.names import user_name
from gpufairy.engines import home_files

FORMAT = 1
MANIFEST, PEOPLE = "manifest.json", "people.json"
NOT_FOUND, NOT_UNDERSTOOD = 404, 400


class End(Protocol):
    name: str

    def household(self) -> Household: ...
    def add(self, step: Step) -> None: ...  # raises Problem: it cannot be
    def pages(self, what: str) -> Iterator[list[Record]]: ...  # "past" or "readings"
    def put(self, what: str, items: Sequence[Record]) -> int: ...  # how many were new
    def home(self, user: str) -> Home: ...
    def images(self) -> list[Record]: ...
    def live(self) -> int: ...  # sessions that run or wait
    def close(self) -> None: ...


def end_of(text: str, env: Mapping[str, str], *, is_source: bool) -> End:
    """A URL is a server that one is signed in to; anything else a folder. Raises NotSignedIn, BadInput."""
    if text.startswith(("http://", "https://")):
        found = find(text, None, env)
        return ServerEnd(found.url, found.token)
    return FolderEnd(Path(text), is_source=is_source)


class ServerEnd:
    def __init__(self, url: str, token: str) -> None:
        self.name = url
        self._fairy, self._calls = Fairy(url, token), MoveCalls(url, token)

    def household(self) -> Household:
        users = self._fairy.users()
        keys = [key for user in users for key in self._fairy.keys(user["name"])]
        return Household(users, keys, self._fairy.teams(), self._fairy.quotas())

    def add(self, step: Step) -> None:
        record = step.record
        if step.what == "team":
            self._fairy.add_team(record["name"], record["share"])
        elif step.what == "key":
            self._fairy.add_key({"key": f"{record['key']}", "user": record["user"]})
        elif step.what == "quota":
            told = {name: record.get(name) for name in ("of", "gpus", "gpu_hours", "sessions", "gpu_kind")}
            told["disk"] = record.get("disk_bytes")
            self._fairy.set_quota({name: value for name, value in told.items() if value is not None})
        else:
            self._add_user(record)

    def _add_user(self, record: Mapping[str, Any]) -> None:
        told = {name: record[name] for name in ("name", "role", "team") if record.get(name) is not None}
        self._fairy.add_user(told)
        if record.get("share", 1) != 1 or record.get("disabled"):
            self._fairy.change_user(record["name"], {"share": record.get("share", 1), "disabled": bool(record.get("disabled"))})

    def pages(self, what: str) -> Iterator[list[Record]]:
        after: int | None = 0
        while after is not None:
            page = self._calls.page(what, after)
            yield page["items"]
            after = page["next"]

    def put(self, what: str, items: Sequence[Record]) -> int:
        return self._calls.put(what, items)

    def home(self, user: str) -> Home:
        return ServerHome(self._calls, user)

    def images(self) -> list[Record]:
        try:
            return list(self._fairy.images())
        except Problem as problem:
            if problem.status not in (NOT_FOUND, NOT_UNDERSTOOD):  # where sessions are processes there are none
                raise
            return []

    def live(self) -> int:
        return sum(1 for _ in self._fairy.sessions(all_users=True))

    def close(self) -> None:
        self._calls.close()
        self._fairy.close()


class ServerHome:
    def __init__(self, calls: MoveCalls, user: str) -> None:
        self._calls, self._user = calls, user

    def lines(self) -> Iterable[Record]:
        return self._calls.files(self._user)

    def hashes(self, paths: Sequence[str]) -> Iterable[Record]:
        found: Iterable[Record] = self._calls.hashes(self._user, paths)
        return found

    def read(self, wanted: Sequence[Record]) -> Iterator[tuple[Record, bytes]]:
        rest = bytearray()
        for chunk in self._calls.read(self._user, wanted):
            rest += chunk
            while (taken := taken_frame(rest)) is not None:
                yield taken

    def write(self, frames: bytes) -> Iterable[Record]:
        found: Iterable[Record] = self._calls.write(self._user, frames)
        return found


def taken_frame(rest: bytearray) -> tuple[Record, bytes] | None:
    """The first whole one, taken away; None: more must come."""
    end = rest.find(b"\n")
    if end < 0:
        return None
    told = json.loads(rest[:end])
    whole = end + 1 + int(told.get("length", 0))
    if len(rest) < whole:
        return None
    content = bytes(rest[end + 1 : whole])
    del rest[:whole]
    return told, content


class FolderEnd:
    """manifest.json, people.json, past.jsonl, readings.jsonl, and homes/USER as they are."""

    def __init__(self, folder: Path, *, is_source: bool) -> None:
        self.name, self._folder = str(folder), folder
        if is_source:
            self._check()
        self._known: dict[str, set[str]] = {}

    def _check(self) -> None:
        try:
            told = json.loads((self._folder / MANIFEST).read_text())
        except (OSError, ValueError) as error:
            raise NoSuchThing(f"{self._folder} holds no move: {error}", "Name the folder that `fairy move URL FOLDER` made.") from None
        if told.get("format") != FORMAT:
            raise BadInput(f"{self._folder} is of format {told.get('format')}, not {FORMAT}", "Use the gpufairy that made it.")

    def _begin(self) -> None:
        """Keys, and the variables of sessions, are in it: for its owner alone."""
        if not (self._folder / MANIFEST).exists():
            (self._folder / "homes").mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            self._write(MANIFEST, {"format": FORMAT, "version": __version__})

    def _write(self, name: str, told: Any) -> None:
        beside = self._folder / f".{name}.new"
        beside.write_text(json.dumps(told, indent=1))
        beside.replace(self._folder / name)

    def household(self) -> Household:
        try:
            return Household(**json.loads((self._folder / PEOPLE).read_text()))
        except FileNotFoundError:
            return Household()

    def add(self, step: Step) -> None:
        self._begin()
        told = asdict(self.household())
        told[f"{step.what}s"] = [*told[f"{step.what}s"], dict(step.record)]
        self._write(PEOPLE, told)

    def pages(self, what: str) -> Iterator[list[Record]]:
        path = self._folder / f"{what}.jsonl"
        if path.exists():
            with path.open() as lines:
                for line in lines:
                    yield json.loads(line)

    def put(self, what: str, items: Sequence[Record]) -> int:
        """A page a line; of what was put there before, nothing again."""
        self._begin()
        if what not in self._known:
            self._known[what] = {json.dumps(item, sort_keys=True) for page in self.pages(what) for item in page}
        new = {text: item for item in items if (text := json.dumps(item, sort_keys=True)) not in self._known[what]}
        if new:
            with (self._folder / f"{what}.jsonl").open("a") as file:
                file.write(json.dumps(list(new.values())) + "\n")
            self._known[what] |= new.keys()
        return len(new)

    def home(self, user: str) -> Home:
        return FolderHome(self._folder / "homes" / user_name(user))

    def images(self) -> list[Record]:
        return []

    def live(self) -> int:
        return 0

    def close(self) -> None:
        pass


class FolderHome:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lines(self) -> Iterable[Record]:
        if not self._folder.exists():
            yield {"done": True, "others": 0}
            return
        with self._root() as root:
            yield from home_files.listed(root)

    @contextmanager
    def _root(self) -> Iterator[int]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = os.open(self._folder, home_files.FOLDER)
        try:
            yield root
        finally:
            os.close(root)

    def hashes(self, paths: Sequence[str]) -> Iterable[Record]:
        with self._root() as root:
            yield from home_files.hashed(root, [{"path": path} for path in paths])

    def read(self, wanted: Sequence[Record]) -> Iterator[tuple[Record, bytes]]:
        with self._root() as root:
            yield from home_files.read_out(root, wanted)

    def write(self, frames: bytes) -> Iterable[Record]:
        with self._root() as root:
            yield from home_files.written(root, frames_of(frames))


def frames_of(body: bytes) -> Iterator[tuple[Record, bytes]]:
    rest = bytearray(body)
    while (taken := taken_frame(rest)) is not None:
        yield taken
