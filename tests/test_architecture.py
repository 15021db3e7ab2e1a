"""The shape of the code base, as tests. A failure names the file and the rule."""
import ast
import functools
import gc
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "gpufairy"
LAYERS = [  # a package may import only packages on lines below its own
    {"main", "__main__"},
    {"api", "web", "gateway", "node", "cli", "tui"},
    {"control", "client"},
    {"store", "engines", "devices", "couriers"},
    {"wire"},
    {"core"},
]
LEVEL = {name: depth for depth, names in enumerate(LAYERS) for name in names}
FORBIDDEN_IN_CORE = {"now", "utcnow", "today", "time", "monotonic", "sleep", "open", "getenv", "uuid4", "random", "print", "input"}
BROAD_EXCEPT_ALLOWED = {"control/loop.py"}
# Others go by engines/beneath.py: a program with its user's own rights; folders of the host's alone, which are no user's.
OPENS_BY_STEPS = {"engines/beneath.py", "engines/home_files.py", "node/textfile.py", "node/terminals.py"}
CLIENT_SIDE = {"cli", "client"}
HEAVY = {"fastapi", "starlette", "pydantic", "sqlalchemy", "alembic", "uvicorn"}


def modules():
    return [path for path in ROOT.rglob("*.py") if path.stat().st_size]


def package(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


@functools.cache
def nodes(path):
    gc.disable()  # millions of nodes that stay: looking for garbage among them takes as long as reading them
    try:
        return list(ast.walk(ast.parse(path.read_text())))
    finally:
        gc.freeze()
        gc.enable()


def imports(path):
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def functions(path):
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_every_package_has_its_place():
    for path in modules():
        assert package(path) in LEVEL or package(path) == "__init__", f"{path}: add {package(path)} to LAYERS"


def test_imports_point_downwards():
    for path in modules():
        here = package(path)
        for name in imports(path):
            assert not name.startswith("."), f"{path}: relative import {name}"
            there = name.split(".")[1] if name.startswith("gpufairy.") else here
            if there != here and there in LEVEL and here in LEVEL:
                assert LEVEL[there] > LEVEL[here] or here in ("main", "__main__"), f"{path}: {here} may not import {there}"
                assert there != "main", f"{path}: nobody imports main"


def test_core_imports_only_itself_numpy_and_the_standard_library():
    for path in modules():
        if package(path) == "core":
            for name in imports(path):
                known = name.startswith("gpufairy.core") or name.split(".")[0] in {*sys.stdlib_module_names, "numpy"}
                assert known, f"{path}: {name}"


def test_core_never_asks_the_outside_world():
    for path in modules():
        if package(path) == "core":
            for node in nodes(path):
                if isinstance(node, ast.Call):
                    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    assert called not in FORBIDDEN_IN_CORE, f"{path}:{node.lineno}: {called}() belongs in the shell"


def test_the_client_side_stays_light():
    for path in modules():
        if package(path) in CLIENT_SIDE:
            heavy = {name.split(".")[0] for name in imports(path)} & HEAVY
            assert not heavy, f"{path}: {heavy} makes every command slow"


def test_modules_stay_small():
    sizes = {path: len(path.read_text().splitlines()) for path in modules()}
    assert max(sizes.values()) <= 400, max(sizes, key=sizes.get)
    assert statistics.median(sizes.values()) <= 120


def test_functions_stay_small():
    """Routes are declared inside one function a module; what counts there are the functions inside."""
    for path in modules():
        for node in functions(path):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n is not node]
            size = node.end_lineno - node.lineno + 1 - sum(n.end_lineno - n.lineno + 1 for n in inner)
            assert size <= 50, f"{path}:{node.lineno} {node.name}: {size} lines"


def test_no_import_hides_in_a_function():
    for path in modules():
        for node in functions(path):
            hidden = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not hidden, f"{path}:{node.lineno} {node.name}"


def test_any_exception_is_caught_in_one_place_alone():
    for path in modules():
        if str(path.relative_to(ROOT)) in BROAD_EXCEPT_ALLOWED:
            continue
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler):
                caught = getattr(node.type, "id", "")
                assert node.type is not None, f"{path}:{node.lineno}"
                assert caught not in ("Exception", "BaseException"), f"{path}:{node.lineno}"


def test_nobody_waits_in_a_way_that_swallows_its_own_end():
    """Python 3.11's wait_for forgets that it was cancelled if what it waits for comes in the same moment: the server would never end."""
    for path in modules():
        for node in nodes(path):
            assert not (isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"), f"{path}:{node.lineno}: by asyncio.timeout"


def test_nobody_writes_in_a_way_that_is_never_told_to_wait():
    """Transports of Python 3.12 and 3.13 take any amount by writelines, and keep it in memory (CVE-2024-12254)."""
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "writelines":
                assert not ast.unparse(node.value).endswith(("writer", "transport")), f"{path}:{node.lineno}: by write"


def test_what_users_may_change_is_opened_in_one_way_alone():
    for path in modules():
        if str(path.relative_to(ROOT)) in OPENS_BY_STEPS:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.open":
                assert all(word.arg != "dir_fd" for word in node.keywords), f"{path}:{node.lineno}: by engines/beneath.py"


def test_every_module_says_what_belongs_in_it():
    for path in modules():
        words = ast.get_docstring(nodes(path)[0])
        assert words, f"{path} has no docstring"
        assert len(words.splitlines()) <= 6, f"{path}: its docstring is long"


def test_no_two_files_of_tests_have_the_same_name():
    """Pytest imports them by their bare names, and takes the second for the first."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert {name for name in names if names.count(name) > 1} == set()
