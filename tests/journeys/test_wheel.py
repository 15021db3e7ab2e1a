"""The wheel: made by one command, the same each time, and all that is needed to run a session from an environment of its own."""
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from bench.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.system]

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "deploy" / "wheel" / "build.py"


def made(folder: Path) -> Path:
    done = subprocess.run([sys.executable, BUILD, "--out", folder], capture_output=True, text=True, timeout=60, check=True)
    return Path(done.stdout.strip())


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


def test_the_same_sources_give_the_same_wheel(wheel, tmp_path):
    assert made(tmp_path).read_bytes() == wheel.read_bytes()


def test_pages_catalogues_migrations_settings_and_native_sources_are_in_it(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        assert packed.testzip() is None
    for part in (
        "gpufairy/web/templates/frame.html", "gpufairy/web/static/look.css", "gpufairy/web/catalogues/ko.po", "gpufairy/web/settings.md",
        "gpufairy/store/migrations/versions/rev_0001_first_tables.py", "gpufairy/native_src/porter.c", "gpufairy/native_src/share/share.h",
    ):  # fmt: skip
        assert part in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


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
    built = "import sys; from pathlib import Path; from gpufairy.engines.build_native import build; print(build(Path(sys.argv[1])).porter.exists())"
    native = subprocess.run([environment / "bin" / "python", "-c", built, tmp_path / "native"], env=env, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert native.stdout == "True\n", native.stderr
