"""Session files: what `fairy apply` takes, as bodies for the server. Errors name the file and the line."""
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from gpufairy.cli.session_tree import List, Map, Scalar, Tree, read_trees, refuse
from gpufairy.client.protocol import Record
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

MOST_SESSIONS = 1000  # in one file: more are better submitted with `count`
LONGEST_INT = 18  # digits: what 64 bits hold


def read_sessions(data: bytes, file: str, *, toml: bool) -> list[Record]:
    """The body of each session asked for: one a document, or those of a `sessions` list. Raises BadInput, whatever the bytes."""
    bodies = [_body(part) for tree in read_trees(data, file, toml=toml) for part in _parts(tree)]
    if not bodies:
        raise BadInput(f"{file} asks for no session", "Write at least `command: [python, train.py]`.")
    if len(bodies) > MOST_SESSIONS:
        raise BadInput(f"{file} asks for {len(bodies)} sessions, more than {MOST_SESSIONS}", "Use `count`, or several files.")
    return _in_order(bodies, file)


def _in_order(bodies: list[Record], file: str) -> list[Record]:
    """As they are written, but each after those of the same file that it waits for. Raises BadInput where some wait for each other."""
    named = {body["name"]: body for body in bodies if body.get("name")}
    order: dict[int, Record] = {}
    for body in bodies:
        _put_in_order(body, named, order, file)
    return list(order.values())


def _put_in_order(body: Record, named: dict[str, Record], order: dict[int, Record], file: str) -> None:
    """Without calling itself: those who wait for each other may be as many as the file asks for."""
    waiting = {id(body): (body, _awaited(body, named))} if id(body) not in order else {}  # the last waits for nobody who is in it
    while waiting:
        key, (one, others) = next(reversed(waiting.items()))
        other = next(others, None)
        if other is None:
            order[key] = one
            del waiting[key]
        elif id(other) in waiting:
            names = [str(each["name"]) for each, _ in waiting.values() if each.get("name")]
            circle = " waits for ".join([*names[names.index(other["name"]) :], other["name"]])
            raise BadInput(f"{file}: {circle}, so none of them could ever start", "Take one of their `after` out.")
        elif id(other) not in order:
            waiting[id(other)] = (other, _awaited(other, named))


def _awaited(body: Record, named: dict[str, Record]) -> Iterator[Record]:
    return (named[other] for other in body.get("after") or () if other in named)


def _parts(tree: Tree) -> tuple[Tree, ...]:
    names = [name.text for name, _ in _entries(tree, "session")]
    if "sessions" not in names:
        return (tree,)
    if len(names) > 1:
        refuse(tree.place, "has other fields beside `sessions`", "Put them into each session of the list.")
    [(_, sessions)] = _entries(tree, "session")
    if not isinstance(sessions, List):
        refuse(sessions.place, "`sessions` is no list", "Begin each session with `- `.")
    return sessions.items


def _body(tree: Tree) -> Record:
    body: Record = {}
    for name, value in _entries(tree, "session"):
        if name.text not in FIELDS:
            near = get_close_matches(name.text.replace("-", "_"), FIELDS, 1)
            known = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(FIELDS)}."
            refuse(name.place, f"there is no field {shown(name.text)}", known)
        body[name.text] = FIELDS[name.text](value, name.text)
    return {"kind": "batch" if "command" in body else "interactive", **body}


def _entries(tree: Tree, what: str) -> tuple[tuple[Scalar, Tree], ...]:
    if not isinstance(tree, Map):
        refuse(tree.place, f"a {what} is written as `name: value` lines, found {_kind_of(tree)}", "See the example in `fairy apply -h`.")
    seen: set[str] = set()
    for name, _ in tree.entries:
        if name.text in seen:
            refuse(name.place, f"{shown(name.text)} is there twice", "Keep one of them.")
        seen.add(name.text)
    return tree.entries


def _text(tree: Tree, name: str) -> str:
    if not isinstance(tree, Scalar):
        refuse(tree.place, f"`{name}` is one value, found {_kind_of(tree)}", "Write `name: value`.")
    if not tree.text:
        refuse(tree.place, f"`{name}` has no value", 'Give it one, or leave the line out; "" is no value either.')
    return tree.text


def _number(tree: Tree, name: str) -> int:
    text = _text(tree, name)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_INT):
        refuse(tree.place, f"`{name}` is {shown(text)}, which is no whole number", "Write a number such as 2.")
    return int(text)


def _priority(tree: Tree, name: str) -> int | str:
    """high, normal, low, or a number: the server reads the words."""
    text = _text(tree, name)
    return text if text.isalpha() else _number(tree, name)


def _flag(tree: Tree, name: str) -> bool:
    text = _text(tree, name).lower()
    if text not in ("true", "false", "yes", "no"):
        refuse(tree.place, f"`{name}` is {shown(text)}", "Write true or false.")
    return text in ("true", "yes")


def _texts(tree: Tree, name: str) -> list[str]:
    return [_text(item, name) for item in _items(tree, name)]


def _numbers(tree: Tree, name: str) -> list[int]:
    return [_number(item, name) for item in _items(tree, name)]


def _items(tree: Tree, name: str) -> tuple[Tree, ...]:
    if not isinstance(tree, List):
        refuse(tree.place, f"`{name}` is a list, found {_kind_of(tree)}", f"Write `{name}: [one, two]`.")
    return tree.items


def _command(tree: Tree, name: str) -> str | list[str]:
    """A list runs as it is; one line of text is for a shell, as the server has it."""
    if isinstance(tree, Scalar):
        return _text(tree, name)
    if not _items(tree, name):
        refuse(tree.place, "`command` is empty", "Write `command: [python, train.py]`, or leave it out for an interactive session.")
    return [item.text if isinstance(item, Scalar) else _text(item, name) for item in _items(tree, name)]


def _env(tree: Tree, name: str) -> dict[str, str]:
    entries = _entries(tree, "list of variables")
    return {key.text: value.text if isinstance(value, Scalar) else _text(value, f"{name}.{key.text}") for key, value in entries}


def _kind_of(tree: Tree) -> str:
    return {Scalar: "one value", List: "a list", Map: "a mapping"}[type(tree)]


FIELDS: dict[str, Callable[[Tree, str], Any]] = {
    **dict.fromkeys(("kind", "name", "gpus", "gpu_kind", "gpu_memory", "cpus", "memory", "image"), _text),
    "command": _command,
    "time": _text,
    "env": _env,
    "mounts": _texts,
    "ports": _numbers,
    **dict.fromkeys(("preset", "team", "pool", "workdir"), _text),
    "priority": _priority,
    "after": _texts,
    "retry": _number,
    "count": _number,
    "together": _flag,
    "preemptible": _flag,
}
