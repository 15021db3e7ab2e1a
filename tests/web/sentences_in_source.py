"""The sentences that errors, refusals and deeds are made of, found in the source. What changes in one stands in braces.

A name is looked up where it was given: in its function, its module, or the module it came from. What is passed on from another error is
not said twice; what cannot be read at all is told, so that it is written in a way that can.
"""
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from pathlib import Path

from gpufairy.core import errors

SRC = Path(errors.__file__).parents[2]
ERRORS = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, errors.FairyError)}
# Whose texts pages show: by the name of what is called, which of what it is given are sentences.
SAYING = {**dict.fromkeys(ERRORS - {"FairyError", "IllegalStep"}, (0, 1)), "DaemonRefused": (0, 1), "Refusal": (1,), "note": (4,)}
MOST_WAYS = 64  # in which one sentence can come out
HOLE = "{}"


@dataclass(frozen=True)
class Said:
    where: str
    text: str | None  # None: it cannot be read


def all_said(folders: tuple[str, ...]) -> Iterator[Said]:
    for folder in folders:
        for file in sorted((SRC / "gpufairy" / folder).rglob("*.py")):
            yield from said_in(file)


def said_in(file: Path) -> Iterator[Said]:
    text = file.read_text()
    if not any(f"{name}(" in text for name in SAYING):  # most say nothing, and reading one takes a while
        return
    source = read(file)
    for call, function in calls(source.tree, None):
        name = called(call)
        for place in SAYING.get(name, ()):
            if place < len(call.args) and not isinstance(call.args[place], ast.Starred):
                texts = source.texts(call.args[place], function)
                where = f"{file.relative_to(SRC / 'gpufairy')}:{call.lineno}"
                if texts is None:
                    yield Said(f"{where} {ast.unparse(call.args[place])}", None)
                for text in texts or []:
                    yield Said(where, text)


def returned_in(file: Path) -> Iterator[Said]:
    """Of a module of words: whatever its functions return as text."""
    source = read(file)
    for function in source.functions.values():
        for node in ast.walk(function) if function.returns is not None and "str" in ast.unparse(function.returns) else ():
            if isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                for text in [text for part in parts for text in source.texts(part, function) or []]:
                    yield Said(f"{file.relative_to(SRC / 'gpufairy')}:{node.lineno}", text)


def calls(tree: ast.AST, function: ast.AST | None) -> Iterator[tuple[ast.Call, ast.AST | None]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Call):
            yield child, function
        inside = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from calls(child, inside)


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


class Source:
    def __init__(self, file: Path) -> None:
        self.tree = ast.parse(file.read_text())
        self._being_read: set[int] = set()
        self._made: dict[str, list[str] | None] = {}
        self.constants = {
            target.id: node.value for node in self.tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
        }
        self.functions = {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in self.tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
        }  # fmt: skip

    def texts(self, node: ast.expr, function: ast.AST | None) -> list[str] | None:
        """Every way it can come out. Empty: it is another's words, passed on. None: it cannot be read."""
        if id(node) in self._being_read:  # a name that is made of itself
            return []
        self._being_read.add(id(node))
        try:
            return self._texts(node, function)
        finally:
            self._being_read.discard(id(node))

    def _texts(self, node: ast.expr, function: ast.AST | None) -> list[str] | None:
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=values):
                ways = product(*(self.piece(value, function) for value in values))
                return joined(["".join(piece) for piece in islice(ways, MOST_WAYS)])
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return together(self.texts(left, function), self.texts(right, function))
            case ast.IfExp(body=body, orelse=orelse):
                return either(self.texts(body, function), self.texts(orelse, function))
            case ast.BoolOp(values=values):
                return either(*(self.texts(value, function) for value in values))
            case ast.Attribute() | ast.Subscript():
                return []
            case ast.Name(id=name):
                return self.named(name, function)
            case ast.Call():
                return self.made(node, function)
        return None

    def piece(self, value: ast.expr, function: ast.AST | None) -> list[str]:
        if isinstance(value, ast.Constant):
            return [str(value.value)]
        assert isinstance(value, ast.FormattedValue)
        inner = value.value
        if isinstance(inner, ast.Call) and called(inner) == "nearest":
            return [""]  # ` (did you mean …?)` is told apart from the sentence it stands in
        if isinstance(inner, ast.Call) and called(inner).startswith("show"):
            return [HOLE]  # an amount, and what was typed
        return (self.texts(inner, function) if isinstance(inner, ast.Name | ast.IfExp | ast.Call) else None) or [HOLE]

    def named(self, name: str, function: ast.AST | None) -> list[str] | None:
        if function is not None:
            given = [value for node in ast.walk(function) for named, value in assigned(node) if named == name]
            if given:
                return either(*(self.texts(value, function) for value in given))
            if name in parameters(function):
                return []
        if name in self.constants:
            return self.texts(self.constants[name], None)
        if name in self.imported and (there := module(self.imported[name][0])) is not None:
            return there.named(self.imported[name][1], None)
        return None

    def made(self, call: ast.Call, function: ast.AST | None) -> list[str] | None:
        name = called(call)
        if name in ("str", "join", "get") or name.startswith("show"):
            return []
        if name == "nearest":
            return [""]
        if name == "strip" and isinstance(call.func, ast.Attribute):
            return self.texts(call.func.value, function)
        if name in self.functions:
            if name not in self._made:
                self._made[name] = []  # one that calls itself says nothing more
                self._made[name] = either(*(self.texts(value, self.functions[name]) for value in returned(self.functions[name])))
            return self._made[name]
        if name in self.imported and (there := module(self.imported[name][0])) is not None and self.imported[name][1] in there.functions:
            return there.made(ast.Call(ast.Name(self.imported[name][1]), [], []), None)
        return [] if isinstance(call.func, ast.Attribute) else None


def module(name: str) -> Source | None:
    file = SRC / (name.replace(".", "/") + ".py")
    return read(file) if name.startswith("gpufairy") and file.exists() else None


@cache
def read(file: Path) -> Source:
    return Source(file)


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.NamedExpr) else []
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from ((one.id, value) for one, value in zip(target.elts, node.value.elts, strict=False) if isinstance(one, ast.Name))


def returned(function: ast.AST) -> list[ast.expr]:
    found = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return [value for value in found if not isinstance(value, ast.Constant) or value.value is not None]


def parameters(function: ast.AST) -> list[str]:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def joined(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))[:MOST_WAYS]


def together(left: list[str] | None, right: list[str] | None) -> list[str] | None:
    if left is None or right is None:
        return None
    return joined([first + second for first in left or [HOLE] for second in right or [HOLE]])


def either(*ways: list[str] | None) -> list[str] | None:
    return None if any(way is None for way in ways) else joined([text for way in ways for text in way or []])
