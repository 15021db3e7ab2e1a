"""The Python of the tools: this interpreter, its standard library, and what the command line needs of other packages."""
import ast
import compileall
import importlib.metadata
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import Path

import gpufairy

PACKAGE = Path(gpufairy.__file__).resolve().parent
CLIENT_SIDE = ("cli", "client")
TAG = f".{sys.implementation.cache_tag}.pyc"
LEFT_OUT = {"..", *"test tests idlelib tkinter turtledemo ensurepip lib2to3 site-packages dist-packages native_src native_bin".split()}
LIBRARY = f"{sys.platlibdir}/python{sys.version_info.major}.{sys.version_info.minor}"  # where the interpreter looks, below its folder
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def interpreter() -> Path:
    """The program itself, not the link to it that a virtual environment has."""
    return Path("/proc/self/exe").resolve()


def standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def packages() -> list[Distribution]:
    """Those that the command line imports, with what they require in turn; sorted by name."""
    providers = importlib.metadata.packages_distributions()
    wanted = {name for module in imported_modules() for name in providers.get(module, []) if name != "gpufairy"}
    found: dict[str, Distribution] = {}
    while wanted:
        name = wanted.pop()
        try:
            known = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # for another platform, say
            continue
        found[plain_name(name)] = known
        wanted |= {needed for needed in requirements(known) if plain_name(needed) not in found}
    return [found[name] for name in sorted(found)]


def imported_modules() -> set[str]:
    found = set()
    for part in CLIENT_SIDE:
        for path in (PACKAGE / part).rglob("*.py"):
            found |= set(_imports(ast.parse(path.read_bytes())))
    return found - set(sys.stdlib_module_names)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def requirements(package: Distribution) -> Iterator[str]:
    for line in package.requires or []:
        name, _, condition = line.partition(";")
        if "extra" not in condition and (found := _REQUIREMENT.match(name.strip())) is not None:
            yield found.group()


def plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def copy_python(root: Path, chosen: Iterable[Distribution]) -> list[Path]:
    """Into `root`; says which compiled modules there are, for their libraries. Packages lie beside the standard library: there they are
    found whatever a distribution has changed about site-packages."""
    library = root / LIBRARY
    shutil.copytree(standard_library(), library, ignore=_left_out)
    for package in chosen:
        for file in package.files or []:
            source = Path(str(package.locate_file(file)))
            if source.is_file() and not _left_out("", list(file.parts)):
                (library / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, library / file)
    shutil.copytree(PACKAGE, library / "gpufairy", ignore=_left_out)
    # In a read-only folder nothing can be compiled later, and every start would do it anew. What is compiled already is left as it is.
    compileall.compile_dir(library, quiet=2, maxlevels=20)
    return sorted(library.rglob("*.so"))


def _left_out(_: str, names: list[str]) -> set[str]:
    """As copytree asks; a `..` is a script that a package puts elsewhere."""
    return {
        name for name in names
        if name in LEFT_OUT or name.startswith(("config-", "_tkinter.")) or name.endswith((".a", ".exe"))
        or (name.startswith("_test") and name.endswith(".so"))
        or (name.endswith(".pyc") and not name.endswith(TAG))
    }  # fmt: skip
