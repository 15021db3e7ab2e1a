"""The native programs (porter, launcher, libraries for tools and shares): shipped ones if there are, else compiled once into a cache."""
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.doctor_os import Os, install_compiler, parse_os_release
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.native_parts import DISK_WALK, FLAGS, PARTS, Arguments, hash_of
from gpufairy.engines.native_shipped import find_shipped

PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED = PACKAGE / "native_bin"  # where a wheel or an image brings them ready
SOURCES = (PACKAGE / "native_src", PACKAGE.parents[1] / "native")  # in a wheel, in a clone
OS_RELEASE = Path("/etc/os-release")
LONGEST_COMPILE_S = 120  # a few seconds on a machine that has nothing else to do


@dataclass(frozen=True, slots=True)
class Native:
    porter: Path  # static: runs in any image of this kind of machine
    step: Path  # static too
    launcher: Path  # static too
    user_library: Path  # for this machine's own glibc
    share_library: Path  # for any glibc since 2.17
    probe: Path  # static too: of the isolation self-test


def build(folder: Path) -> Native:
    """In `folder`, unless they are there already. Takes a few seconds the first time: call it from a thread."""
    return _native(_built(folder, "native", PARTS))


def build_disk_walk(folder: Path) -> Path:
    """The one of them that is needed without containers too."""
    try:
        return _built(folder, "disk-walk", {DISK_WALK: PARTS[DISK_WALK]}) / DISK_WALK
    except EngineRefused as error:
        found = error.detail.replace("the porter", "the program that walks through folders")
        raise EngineRefused(found, error.next_step) from error


def _built(folder: Path, kind: str, parts: Mapping[str, Arguments]) -> Path:
    shipped = shipped_parts(parts)
    if shipped is not None:
        return shipped
    sources = find_sources()
    made = folder / f"{kind}-{hash_of(sources, platform.machine())}"
    if not made.exists():
        compile_into(made, sources, parts, _compiler())
    return made


def shipped_parts(parts: Iterable[str] = PARTS) -> Path | None:
    """The folder that has them ready for this machine; None: they are compiled here."""
    sources = next((folder for folder in SOURCES if (folder / "porter.c").exists()), None)
    return find_shipped(SHIPPED, parts, None if sources is None else hash_of(sources, platform.machine()))


def _native(folder: Path) -> Native:
    return Native(
        porter=folder / "porter", step=folder / "step", launcher=folder / "launcher", user_library=folder / "fairy-user.so",
        share_library=folder / "libfairyshare.so", probe=folder / "probe-static",
    )  # fmt: skip


def find_sources() -> Path:
    for folder in SOURCES:
        if (folder / "porter.c").exists():
            return folder
    raise EngineRefused(f"the porter's source is in none of {', '.join(map(str, SOURCES))}", "Install gpufairy again.")


def _compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise EngineRefused("the porter cannot be built: there is no C compiler (cc) on this machine", _how_to_get_compiler())
    return compiler


def _how_to_get_compiler() -> str:
    try:
        here = parse_os_release(OS_RELEASE.read_text(errors="replace"), root=os.geteuid() == 0)
    except OSError:
        here = Os()
    return "; ".join(install_compiler(here))


def compile_into(made: Path, sources: Path, parts: Mapping[str, Arguments], compiler: str) -> None:
    """Beside its place, then renamed: a build cut short, or another server's at the same time, is never taken for a whole one."""
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".native-", dir=made.parent))
    except OSError as error:
        raise EngineRefused(f"the porter cannot be built in {made.parent}: {error}", "Choose another folder by --data.") from error
    try:
        for name, arguments in parts.items():
            _run([compiler, *FLAGS, "-o", str(beside / name), *arguments], sources, beside)
            (beside / name).chmod(0o755)
        beside.chmod(0o755)
        _rename(beside, made)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _rename(beside: Path, made: Path) -> None:
    try:
        os.rename(beside, made)
    except OSError as error:
        if not made.exists():  # nobody else was faster
            raise EngineRefused(f"the porter could not be put at {made}: {error}") from error


def _run(command: list[str], sources: Path, scratch: Path) -> None:
    """`scratch`: for what the compiler puts aside; a service may be allowed to write its own folder alone."""
    env = {**os.environ, "TMPDIR": str(scratch)}
    try:
        done = subprocess.run(command, cwd=sources, env=env, capture_output=True, text=True, timeout=LONGEST_COMPILE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineRefused(f"the porter cannot be built: {error}", _how_to_get_compiler()) from error
    if done.returncode != 0:
        raise EngineRefused(f"the porter cannot be built in {sources}: {_complaint(done.stderr)}", _how_to_get_compiler())


def _complaint(words: str) -> str:
    """The line that says what is missing, as "cannot find -lc" does; gcc's own last one only says that there was something."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next((line for line in lines if "cannot find" in line or "error:" in line), lines[-1] if lines else "no words")
