"""Swap: puts a mutant into a process in which the product is loaded already. Nothing on disk is touched."""

import ast
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType


def swap_functions(tree: ast.Module, file: str) -> None:
    """Every function that was made from the file gets its code from the tree; lines kept their numbers."""
    codes = {key_of(code): code for code in inner_codes(compile(tree, file, "exec", dont_inherit=True))}
    for function in [one for one in gc.get_objects() if type(one) is FunctionType]:
        code = function.__code__
        new = codes.get(key_of(code)) if code.co_filename == file else None
        if new is not None and len(new.co_freevars) == len(code.co_freevars):
            function.__code__ = new


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner_codes(constant)


def key_of(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def swap_values(tree: ast.Module, module: str, lineno: int) -> bool:
    """A constant of the module, also where others have imported it. False: the line sets none."""
    statement = next((one for one in tree.body if one.lineno <= lineno <= (one.end_lineno or 0)), None)
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    before = vars(sys.modules[module])
    after = dict(before)
    exec(compile(ast.Module([statement], []), module, "exec"), after)
    changed = [name for name in before if name in after and after[name] is not before[name]]
    for name in changed:
        old = before[name]
        for other in list(sys.modules.values()):
            if getattr(other, "__dict__", {}).get(name) is old:
                setattr(other, name, after[name])
    return bool(changed)
