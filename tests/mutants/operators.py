"""Operators: the small changes that are tried, and how one of them is made in a module's syntax tree."""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SWAPPED_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What says nothing of what the code decides: annotations are not run, an assert is for the type checker.
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "format_spec", "bases"}
SKIPPED_NODES = (ast.Import, ast.ImportFrom, ast.Assert, ast.Raise, ast.Global, ast.Nonlocal)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One change of one module. Its line and its change in words name it, wherever the line may move to."""

    module: str  # as core/fit.py
    where: str  # the function or method that it is in; empty: outside any
    line: str
    change: str  # as `a < b -> a <= b`
    number: int  # of the place in the tree
    variant: int  # of those at that place
    lineno: int

    @property
    def name(self) -> tuple[str, str, str, str]:
        return self.module, self.where, self.line, self.change


@dataclass(frozen=True)
class Place:
    node: ast.AST
    where: str  # the outermost function around it
    path: tuple[str | int, ...]  # of fields and positions, from the module down


# Given a copy of a node, which it may change, what comes in its place; None: the node is left out.
Variant = Callable[[Any], ast.AST | None]


def find_mutants(file: Path, module: str) -> list[Mutant]:
    source = file.read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    members, found, names = enum_members(tree), [], Counter[tuple[str, str, str]]()
    for number, place in enumerate(walk_places(tree)):
        for variant, make in enumerate(variants_of(place.node, members)):
            made, lineno = make(copy.deepcopy(place.node)), line_number(place.node)
            change = f"{words(place.node)} -> {words(made) if made is not None else 'left out'}"
            line = lines[lineno - 1].strip()
            names[place.where, line, change] += 1
            again = names[place.where, line, change]
            told = change if again == 1 else f"{change} ({again})"
            found.append(Mutant(module, place.where, line, told, number, variant, lineno))
    return found


def mutate(source: str, mutant: Mutant) -> ast.Module:
    """The tree with the change in it; lines keep their numbers."""
    tree = ast.parse(source)
    place = next(one for number, one in enumerate(walk_places(tree)) if number == mutant.number)
    made = list(variants_of(place.node, enum_members(tree)))[mutant.variant](copy.deepcopy(place.node))
    put_at(tree, place.path, made)
    return ast.fix_missing_locations(tree)


def put_at(tree: ast.AST, path: tuple[str | int, ...], made: ast.AST | None) -> None:
    parent: Any = tree
    for step in path[:-1]:
        parent = parent[step] if isinstance(step, int) else getattr(parent, step)
    if isinstance(parent, list):
        parent[path[-1]] = made if made is not None else ast.copy_location(ast.Pass(), parent[path[-1]])
    else:
        setattr(parent, str(path[-1]), made)


def walk_places(tree: ast.Module) -> Iterator[Place]:
    """Every node that is run, in the order of the source."""
    yield from walk_under(tree, "", (), False)


def walk_under(node: ast.AST, where: str, path: tuple[str | int, ...], in_function: bool) -> Iterator[Place]:
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        inside = in_function or (isinstance(node, FUNCTIONS) and field == "body")
        within = where if in_function or field == "args" else qualified(where, node)
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for position, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED_NODES) or is_docstring(child):
                continue
            here = (*path, field) if position is None else (*path, field, position)
            if isinstance(child, ast.expr | ast.stmt | ast.comprehension):
                yield Place(child, within if inside else "", here)
            yield from walk_under(child, within, here, inside)


def line_number(node: Any) -> int:
    return node.target.lineno if isinstance(node, ast.comprehension) else node.lineno


def qualified(where: str, node: ast.AST) -> str:
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return where
    return f"{where}.{node.name}" if where else node.name


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def enum_members(tree: ast.AST) -> dict[str, list[str]]:
    """Of each enumeration that the module names, the members it names: one may be taken for the next."""
    named: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if is_member(node):
            found = named.setdefault(node.value.id, [])
            if node.attr not in found:
                found.append(node.attr)
    return named


def is_member(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr.isupper()


def variants_of(node: Any, members: dict[str, list[str]]) -> Iterator[Variant]:
    match node:
        case ast.Compare():
            yield from map(swap_comparison, range(len(node.ops)))
        case ast.BoolOp():
            yield swap_and_or
            yield from (leave_out_operand(place) for place in range(len(node.values)))
        case ast.UnaryOp(op=ast.Not()):
            yield lambda one: one.operand
        case ast.Constant(value=bool()):
            yield lambda one: ast.copy_location(ast.Constant(not one.value), one)
        case ast.Constant(value=int() | float()):
            yield from (add(more) for more in ((1, -1) if node.value else (1,)))
        case ast.Return(value=ast.expr() as value) if not is_none(value):
            yield return_none
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED_CALLS:
            yield swap_call
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not (is_text(node.left) or is_text(node.right)):
            yield swap_plus_minus
        case ast.If() | ast.IfExp():
            yield from (answer_always(answer) for answer in (True, False))
        case ast.comprehension(ifs=[_, *_]):
            yield leave_out_filter
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield lambda one: None
        case ast.Attribute() if is_member(node) and len(members[node.value.id]) > 1:
            yield swap_member(members)


def swap_comparison(place: int) -> Variant:
    def make(node: Any) -> ast.AST:
        node.ops[place] = SWAPPED_COMPARISONS[type(node.ops[place])]()
        return node

    return make


def swap_and_or(node: Any) -> ast.AST:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def leave_out_operand(place: int) -> Variant:
    def make(node: Any) -> ast.AST:
        del node.values[place]
        return node if len(node.values) > 1 else node.values[0]

    return make


def add(more: int) -> Variant:
    return lambda node: ast.copy_location(ast.Constant(node.value + more), node)


def return_none(node: Any) -> ast.AST:
    node.value = ast.copy_location(ast.Constant(None), node.value)
    return node


def swap_call(node: Any) -> ast.AST:
    node.func.id = SWAPPED_CALLS[node.func.id]
    return node


def swap_plus_minus(node: Any) -> ast.AST:
    node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    return node


def answer_always(answer: bool) -> Variant:
    """A guard that is always or never taken."""

    def make(node: Any) -> ast.AST:
        node.test = ast.copy_location(ast.Constant(answer), node.test)
        return node

    return make


def leave_out_filter(node: Any) -> ast.AST:
    node.ifs = []
    return node


def swap_member(members: dict[str, list[str]]) -> Variant:
    def make(node: Any) -> ast.AST:
        known = members[node.value.id]
        node.attr = known[(known.index(node.attr) + 1) % len(known)]
        return node

    return make


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def words(node: ast.AST) -> str:
    """One line: of a statement its first."""
    if isinstance(node, ast.comprehension):
        return ast.unparse(node).strip()
    return ast.unparse(node).splitlines()[0]
