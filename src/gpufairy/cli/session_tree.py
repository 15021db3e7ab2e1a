"""The text of a session file as a small tree, within limits of size and depth. What the fields mean is session_file.py's business.

Scalars stay as they were typed (`gpus: 0.5` is the text 0.5, `no` is the text no): the server alone parses amounts.
"""
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, NoReturn, TypeAlias

import yaml

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

LARGEST_BYTES = 2**20  # a session file of more is something else
DEEPEST = 32
LONGEST_TOML_LINE = 16 * 1024  # characters; with the next, since tomllib's time grows with the square of a key's length
DEEP_TOML_KEY = re.compile(r"(?:[\w\"'-]{1,64}[ \t]{0,4}\.[ \t]{0,4}){33}")

# libyaml is ten times as fast as the pure reader, where the wheel has it.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?")
NOTHING = ("", "~", "null", "Null", "NULL")
ORDINARY_TAGS = (None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "seq", "map")))


@dataclass(frozen=True, slots=True)
class Place:
    file: str
    line: int | None = None  # TOML's reader does not tell

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Scalar:
    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class List:
    place: Place
    items: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Map:
    place: Place
    entries: tuple[tuple[Scalar, "Tree"], ...]


Tree: TypeAlias = Scalar | List | Map


def read_trees(data: bytes, file: str, *, toml: bool) -> list[Tree]:
    """Every document of the file; TOML has one. Raises BadInput, whatever the bytes."""
    if len(data) > LARGEST_BYTES:
        raise BadInput(f"{file} is larger than {LARGEST_BYTES // 1024} KiB", "A session file is a few lines; put data elsewhere.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text (byte {error.start})", "Save it as UTF-8.") from None
    return [_read_toml(text, file)] if toml else list(_read_yaml(text, file))


def _read_yaml(text: str, file: str) -> Iterator[Tree]:
    try:
        yield from _Documents(file).trees(yaml.parse(text, Loader=Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, None if mark is None else mark.line + 1)
        raise BadInput(f"{place}: this is no YAML: {shown(error.problem or 'unreadable')}", "Mind indents, colons and quotes.") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{file}: this is no YAML: {shown(str(error))}", "Take out characters that cannot be printed.") from None


class _Documents:
    """Builds trees from YAML events, so that depth is known before anything is built, and nothing is ever constructed by tag."""

    def __init__(self, file: str) -> None:
        self._file = file

    def trees(self, events: Iterator[Any]) -> Iterator[Tree]:
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                tree = self._tree(event, events, 1)
                if not isinstance(tree, Scalar) or tree.text:  # an empty document, as after a last `---`
                    yield tree

    def _tree(self, event: Any, events: Iterator[Any], depth: int) -> Tree:
        place = Place(self._file, event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            refuse(place, "uses an anchor (&) or alias (*)", "Write the value out where it is needed, or quote it if it is text.")
        if event.tag not in ORDINARY_TAGS:
            refuse(place, f"uses the tag {shown(event.tag)}", "Leave the tag out; quote the value if it is text.")
        if depth > DEEPEST:
            refuse(place, f"is nested deeper than {DEEPEST}", "A session file needs three levels.")
        if isinstance(event, yaml.ScalarEvent):
            unquoted = not event.style
            if unquoted and DATE.fullmatch(event.value):
                refuse(place, f"has the date {shown(event.value)}", "Quote it if it is meant as text.")
            return Scalar(place, "" if unquoted and event.value in NOTHING else event.value)
        children = self._children(events, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return List(place, tuple(children))
        entries = []
        for key in children:
            if not isinstance(key, Scalar):
                refuse(key.place, "has a list or a mapping as a name", "A name is plain text before a colon.")
            entries.append((key, next(children)))
        return Map(place, tuple(entries))

    def _children(self, events: Iterator[Any], depth: int) -> Iterator[Tree]:
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield self._tree(event, events, depth + 1)


def _read_toml(text: str, file: str) -> Tree:
    place = Place(file)
    if any(len(line) > LONGEST_TOML_LINE for line in text.splitlines()):
        refuse(place, f"has a line of more than {LONGEST_TOML_LINE} characters", "Break it up, or put the text into a file.")
    if DEEP_TOML_KEY.search(text):
        refuse(place, f"has a name of more than {DEEPEST} parts", "A session file needs three levels.")
    try:
        # Numbers stay as typed: 0.10 is not 0.1 to someone who reads it back.
        values = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: this is no TOML: {shown(str(error), 120)}", "Texts need quotes in TOML.") from None
    except (ValueError, RecursionError):  # a date that is none; brackets without end
        raise BadInput(f"{file}: this is no TOML that can be read", "Texts need quotes; a session file needs three levels.") from None
    return _plain_tree(values, place, 1)


def _plain_tree(value: object, place: Place, depth: int) -> Tree:
    if depth > DEEPEST:
        refuse(place, f"is nested deeper than {DEEPEST}", "A session file needs three levels.")
    if isinstance(value, dict):
        return Map(place, tuple((Scalar(place, name), _plain_tree(item, place, depth + 1)) for name, item in value.items()))
    if isinstance(value, list):
        return List(place, tuple(_plain_tree(item, place, depth + 1) for item in value))
    if isinstance(value, date | datetime | time):
        refuse(place, f"has the date or time {value}", "Quote it if it is meant as text.")
    return Scalar(place, str(value).lower() if isinstance(value, bool) else str(value))


def refuse(place: Place, what: str, next_step: str) -> NoReturn:
    raise BadInput(f"{place}: {what}", next_step)
