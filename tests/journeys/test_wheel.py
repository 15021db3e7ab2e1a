"""The wheel: made by one command, the same each time, and all that is needed to run a session from an environment of its own."""
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from bench.ports import free_port

from gpufairy import __version__
from gpufairy.engines.native_parts import PARTS

pytestmark = [pytest.mark.slow, pytest.mark.system]

ROOT = Path(__file__).parents[2]
NO_ARM = "no compiler for aarch64 (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"


def made(folder: Path, kind: str = "wheel", source: Path = ROOT, path: str | None = None) -> Path:
    """`path`: the PATH of whoever makes it."""
    env = {**os.environ, **({} if path is None else {"PATH": path})}
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    subprocess.run(build, cwd=source, env=env, capture_output=True, text=True, timeout=240, check=True)
    [found] = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return made(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh one with this wheel alone; what it depends on is lent by the one that runs the tests."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=120, env=without_python_path())
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True)
    (Path(site.stdout.strip()) / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def without_python_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith(("FAIRY_", "XDG_"))}


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        assert packed.testzip() is None
        return set(packed.namelist())


def test_the_same_sources_give_the_same_wheel(wheel, tmp_path):
    assert made(tmp_path).read_bytes() == wheel.read_bytes()


def test_pages_catalogues_migrations_settings_and_native_sources_are_in_it(wheel):
    names = names_in(wheel)
    for part in (
        "gpufairy/web/templates/frame.html", "gpufairy/web/static/look.css", "gpufairy/web/catalogues/ko.po", "gpufairy/web/settings.md",
        "gpufairy/store/migrations/versions/rev_0001_first_tables.py", "gpufairy/native_src/porter.c", "gpufairy/native_src/share/share.h",
        "gpufairy/py.typed", "gpufairy/web/static/xterm.LICENSE", f"gpufairy-{__version__}.dist-info/licenses/NOTICE",
    ):  # fmt: skip
        assert part in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "deploy/"))]
    tracked = subprocess.run(["git", "ls-files", "src/gpufairy"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert {name.removeprefix("src/") for name in tracked} - names == set()


def test_it_says_who_made_it_what_it_needs_and_leads_nowhere_that_is_not(wheel):
    with zipfile.ZipFile(wheel) as packed:
        told = message_from_bytes(packed.read(f"gpufairy-{__version__}.dist-info/METADATA"))
        assert b"Tag: py3-none-any\n" in packed.read(f"gpufairy-{__version__}.dist-info/WHEEL")
    assert (told["Name"], told["Version"], told["Author"]) == ("gpufairy", __version__, "The gpufairy authors")
    assert "Apache-2.0" in told["License-Expression"]
    assert {"asyncssh<2.25,>=2.24.0", "markupsafe>=3.0", "starlette>=1.0", "uvicorn<0.55,>=0.54"} <= set(told.get_all("Requires-Dist"))
    assert "Typing :: Typed" in told.get_all("Classifier")
    assert "](docs/" not in told.get_payload()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_native_parts_come_ready_for_each_machine_that_a_compiler_is_found_for(wheel, machine):
    if shutil.which("cc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc") is None:
        pytest.skip(NO_ARM)
    kind = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}[machine]
    with zipfile.ZipFile(wheel) as packed:
        for name in PARTS:
            member = packed.getinfo(f"gpufairy/native_bin/{machine}/{name}")
            head = packed.read(member)[:20]
            assert (head[:4], head[18:20], stat.S_IMODE(member.external_attr >> 16)) == (b"\x7fELF", kind, 0o755), name


def test_what_is_ready_for_aarch64_runs_there(wheel, tmp_path):
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip(NO_ARM)
    if emulator is None:
        pytest.skip("no emulator of aarch64 (apt-get install qemu-user-static)")
    for name in ("porter", "disk-walk"):
        with zipfile.ZipFile(wheel) as packed:
            (tmp_path / name).write_bytes(packed.read(f"gpufairy/native_bin/aarch64/{name}"))
        (tmp_path / name).chmod(0o755)
    refused = subprocess.run([emulator, tmp_path / "porter"], capture_output=True, text=True, timeout=60, check=False)
    assert "runs only as the first process of a container" in refused.stderr
    walked = subprocess.run([emulator, tmp_path / "disk-walk"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert walked.returncode >= 0, "it was killed"


def test_where_no_compiler_is_the_wheel_is_made_without_them(tmp_path):
    (tmp_path / "bin").mkdir()
    names = names_in(made(tmp_path / "dist", path=str(tmp_path / "bin")))
    assert not [name for name in names if "native_bin" in name]
    assert "gpufairy/native_src/porter.c" in names


def test_a_wheel_made_from_the_packed_sources_is_the_same(wheel, tmp_path):
    with tarfile.open(made(tmp_path / "dist", "sdist")) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    assert not (source / "tests").exists()
    assert made(tmp_path / "again", source=source).read_bytes() == wheel.read_bytes()


def test_a_session_runs_from_an_installed_wheel(environment, tmp_path):
    env = {**without_python_path(), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}

    def fairy(*arguments: str) -> str:
        done = subprocess.run(["fairy", *arguments], env=env, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run([environment / "bin" / "python", "-c", "import gpufairy; print(gpufairy.__file__)"], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert where.stdout.startswith(str(environment))
    assert fairy("--version").startswith("fairy ")
    fairy("up", "-d", "--engine", "process", "--data", str(tmp_path / "data"), "--port", str(free_port()), "--ssh-port", str(free_port()))
    try:
        assert fairy("run", "--gpus", "0.5", "--", "sh", "-c", "echo from the wheel") == "from the wheel\n"
        assert "read back and found whole" in fairy("backup")
    finally:
        fairy("down", "--sessions", "--data", str(tmp_path / "data"))


BUILT = "import sys; from pathlib import Path; from gpufairy.engines.build_native import build; print(build(Path(sys.argv[1])).porter)"


def test_an_installed_wheel_has_its_native_parts_ready_and_compiles_them_where_its_source_was_changed(environment, tmp_path):
    def porter(path: str) -> Path:
        env = {**without_python_path(), "PATH": path}
        done = subprocess.run([environment / "bin" / "python", "-c", BUILT, tmp_path / "native"], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
        return Path(done.stdout.strip())

    ready = porter(str(tmp_path / "no compiler"))
    assert (ready.parent.name, ready.is_relative_to(environment)) == (platform.machine(), True)
    said = subprocess.run([ready], capture_output=True, text=True, timeout=60, check=False)
    assert "runs only as the first process of a container" in said.stderr
    header = ready.parents[2] / "native_src" / "porter.h"
    header.write_text(f"{header.read_text()}/* changed */\n")
    assert porter(os.environ["PATH"]).is_relative_to(tmp_path / "native")
