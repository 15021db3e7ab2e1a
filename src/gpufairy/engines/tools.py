"""The tools that every container finds at /opt/fairy: this machine's own programs, with their loader and libraries, for any image.

Made once into FOLDER/HASH: what it was made from is in the hash, so another version gets another folder and running containers keep theirs.
"""
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.build_native import Native, build
from gpufairy.engines.sftp_server import SFTP_SERVERS
from gpufairy.engines.tools_libraries import libraries_of, usable_loader
from gpufairy.engines.tools_python import PACKAGE, copy_python, interpreter, packages

FORMAT = "2"  # raise it when the same parts are to be laid out another way
PROGRAMS = {  # each: where it may be, and the package of Debian and Ubuntu that has it
    "bash": (("bash",), "bash"),
    "less": (("less",), "less"),
    "rsync": (("rsync",), "rsync"),
    "scp": (("scp",), "openssh-client"),
    "sftp-server": (SFTP_SERVERS, "openssh-sftp-server"),
    "tar": (("tar",), "tar"),
    "tmux": (("tmux",), "tmux"),
}
TERMINALS = ("xterm", "screen", "tmux", "linux", "vt100", "vt220", "ansi", "dumb", "rxvt", "alacritty", "foot", "kitty")
TERMINFO = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo")
LOCALES = ("/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8")
# An image's /etc/profile sets PATH anew: what the image itself has put on it (conda), and our tools, would be lost in login shells.
PROFILE = """[ -z "${FAIRY_PATH-}" ] || { PATH=$FAIRY_PATH; export PATH; }\n"""
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Tools:
    folder: Path  # to be mounted, read-only, at /opt/fairy
    missing: dict[str, str]  # programs that this machine lacks, and how it gets them

    @property
    def porter(self) -> Path:
        return self.folder / "bin" / "porter"


def build_tools(folder: Path, say: Callable[[str], None] = lambda _: None) -> Tools:
    """Takes some seconds the first time: call it from a thread. Raises EngineRefused if there can be no porter; all else may be missing."""
    native = build(folder)
    programs = found_programs()
    missing = {name: f"apt-get install {package}" for name, (_, package) in PROGRAMS.items() if name not in programs}
    made = folder / _hash(native, programs)
    if not made.exists():
        say("making the tools for sessions, once")
        _make(made, native, programs)
    return Tools(made, missing)


def found_programs() -> dict[str, Path]:
    found = {}
    for name, (candidates, _) in PROGRAMS.items():
        path = next((path for candidate in candidates if (path := shutil.which(candidate, path=os.environ.get("PATH", USUAL_PATH)))), None)
        if path is not None:
            found[name] = Path(path).resolve()
    return found


def _hash(native: Native, programs: dict[str, Path]) -> str:
    parts = hashlib.sha256(f"{FORMAT} {native.porter.parent.name}".encode())
    for path in (interpreter(), *programs.values()):
        found = path.stat()
        parts.update(f"\0{path} {found.st_size} {found.st_mtime_ns}".encode())
    for package in packages():
        parts.update(f"\0{package.name} {package.version}".encode())
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            parts.update(f"\0{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    return parts.hexdigest()[:16]


def _make(made: Path, native: Native, programs: dict[str, Path]) -> None:
    """Beside its place, then renamed: half a folder is never taken for a whole one."""
    with _folder_beside(made) as beside:
        for name in ("bin", "lib", "libexec", "share"):
            (beside / name).mkdir()
        shutil.copy(native.porter, beside / "bin" / "porter")
        shutil.copy(native.step, beside / "bin" / "step")
        loader = usable_loader(interpreter())
        objects = [*programs.values(), interpreter(), native.user_library, *copy_python(beside, packages())]
        for name, path in {**programs, "python3": interpreter()}.items():
            shutil.copy(path, beside / "libexec" / name)
        for name, path in libraries_of(loader, objects).items():
            shutil.copy(path, beside / "lib" / name)
        shutil.copy(loader, beside / "lib" / "ld.so")
        shutil.copy(native.user_library, beside / "lib" / "fairy-user.so")
        shutil.copy(native.share_library, beside / "lib" / "libfairyshare.so")
        shutil.copy(native.probe, beside / "libexec" / "probe-static")
        _put_launchers(beside / "bin", native.launcher, [*programs, "python3", "fairy"])
        _copy_terminals_and_locale(beside)
        (beside / "share" / "profile.sh").write_text(PROFILE)
        _open_to_all(beside)


@contextlib.contextmanager
def _folder_beside(made: Path) -> Iterator[Path]:
    try:
        made.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".tools-", dir=made.parent))
        try:
            yield beside
            os.rename(beside, made)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        if not made.exists():  # else another server made it meanwhile
            raise EngineRefused(f"the tools for sessions cannot be made in {made.parent}: {error}", "Free room there.") from error


def _put_launchers(folder: Path, launcher: Path, names: list[str]) -> None:
    """One file under all names: it looks at the one it was started by."""
    shutil.copy(launcher, folder / names[0])
    for name in names[1:]:
        os.link(folder / names[0], folder / name)


def _copy_terminals_and_locale(root: Path) -> None:
    for source in map(Path, TERMINFO):
        for entry in source.glob("*/*"):
            target = root / "share" / "terminfo" / entry.parent.name / entry.name
            if entry.name.startswith(TERMINALS) and entry.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(entry, target)
    for locale in map(Path, LOCALES):
        if locale.is_dir():
            shutil.copytree(locale, root / "lib" / "locale" / locale.name)


def _open_to_all(root: Path) -> None:
    """Every session's uid reads them; nobody's rights change by running one."""
    root.chmod(0o755)
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        runnable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if runnable else 0o644)
