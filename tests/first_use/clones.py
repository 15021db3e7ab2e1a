"""Clones to try the first command in, and machines to try it on: a PATH with few programs, a home of its own.

A small clone has the real `fairy` and `.setup` and one package, made here, as its lock: what is tried is how environments are made,
with no network. A whole one is what `git clone` gives of this tree, with its own lock, and takes the package index.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
# All that `fairy` and `.setup` start, besides a Python.
TOOLS = ("sh", "dirname", "readlink", "cksum", "rm", "cp", "ln", "sed", "grep")
PACKAGE, VERSION = "tiny", "1.0"
NOBODY = 65534  # an account that owns nothing
LONGEST_S = 600  # for a whole environment from a slow index
PROGRAM = '''import importlib, sys
for line in sys.stdin if "wait" in sys.argv else ["tiny"]:
    print("hello from", importlib.import_module(line.strip()).WORDS, flush=True)
'''


@dataclass
class Clone:
    folder: Path
    env: dict[str, str]
    user: int | None = None  # None: whoever runs the tests
    umask: int = -1
    prefix: Sequence[str] = field(default_factory=tuple)

    def start(self, *words: object, **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.prefix, str(self.folder / "fairy"), *map(str, words)], env=self.env, text=True, cwd="/", umask=self.umask,
            stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=self.user,
            group=self.user, extra_groups=None if self.user is None else [], **options,
        )  # fmt: skip

    def call(self, *words: object) -> subprocess.CompletedProcess[str]:
        program = self.start(*words)
        try:
            out, err = program.communicate(timeout=LONGEST_S)
        finally:
            program.kill()
        return subprocess.CompletedProcess(program.args, program.returncode, out, err)

    def works(self, *words: object) -> str:
        done = self.call(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def only_sentence(self, *words: object) -> str:
        """What a call says that fails; that an environment is being made was said before."""
        done = self.call(*words)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert done.stdout == ""
        lines = [line for line in done.stderr.splitlines() if "first use" not in line]
        assert len(lines) == 1, done.stderr
        return lines[0]

    def environments(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob(".venv*") if not path.is_symlink())

    def change_lock(self, words: str) -> None:
        with (self.folder / "requirements.lock").open("a") as lock:
            lock.write(f"# {words}\n")


def small_clone(folder: Path) -> Clone:
    """One package in its lock, and a program that says hello from it; with `wait`, from each module named on its input."""
    shelf, home = folder / "shelf", folder / "home"
    clone = folder / "clone"
    for made in (shelf, home, clone / "src" / "gpufairy"):
        made.mkdir(parents=True)
    for name in ("fairy", ".setup"):
        shutil.copy(ROOT / name, clone / name)
    wheel = make_wheel(shelf)
    (clone / "requirements.lock").write_text(lock_line(wheel))
    (clone / "pyproject.toml").write_text(f'[project]\nname = "small"\nversion = "1"\ndependencies = ["{PACKAGE}>=1"]\n')
    (clone / "src" / "gpufairy" / "__main__.py").write_text(PROGRAM)
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "FAIRY_PYTHON": own_python(), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf.as_uri(),
        "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1",
    }  # fmt: skip
    return Clone(clone, env)


def make_wheel(shelf: Path) -> Path:
    about = f"{PACKAGE}-{VERSION}.dist-info"
    parts = {
        f"{PACKAGE}.py": f'WORDS = "{PACKAGE}"\n',
        "later.py": 'WORDS = "one that was loaded later"\n',
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = shelf / f"{PACKAGE}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
        file.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in (*parts, f"{about}/RECORD")))
    return wheel


def lock_line(wheel: Path) -> str:
    return f"{PACKAGE}=={VERSION} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def whole_clone(folder: Path, home: Path) -> Clone:
    """What is committed, and what has been changed since. pip may use what the machine tells it, and keeps what it fetched."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, capture_output=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard", "--", "fairy", ".setup", "src", "pyproject.toml", "*.lock"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("_proxy")}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufairy-tests" / "pip"
    return Clone(folder, {"PATH": os.environ["PATH"], "HOME": str(home), "PIP_CACHE_DIR": str(cache), **kept})


def tools_only(folder: Path, *tools: str) -> str:
    """A PATH on which nothing else is."""
    folder.mkdir()
    for tool in tools:
        found = shutil.which(tool)
        assert found, tool
        (folder / tool).symlink_to(found)
    return str(folder)


def own_python() -> str:
    """The one that the tests run by, not the environment that it made."""
    return os.path.realpath(sys.executable)


def pythons() -> dict[str, str]:
    """Each supported one that is found, by its version: on the PATH, and among pyenv's, whether switched on or not."""
    found = {}
    for version in SUPPORTED:
        shelves = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")]
        shim = shutil.which(f"python{version}")
        if shim and "/shims/" in shim:
            shelves.append(Path(shim.partition("/shims/")[0]))
        candidates = [shim, *(str(path) for shelf in shelves for path in sorted(shelf.glob(f"versions/{version}.*/bin/python{version}")))]
        usable = next((path for path in candidates if path and starts(path)), None)
        if usable:
            found[version] = usable
    return found


def starts(python: str) -> bool:
    return subprocess.run([python, "-c", "import ssl, sqlite3, ctypes, ensurepip"], capture_output=True, check=False).returncode == 0


def everybodys_python() -> str | None:
    """One that an account without rights may start."""
    for path in (*pythons().values(), "/usr/bin/python3"):
        real = Path(path).resolve()
        version = real.name.removeprefix("python")
        if version in SUPPORTED and starts(str(real)) and all(folder.stat().st_mode & 0o001 for folder in real.parents):
            return str(real)
    return None


@contextmanager
def open_folder() -> Iterator[Path]:
    """One that every account may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="fairy-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        yield Path(name)
